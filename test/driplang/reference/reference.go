// Package reference evaluates expressions straight from their definitions in docs/reference/driplang.md: over a whole history, for one point
// at a time, without state, by looking at everything again each time. It shares nothing with driplang/monitor but the parsed
// expression, and is what tests compare it with.
package reference

import "math"

// Value is what an expression is worth at a point.
type Value uint8

// The values in their order. Pending is not true either.
const (
	False Value = iota
	Pending
	True
)

// Event is an event of a history. A history is in the order of the log: times do not go back.
type Event struct {
	Name string
	At   int64 // ms
	Data string
}

// Point is a point of a history: the first Events of it are applied; Done says that the instant At is complete.
type Point struct {
	Events int
	At     int64
	Done   bool
}

func (p Point) passed(t int64) bool { return t < p.At || t == p.At && p.Done }

// beginning is before everything that has a time.
const beginning = -1 << 40

// Value is what the expression is worth at a point of a history.
func (x *Expr) Value(events []Event, now Point) Value {
	h := history{events, now}
	return h.val(x, Point{0, beginning, true}, math.MinInt64, math.MaxInt64, nil)
}
