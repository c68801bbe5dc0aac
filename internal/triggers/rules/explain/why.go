// Package explain evaluates an expression of driplang for an entity whose events are given: its
// value, when it changes, and why. POST /evaluate and `seb drip eval` use it. It has no state and
// reads no clock.
package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// listMax bounds the events in a sentence.
const listMax = 8

// Time formats a time: RFC 3339, with milliseconds if they are not zero.
func Time(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339Nano) }

// why is the answer in words.
func (f *follower) why(a *Answer) string {
	parts := []string{f.valueText(a)}
	if len(a.Witness) > 0 {
		parts = append(parts, "because of "+f.witnessText(a.Witness))
	}
	waits := SortAwaited(f.m.AwaitedEvents(nil, 64))
	switch next := a.Next; {
	case next == nil && len(waits) == 0:
		parts = append(parts, "it cannot change any more")
	case len(waits) > 0:
		parts = append(parts, "it can still change with "+waitsText(waits, f.q.At))
	}
	if next := a.Next; next != nil && a.Value {
		parts = append(parts, "if nothing more happens it is true until "+Time(*next))
	} else if next != nil {
		parts = append(parts, "if nothing more happens it becomes true at "+Time(*next))
	}
	if n := len(f.late); n > 0 {
		parts = append(parts, fmt.Sprintf("%s earlier than the one before in the list, and got its time", plural(n, "event is", "events are")))
	}
	if f.m.Degraded() {
		parts = append(parts, fmt.Sprintf("more than %d instances were open at once, some were dropped, and the answer may be wrong", monitor.MaxInstances))
	}
	return strings.Join(parts, "; ")
}

func (f *follower) valueText(a *Answer) string {
	text := "false"
	switch {
	case a.Value:
		text = "true"
	case a.Pending:
		text = "not true yet"
	}
	switch {
	case !f.changed && a.Value:
		return text + " without any event"
	case !f.changed:
		return text
	case f.cause >= 0:
		return fmt.Sprintf("%s since %s, when %s came (event %d)", text, Time(f.since), f.q.Events[f.cause].Name, f.cause)
	}
	return fmt.Sprintf("%s since %s, at a deadline", text, Time(f.since))
}

func (f *follower) witnessText(witness []int) string {
	var list []string
	for _, i := range witness[:min(len(witness), listMax)] {
		at, late := f.late[i]
		if !late {
			at = f.q.Events[i].At
		}
		list = append(list, fmt.Sprintf("%s at %s (event %d)", f.q.Events[i].Name, Time(at), i))
	}
	return and(list, len(witness)-len(list))
}

// SortAwaited sorts a list, the event that can come until the earliest time first, and removes
// duplicates.
func SortAwaited(list []monitor.AwaitedEvent) []monitor.AwaitedEvent {
	sorting.Sort(list, func(a, b monitor.AwaitedEvent) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.From, b.From), strings.Compare(a.Expr, b.Expr), compareBool(a.Absent, b.Absent), b.Have-a.Have)
	})
	return slices.Compact(list)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func waitsText(waits []monitor.AwaitedEvent, now int64) string {
	var list []string
	for _, w := range waits[:min(len(waits), listMax)] {
		list = append(list, waitText(&w, now))
	}
	return and(list, len(waits)-len(list))
}

func waitText(w *monitor.AwaitedEvent, now int64) string {
	text := w.Expr
	switch {
	case w.Absent && w.Need > 1:
		text += fmt.Sprintf(" (must not come; %d so far)", w.Have)
	case w.Absent:
		text += " (must not come)"
	case w.Need > 1:
		text += fmt.Sprintf(" (%d so far)", w.Have)
	}
	if w.From > now {
		text += " from " + Time(w.From)
	}
	if w.Until != math.MaxInt64 {
		text += " until " + Time(w.Until)
	}
	return text
}

// and joins a list; more is the number of omitted items.
func and(list []string, more int) string {
	if more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
