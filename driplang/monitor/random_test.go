package monitor

import (
	"fmt"
	"strings"
)

// chooser makes choices from a fuzzer's bytes. Without more bytes it chooses 0, which ends every
// choice.
type chooser struct {
	bytes []byte
}

func (c *chooser) below(n int) int {
	if len(c.bytes) == 0 || n < 2 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

// expression returns the text of a random expression with small times and few names, so that events
// often coincide.
func (c *chooser) expression(depth int, anchored bool) string {
	choice := c.below(16)
	if depth <= 0 {
		choice = 0
	}
	sub := func(anchored bool) string { return "(" + c.expression(depth-1, anchored) + ")" }
	switch {
	case choice < 3:
		return c.name()
	case choice < 5:
		return "NOT " + sub(anchored)
	case choice < 6:
		return c.count(anchored)
	case choice < 8:
		return c.joined(" AND ", func(int) string { return sub(anchored) })
	case choice < 10:
		return c.joined(" OR ", func(int) string { return sub(anchored) })
	case choice < 14 || !anchored:
		return c.joined(" THEN ", func(i int) string { return sub(anchored || i > 0) })
	case choice < 15:
		return sub(anchored) + c.millis(" WITHIN ", 7)
	}
	return sub(anchored) + c.millis(" AFTER ", 4)
}

func (c *chooser) joined(word string, operand func(i int) string) string {
	operands := make([]string, 2+c.below(7)/5)
	for i := range operands {
		operands[i] = operand(i)
	}
	return strings.Join(operands, word)
}

func (c *chooser) millis(word string, most int) string {
	return fmt.Sprintf("%s%dms", word, 1+c.below(most))
}

func (c *chooser) name() string {
	name := string(rune('A' + c.below(4)))
	switch c.below(12) {
	case 10:
		return name + "[x > 0]"
	case 11:
		return name + "[x = 1 OR y = null]"
	}
	return name
}

func (c *chooser) count(anchored bool) string {
	is := []string{">=", ">", "=", "<", "<=", "!="}[c.below(6)]
	text := fmt.Sprintf("count(%s) %s %d", c.name(), is, 1+c.below(3))
	if !anchored && c.below(2) > 0 && is[0] == '>' {
		return text + c.millis(" WITHIN ", 7)
	}
	return text
}

// history returns a few events, often several at one instant.
func (c *chooser) history(most int) []testEvent {
	var history []testEvent
	at := int64(0)
	for range c.below(most + 1) {
		at += []int64{0, 1, 1, 2, 3, 5}[c.below(6)]
		data := []string{``, `{"x":0}`, `{"x":1}`, `{"y":2,"x":2}`}[c.below(4)]
		history = append(history, testEvent{string(rune('A' + c.below(4))), at, data})
	}
	return history
}
