package explain

import (
	"context"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang/monitor"
)

// DuplicateWithin is how long the id of an event is remembered: a second event of the same id that comes no later than that
// after the first changes nothing.
const DuplicateWithin = 24 * time.Hour

// Answer is what an expression is worth.
type Answer struct {
	Value   bool
	Pending bool   // it is false, and a window is open that may still make it true
	Next    *int64 // ms since 1970: when Value changes if nothing more happens; nil: never
	// Why is Value in words, for people.
	Why string
	// Witness is which events made it true, by their places in the question, from 0.
	Witness []int
}

// Evaluation is the answer as POST /evaluate gives it.
func (a *Answer) Evaluation() api.Evaluation {
	out := api.Evaluation{Value: a.Value, Pending: a.Pending, Why: a.Why, Witness: append([]int{}, a.Witness...)}
	if a.Next != nil {
		out.Next = new(time.UnixMilli(*a.Next).UTC())
	}
	return out
}

// Skip says why an event has not counted.
type Skip uint8

// The reasons.
const (
	Counted     Skip = iota
	Unmentioned      // the expression does not look at it
	Repeated         // its id was there within DuplicateWithin
	NotYet           // it is later than the question
)

// Moment is a point of the history at which something happens.
type Moment struct {
	At    int64
	Event int // its place in the question; -1: none, the value changes by time alone
	Skip  Skip
	Value monitor.Value // from then on
}

// Answer goes through the history up to the question's instant. An event that is older than the one before it counts as
// happening with that one, as in the log, where time does not run backwards; those after the instant do not count. trace, if not
// nil, is told of every event and of every deadline at which the value changes. Errors: of an expression that is too large to be
// followed, ctx's.
func (q *Question) Answer(ctx context.Context, trace func(Moment)) (*Answer, error) {
	program, err := monitor.Compile(q.Expr, monitor.Options{Pending: true})
	if err != nil {
		return nil, fault("expr", "%v", err)
	}
	f := follower{q: q, program: program, m: monitor.New(program), trace: trace, ids: map[string]int64{}, late: map[int]int64{}, last: monitor.MinTime, cause: -1}
	f.value = f.m.Value()
	for i := range q.Events {
		if err := f.event(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := f.advance(ctx, q.At); err != nil {
		return nil, err
	}
	f.value = f.m.Advance(q.At)
	a := &Answer{Value: f.value == monitor.True, Pending: f.value == monitor.Pending}
	if next, ok := f.m.Next(); ok {
		a.Next = &next
	}
	for _, ref := range f.m.MatchedEvents(nil) {
		a.Witness = append(a.Witness, int(ref))
	}
	a.Why = f.why(a)
	return a, nil
}

// follower goes through a history.
type follower struct {
	q       *Question
	program *monitor.Program
	m       *monitor.Monitor
	trace   func(Moment)
	ids     map[string]int64 // when each was there first
	last    int64            // time of the last event
	late    map[int]int64    // of events that were older than the one before: when they count as happening

	value   monitor.Value
	changed bool  // it was not always what it is
	since   int64 // when it became true, or not true, last
	cause   int   // the event at which it did; -1: by time alone
}

// event applies the event at a place.
func (f *follower) event(ctx context.Context, i int) error {
	e := &f.q.Events[i]
	at := max(e.At, f.last)
	if e.At < f.last {
		f.late[i] = at
	}
	if at > f.q.At {
		f.note(Moment{At: at, Event: i, Skip: NotYet})
		return nil
	}
	f.last = at
	if err := f.advance(ctx, at-1); err != nil {
		return err
	}
	if e.ID != "" {
		if first, known := f.ids[e.ID]; known && at-first <= DuplicateWithin.Milliseconds() {
			f.note(Moment{At: at, Event: i, Skip: Repeated})
			return nil
		}
		f.ids[e.ID] = at
	}
	k := f.program.Match(e.Name, e.Data)
	if k == 0 {
		f.note(Moment{At: at, Event: i, Skip: Unmentioned})
		return nil
	}
	f.changes(f.m.Step(k, at, uint64(i)), at, i)
	f.note(Moment{At: at, Event: i})
	return nil
}

// advance passes the deadlines up to an instant, at which the value changes.
func (f *follower) advance(ctx context.Context, to int64) error {
	for {
		at, ok := f.m.Next()
		if !ok || at > to {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.changes(f.m.Advance(at), at, -1)
		f.note(Moment{At: at, Event: -1})
	}
}

func (f *follower) changes(v monitor.Value, at int64, cause int) {
	if (v == monitor.True) != (f.value == monitor.True) {
		f.changed, f.since, f.cause = true, at, cause
	}
	f.value = v
}

func (f *follower) note(m Moment) {
	if f.trace != nil {
		m.Value = f.value
		f.trace(m)
	}
}
