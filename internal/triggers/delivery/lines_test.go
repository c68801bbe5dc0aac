package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/test/check"
)

// pending are firings named by entity and number, such as "a1 b1 a2".
func pending(names string) (list []rules.Firing) {
	for _, name := range strings.Fields(names) {
		list = append(list, rules.Firing{Entity: name[:1], Trigger: name})
	}
	return list
}

// takes takes all firings that are ready.
func (l *lines) takes() string {
	var names []string
	for x := l.next(); x != nil; x = l.next() {
		names = append(names, x.Trigger)
	}
	return strings.Join(names, " ")
}

func passes(except []string) string {
	slices.Sort(except)
	return strings.Join(except, " ")
}

func TestLines(t *testing.T) {
	l := newLines()
	l.begin(true)
	l.fill(true, pending("a1 a2 b1 a3 c1"), 100)
	check.Equalf(t, l.takes(), "a1 b1 c1", "one of each entity")
	l.free("a")
	l.free("b")
	check.Equalf(t, l.takes(), "a2", "the next one of a free entity")

	check.Equalf(t, passes(l.begin(true)), "a c", "busy entities are passed")
	l.fill(true, pending("b2 d1 b3"), 100)
	l.free("a")
	check.Equalf(t, l.takes(), "a3 b2 d1", "lines of busy entities are kept, and first when they are free")

	check.Equalf(t, passes(l.begin(false)), "a b c d", "passed since the first firing")
	l.free("b") // ends during the reading
	check.Equalf(t, l.takes(), "b3", "the next one during a reading")
	l.fill(false, pending("e1"), 100)
	check.Equalf(t, l.takes(), "e1", "a reading adds")
	l.free("b")
	check.Equalf(t, l.takes(), "", "the line has ended")
	check.Equalf(t, passes(l.begin(false)), "a b c d e", "its other firings were passed")
	l.fill(false, nil, 100)
	check.Equalf(t, passes(l.begin(true)), "a c d e", "a reading from the first firing passes only busy ones")
	l.fill(true, pending("b4"), 100)
	check.Equalf(t, l.takes(), "b4", "and finds the others")
}

// TestLinesDuringReading: a reading returns firings as they were when it began. Those of entities of
// which one has begun or ended since then are not read twice, and no later one overtakes it.
func TestLinesDuringReading(t *testing.T) {
	l := newLines()
	l.begin(true)
	l.fill(true, pending("a1 a2 b1"), 100)
	l.begin(true)
	check.Equalf(t, l.takes(), "a1 b1", "during a reading")
	l.free("b")
	l.touch("b")
	l.fill(true, pending("a1 a2 a3 b1 b2 c1"), 100)
	check.Equalf(t, l.takes(), "c1", "entities without a change")
	l.forget("a")
	l.free("a") // without an attempt
	check.Equalf(t, l.takes(), "", "the line of a message that was not sent")
	l.begin(true)
	l.fill(true, pending("a1 a2 b2"), 100)
	check.Equalf(t, l.takes(), "a1 b2", "the next reading")
}

// TestLinesAreBounded: long lines are cut, and what they lose is read again in order.
func TestLinesAreBounded(t *testing.T) {
	l := newLines()
	l.begin(true)
	var names strings.Builder
	for i := range 9 {
		fmt.Fprintf(&names, "a%d b%d ", i, i)
	}
	l.fill(true, pending(names.String()), 8)
	check.Equalf(t, passes(l.begin(false)), "a b", "entities with cut lines are passed")
	l.fill(false, nil, 8)
	var sent []string
	for range 5 {
		sent = append(sent, l.takes())
		l.free("a")
		l.free("b")
	}
	check.Equalf(t, strings.Join(sent, ","), "a0 b0,b1 a1,b2 a2,b3 a3,b4 a4", "what is left")
	l.begin(true)
	l.fill(true, pending("a5 b5"), 8)
	check.Equalf(t, l.takes(), "a5 b5", "what is read again")

	l.clear()
	l.free("a")
	l.free("b")
	check.Equalf(t, len(l.of), 0, "lines after the end")
}
