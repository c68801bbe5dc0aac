package explain

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/base/input"
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

// Skip is the reason why an event has no effect.
type Skip uint8

// The reasons.
const (
	Counted     Skip = iota
	Unmentioned      // the expression does not mention it
	Unmatched        // the expression mentions it with other data
	Repeated         // duplicate ID within DuplicateWithin
	NotYet           // later than the question
	TooOld           // older than the trigger, which ignores such events
)

// skips are the names of the reasons in answers.
var skips = [...]string{Counted: "", Unmentioned: "not_mentioned", Unmatched: "not_matched", Repeated: "duplicate_id", NotYet: "not_yet", TooOld: "too_old"}

// String returns the reason as in answers; "" for Counted.
func (s Skip) String() string { return skips[s] }

// Text returns the reason for people.
func (s Skip) Text() string {
	return [...]string{
		Counted: "", Unmentioned: "not in the expression", Unmatched: "does not count: its data does not match", Repeated: "does not count: its ID came before",
		NotYet: "does not count yet", TooOld: "does not count: it is older than the trigger",
	}[s]
}

// Moment is an event or deadline of the history.
type Moment struct {
	At     int64
	Event  int // index in Question.Events; -1: a deadline
	Skip   Skip
	Value  monitor.Value // from then on
	Effect               // of an event that is not skipped, or of a deadline
}

// Words describes the effect or the reason why there is none.
func (m *Moment) Words() string {
	if m.Skip != Counted {
		return m.Skip.Text()
	}
	return m.Text()
}

// Answer evaluates the history up to the question's instant. An event that is older than the one
// before it gets the time of that one, as in the log, where time does not go back. Events after the
// instant have no effect. trace, if not nil, is called for every event, and for every instant at
// which the value changes or a window ends. Errors: an expression that is too large, ctx's.
func (q *Question) Answer(ctx context.Context, trace func(Moment)) (*Answer, error) {
	program, err := monitor.Compile(q.Expr, monitor.Options{Pending: true})
	if err != nil {
		return nil, fault("expr", "%v", err)
	}
	f := follower{q: q, program: program, m: monitor.New(program), trace: trace, ids: map[string]int64{}, late: map[int]int64{}, last: monitor.MinTime, cause: -1, passed: math.MinInt64, names: q.Expr.Names()}
	f.value = f.m.Value()
	if trace != nil {
		f.sight = f.look()
	}
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
	names   []string         // of the expression
	ids     map[string]int64 // time of the first event of each ID
	last    int64            // time of the last event
	late    map[int]int64    // times of events that were older than the one before

	sight  sight // with trace: the monitor now
	passed int64 // instant up to which windows have ended

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
	if f.q.Old != nil && f.q.Old(i) {
		f.note(Moment{At: at, Event: i, Skip: TooOld})
		return nil
	}
	k := f.program.Match(e.Name, e.Data)
	if k == 0 {
		skip := Unmentioned
		if slices.Contains(f.names, e.Name) {
			skip = Unmatched
		}
		f.note(Moment{At: at, Event: i, Skip: skip})
		return nil
	}
	f.changes(f.m.Step(k, at, uint64(i)), at, i)
	f.settle(Moment{At: at, Event: i}, e.Name)
	return nil
}

// settle notes the effect of a moment, and starts the history over if the question says so.
func (f *follower) settle(m Moment, name string) {
	if f.trace != nil {
		before := f.sight
		m.Effect = f.effect(&before, name, m.At)
	}
	if m.Event >= 0 || m.Kind != NoEffect {
		f.note(m)
	}
	if f.q.Restart && f.value == monitor.True {
		f.m.Reset()
		f.value = f.m.Value()
		if f.trace != nil {
			f.sight = f.look()
		}
	}
}

// advance passes the deadlines up to an instant.
func (f *follower) advance(ctx context.Context, to int64) error {
	for {
		at, ok := f.due(to)
		if !ok {
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.passed = at
		f.changes(f.m.Advance(at), at, -1)
		f.settle(Moment{At: at, Event: -1}, "")
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

// linesMax bounds the bytes of events in a file.
const linesMax = 256 << 20

// entitiesShown bounds the entities in an error.
const entitiesShown = 5

// ReadEvents adds the events of NDJSON, at most 256 MiB: one on each line that is not blank, in the
// order of the log. A line is
//
//	{"event","at","id"?,"data"?}                         an event of this question
//	{"event","entity_id","data"?,"id"?,"occurred_at"?}   as for `seb event -f`, from `seb consume`
//	{"partition","offset","timestamp","key","value"}     from `seb consume --format json`
//
// The time of an event is its "at", else the append time of its record ("timestamp"), else its
// "occurred_at". A record without a value erases the earlier events of its entity. entity selects
// the events of one entity; with "" all lines must be of one entity. Errors: *Fault, those of r.
func (q *Question) ReadEvents(r io.Reader, entity string) error {
	limited := &io.LimitedReader{R: r, N: linesMax + 1}
	lines := input.NewLines(limited, linesMax)
	for n := 0; ; n++ {
		line, err := lines.NextValue()
		switch {
		case limited.N == 0:
			return fault("", "more than %d bytes of events", linesMax)
		case err == io.EOF:
			return q.only(entity)
		case err != nil:
			return err
		}
		if err := q.line(line, n); err != nil {
			return err
		}
	}
}

// line adds the event of a line; n is the number of the line among those that are not blank, from
// 0.
func (q *Question) line(text []byte, n int) error {
	var rec struct {
		Offset      *int64          `json:"offset"`
		Timestamp   *int64          `json:"timestamp"`
		Key         *string         `json:"key"`
		Value       *string         `json:"value"`
		ValueBase64 *string         `json:"value_base64"`
		Event       json.RawMessage `json:"event"`
	}
	// parseEvent reports an invalid line.
	if json.Unmarshal(text, &rec) != nil || rec.Offset == nil || rec.Event != nil {
		e, err := parseEvent(text, n, nil)
		if err == nil {
			q.Events = append(q.Events, e)
		}
		return err
	}
	switch {
	case rec.ValueBase64 != nil:
		return of(n, fault("value_base64", "binary value: not an event"))
	case rec.Value == nil && rec.Key != nil:
		q.Events = slices.DeleteFunc(q.Events, func(e Event) bool { return e.Entity == *rec.Key })
		return nil
	case rec.Value == nil:
		return of(n, fault("value", "missing"))
	}
	e, err := parseEvent([]byte(*rec.Value), n, rec.Timestamp)
	if err == nil {
		q.Events = append(q.Events, e)
	}
	return err
}

// only keeps the events of an entity, and those without one; "" is for a single entity.
func (q *Question) only(entity string) error {
	var all []string
	seen := map[string]bool{}
	for i := range q.Events {
		if e := q.Events[i].Entity; e != "" && !seen[e] {
			seen[e] = true
			all = append(all, e)
		}
	}
	switch {
	case entity == "" && len(all) > 1:
		return fault("entity_id", "the events are of %s: choose one", entities(all))
	case entity != "" && !seen[entity] && len(all) > 0:
		return fault("entity_id", "no event of %.100q; the events are of %s", entity, entities(all))
	case entity != "":
		q.Events = slices.DeleteFunc(q.Events, func(e Event) bool { return e.Entity != "" && e.Entity != entity })
	}
	return nil
}

// entities lists some of the entities.
func entities(all []string) string {
	var list []string
	for _, e := range all[:min(len(all), entitiesShown)] {
		if len(e) > 40 {
			e = strings.ToValidUTF8(e[:40], "") + "..."
		}
		list = append(list, e)
	}
	return plural(len(all), "entity", "entities") + " (" + and(list, len(all)-len(list)) + ")"
}
