package explain

import (
	"context"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang/monitor"
)

// DuplicateWithin is the time for which an event ID is remembered: a second event with the same ID
// within that time has no effect.
const DuplicateWithin = 24 * time.Hour

// Answer is the value of an expression.
type Answer struct {
	Value   bool
	Pending bool   // false, and an open window may still make it true
	Next    *int64 // ms since 1970: time of the next change without more events; nil: never
	// Why explains Value to users.
	Why string
	// Witness holds the matched events, as indexes in Question.Events.
	Witness []int
}

// Evaluation is the answer of POST /evaluate.
func (a *Answer) Evaluation() api.Evaluation {
	out := api.Evaluation{Value: a.Value, Pending: a.Pending, Why: a.Why, Witness: append([]int{}, a.Witness...)}
	if a.Next != nil {
		out.Next = new(time.UnixMilli(*a.Next).UTC())
	}
	return out
}

// Skip is the reason why an event has no effect.
type Skip uint8

// The reasons.
const (
	Counted     Skip = iota
	Unmentioned      // the expression does not mention it
	Repeated         // duplicate ID within DuplicateWithin
	NotYet           // later than the question
)

// Moment is an event or deadline of the history.
type Moment struct {
	At    int64
	Event int // index in Question.Events; -1: a deadline
	Skip  Skip
	Value monitor.Value // from then on
}

// Step returns a moment as in answers.
func (m *Moment) Step() api.EvaluationStep {
	s := api.EvaluationStep{At: time.UnixMilli(m.At).UTC(), Value: m.Value.String()}
	if m.Event >= 0 {
		s.Event = &m.Event
	}
	switch m.Skip {
	case Unmentioned:
		s.Skipped = "not_mentioned"
	case Repeated:
		s.Skipped = "duplicate_id"
	case NotYet:
		s.Skipped = "not_yet"
	}
	return s
}

// Answer evaluates the history up to the question's instant. An event that is older than the one
// before it gets the time of that one, as in the log, where time does not go back. Events after the
// instant have no effect. trace, if not nil, is called for every event, and for every deadline at
// which the value changes. Errors: an expression that is too large, ctx's.
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

// follower is an evaluation in progress.
type follower struct {
	q       *Question
	program *monitor.Program
	m       *monitor.Monitor
	trace   func(Moment)
	ids     map[string]int64 // time of the first event of each ID
	last    int64            // time of the last event
	late    map[int]int64    // times of events that were older than the one before

	value   monitor.Value
	changed bool  // the value was another one before
	since   int64 // time of the last change to or from true
	cause   int   // event of that change; -1: a deadline
}

// event applies the event at an index.
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

// advance passes the deadlines up to an instant.
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
