package driplangtest

import "slices"

// Mode determines how often an expression fires for an entity: the `fire` of a trigger.
type Mode string

// The modes.
const (
	Once  Mode = "once"  // the first time
	Edge  Mode = "edge"  // each time it becomes true
	Reset Mode = "reset" // each time; the history then starts again
)

// Firing is an instant at which an expression becomes true.
type Firing struct {
	At int64 // ms
	// Gone is the time at which it becomes false again, if IsGone; only with Edge.
	Gone   int64
	IsGone bool
}

// Firings returns all firings of a history, including those that time alone causes after its end.
func (x *Expr) Firings(events []Event, mode Mode) (found []Firing) {
	events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !x.mentions(e) })
	for from := 0; ; {
		rest := events[from:]
		list, behind := x.rises(rest, mode)
		found = append(found, list...)
		if mode != Reset || len(list) == 0 {
			return found
		}
		from += behind
	}
}

// rises returns the firings up to the one that ends the history, and the number of events that one
// has seen. It evaluates after each event, and at the instants at which a value can change by time
// alone.
func (x *Expr) rises(events []Event, mode Mode) (found []Firing, behind int) {
	out := x.Value(events, Point{0, beginning, true}) == True
	k := 0
	look := func(p Point) (over bool) {
		is := x.Value(events, p) == True
		switch {
		case is && !out:
			found = append(found, Firing{At: p.At})
		case !is && out && len(found) > 0:
			last := &found[len(found)-1]
			last.Gone, last.IsGone = p.At, true
		}
		out = is
		return len(found) > 0 && mode != Edge
	}
	for _, at := range x.instants(events) {
		for ; k < len(events) && events[k].At == at; k++ {
			if look(Point{k + 1, at, false}) {
				return found, k + 1
			}
		}
		if look(Point{k, at, true}) {
			return found, k
		}
	}
	return found, k
}

// instants returns the instants of the events, and all sums of durations after each, in order. By
// the last law of docs/reference/driplang.md values change at no other instants.
func (x *Expr) instants(events []Event) []int64 {
	sums := []int64{0}
	x.each(func(y *Expr) {
		if y.millis > 0 {
			for _, s := range slices.Clone(sums) {
				sums = append(sums, s+y.millis)
			}
			slices.Sort(sums)
			sums = slices.Compact(sums)
		}
	})
	var all []int64
	for _, e := range events {
		for _, s := range sums {
			all = append(all, e.At+s)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (x *Expr) mentions(e Event) (is bool) {
	x.each(func(y *Expr) { is = is || y.op == "name" && y.event.matches(e) })
	return is
}
