// Package driplangtest has a table of test cases of driplang, and a second implementation for tests to
// compare with. The second evaluates expressions directly from their definitions in
// docs/reference/driplang.md: a whole history for one point at a time, without state. It shares only
// the parsed expression with driplang/monitor.
package driplangtest

import "math"

// Value is the value of an expression at a point.
type Value uint8

// The values in ascending order. Pending is not true either.
const (
	False Value = iota
	Pending
	True
)

// Event is an event of a history. A history is in the order of the log, and its times do not
// decrease.
type Event struct {
	Name string
	At   int64 // ms
	Data string
}

// Point is a point of a history: its first Events events are applied. Done means that the instant
// At is complete.
type Point struct {
	Events int
	At     int64
	Done   bool
}

func (p Point) passed(t int64) bool { return t < p.At || t == p.At && p.Done }

// beginning is before all times.
const beginning = -1 << 40

// Value returns the value of the expression at a point of a history.
func (x *Expr) Value(events []Event, now Point) Value {
	h := history{events, now}
	return h.val(x, Point{0, beginning, true}, math.MinInt64, math.MaxInt64, nil)
}
