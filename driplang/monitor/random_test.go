package monitor

import (
	"fmt"

	"github.com/sebbroker/seb/test/driplangtest"
)

// chooser makes choices from a fuzzer's bytes.
type chooser struct {
	driplangtest.Chooser
}

func chooserOf(bytes []byte) *chooser { return &chooser{driplangtest.Chooser{Bytes: bytes}} }

func seeded(seed uint64) *chooser { return &chooser{*driplangtest.Random(seed)} }

func (c *chooser) name() string { return c.Expression(0, false) }

func (c *chooser) millis(word string, most int) string {
	return fmt.Sprintf("%s%dms", word, 1+c.Below(most))
}

// history returns a few events, often several at one instant.
func (c *chooser) history(most int) []testEvent {
	var history []testEvent
	at := int64(0)
	for range c.Below(most + 1) {
		at += []int64{0, 1, 1, 2, 3, 5}[c.Below(6)]
		data := []string{``, `{"x":0}`, `{"x":1}`, `{"y":2,"x":2}`}[c.Below(4)]
		history = append(history, testEvent{string(rune('A' + c.Below(4))), at, data})
	}
	return history
}
