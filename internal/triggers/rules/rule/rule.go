package rule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/record"
)

// ErrInitiallyTrue is the error of Compile for an expression that is true without events.
var ErrInitiallyTrue = errors.New("is true before anything has happened; add an event that starts it, e.g. `signup AND NOT A`")

// Rule is a compiled definition. It is not safe for concurrent use.
type Rule struct {
	Def     Definition
	program *monitor.Program
	m       *monitor.Monitor
	names   []string
	past    []uint64 // reused

	topic record.ID // topic of the events, if it is not Def.TopicID; else zero
	tag   uint64    // in references to its events
}

// offsetBits is the number of bits of an event reference that are its offset. The other bits tell a
// topic that was created again from the earlier one, whose events no longer exist.
const offsetBits = 48

// Bind sets the topic of the events. The default is Def.TopicID.
func (r *Rule) Bind(topic record.ID) {
	r.topic, r.tag = record.ID{}, 0
	if topic.String() != r.Def.TopicID {
		r.topic, r.tag = topic, uint64(binary.BigEndian.Uint16(topic[:])|1)<<offsetBits
	}
}

// eventCause is the cause of a firing at an event.
func (r *Rule) eventCause(partition uint32, offset int64) string {
	if r.topic != (record.ID{}) {
		return RecreatedEventCause(partition, offset, r.topic)
	}
	return EventCause(partition, offset)
}

// witness appends the offsets of the matched events that the topic has.
func (r *Rule) witness(dst []int64) []int64 {
	r.past = r.m.MatchedEvents(r.past[:0])
	for _, ref := range r.past {
		if ref&^(1<<offsetBits-1) == r.tag {
			dst = append(dst, int64(ref-r.tag))
		}
	}
	return dst
}

// Compile compiles a definition.
func Compile(d Definition) (*Rule, error) {
	p, err := monitor.Compile(d.Expr, monitor.Options{})
	if err != nil {
		return nil, fmt.Errorf("expr: %w", err)
	}
	if p.Initially() == monitor.True {
		return nil, fmt.Errorf("expr: %w", ErrInitiallyTrue)
	}
	return &Rule{Def: d, program: p, m: monitor.New(p), names: d.Expr.Names()}, nil
}

// Bytes is the estimated memory of the rule. TestTriggerMemory of package rules compares it with
// the heap.
func (r *Rule) Bytes() int64 { return 2<<10 + 700*int64(r.program.Nodes()) + 8*int64(len(r.Def.From)) }

// Nodes is the number of nodes of the expression.
func (r *Rule) Nodes() int { return r.program.Nodes() }

// Names is the event names of the expression, sorted.
func (r *Rule) Names() []string { return r.names }

// Match is the kinds of event, among those that the expression distinguishes, that an event has; 0
// if it has no effect.
func (r *Rule) Match(e *Event) monitor.Kinds {
	return r.program.Match(e.Name, e.Data)
}

// Row is the stored state of an instance. The zero Row is that of an entity without events.
type Row struct {
	State       []byte // state of the monitor
	Due         int64  // deadline (ms) at which the value changes without events; 0: none
	Last        int64  // time (ms) of the last firing, subject to the cooldown; 0: none
	Retractable ID     // firing that can still be retracted
	Flags       Flags
}

// Flags are properties of a Row.
type Flags uint8

// The flags.
const (
	True         Flags = 1 << iota // the expression is true
	Fired                          // it has fired at least once
	Completed                      // complete: no more transitions, and no state
	StartChecked                   // the value at the trigger's creation was checked (Current)
	Degraded                       // the monitor dropped instances: the value may be wrong
)

// Blank reports whether the row has no information.
func (w *Row) Blank() bool { return len(w.State) == 0 && w.Flags&^StartChecked == 0 && w.Last == 0 }

// Transition is a transition of an instance: its expression becomes true, and the trigger fires, or is no
// longer true.
type Transition struct {
	Retracts bool // no longer true; else the trigger fires
	At       int64
	Cause    string
	ID       ID // of the firing, or of the retracted one
	// State is Historic, Suppressed or Computed, which must be recorded.
	State   State
	Witness []int64 // offsets of the matched events; the caller owns them
}

// Instance is the instance of an entity in a partition, with its row.
type Instance struct {
	Entity      string
	Partition   uint32
	Row         *Row
	Transitions []Transition // transitions are appended here
}

// Event applies an event with its kinds from Match, at its time (ms), to the row.
func (r *Rule) Event(s *Instance, k monitor.Kinds, at, offset int64) error {
	past := r.IsPast(s.Partition, offset, at)
	if s.Row.Flags&Completed != 0 || past && r.Def.Backfill == None {
		return nil
	}
	if err := r.m.Load(s.Row.State); err != nil {
		return err
	}
	if !past {
		r.cross(s)
	}
	r.deadlines(s, at-1)
	if s.Row.Flags&Completed == 0 {
		r.m.Step(k, at, uint64(offset)|r.tag)
		cause := func() string { return r.eventCause(s.Partition, offset) }
		r.look(s, moment{at: at, past: past, cause: cause})
	}
	r.store(s.Row)
	return nil
}

// IsPast reports whether an event existed before the version.
func (r *Rule) IsPast(partition uint32, offset, at int64) bool {
	if r.topic != (record.ID{}) {
		return at <= r.Def.At // From are offsets of another topic
	}
	return r.Def.Past(partition, offset, at)
}

// Until completes the instant at: it passes all deadlines up to it. All events of the partition up
// to then must have been applied.
func (r *Rule) Until(s *Instance, at int64) error {
	if s.Row.Flags&Completed != 0 {
		return nil
	}
	if err := r.m.Load(s.Row.State); err != nil {
		return err
	}
	if at > r.Def.At { // older events may have the instant after Def.At
		r.cross(s)
	}
	r.deadlines(s, at)
	r.store(s.Row)
	return nil
}

// cross ends the past of the trigger, and fires if the expression is true then (Current).
func (r *Rule) cross(s *Instance) {
	if r.Def.Backfill != Current || s.Row.Flags&StartChecked != 0 {
		return
	}
	r.deadlines(s, r.Def.At)
	s.Row.Flags |= StartChecked
	if s.Row.Flags&True != 0 && s.Row.Flags&Completed == 0 {
		r.rise(s, moment{at: r.Def.At, cause: func() string {
			offset := int64(0)
			if int(s.Partition) < len(r.Def.From) {
				offset = r.Def.From[s.Partition]
			}
			return StartCause(r.Def.At, s.Partition, offset)
		}})
	}
	r.finish(s.Row)
}

// deadlines passes all deadlines up to and including an instant, one by one.
func (r *Rule) deadlines(s *Instance, to int64) {
	for s.Row.Flags&Completed == 0 {
		due, ok := r.m.Next()
		if !ok || due > to {
			return
		}
		r.m.Advance(due)
		cause := func() string { return DeadlineCause(due, s.Partition) }
		r.look(s, moment{at: due, past: due <= r.Def.At, cause: cause})
	}
}

// moment is a point of an entity's history at which its value may have changed.
type moment struct {
	at    int64
	past  bool // before the trigger's creation
	cause func() string
}

// look compares the value with the previous one.
func (r *Rule) look(s *Instance, m moment) {
	is, was := r.m.Value() == monitor.True, s.Row.Flags&True != 0
	switch {
	case is && !was:
		s.Row.Flags |= True
		r.rise(s, m)
	case was && !is:
		s.Row.Flags &^= True
		if s.Row.Retractable != (ID{}) {
			s.Transitions = append(s.Transitions, Transition{Retracts: true, At: m.at, Cause: m.cause(), ID: s.Row.Retractable, State: Computed})
			s.Row.Retractable = ID{}
		}
	}
	r.finish(s.Row)
}

func (r *Rule) rise(s *Instance, m moment) {
	w := s.Row
	if r.Def.Fire == Once && w.Flags&Fired != 0 && !m.starts(r) {
		return
	}
	e := Transition{At: m.at, Cause: m.cause(), State: Computed}
	e.ID = MakeID(r.Def.ID, r.Def.Version, s.Entity, e.Cause)
	e.Witness = r.witness(nil)
	cool := r.Def.Cooldown > 0 && w.Flags&Fired != 0 && m.at < w.Last+r.Def.Cooldown
	switch {
	case m.past && r.Def.Backfill != Replay:
		e.State = Historic
	case cool:
		e.State = Suppressed
	case r.Def.OnRetract == Notify:
		w.Retractable = e.ID
	}
	if !cool {
		w.Last = m.at
	}
	w.Flags |= Fired
	s.Transitions = append(s.Transitions, e)
	if r.Def.Fire == OnReset {
		r.m.Reset()
		w.Flags &^= True
	}
}

// starts reports whether it is the firing for an expression that was true at the creation. Historic
// firings do not prevent it.
func (m *moment) starts(r *Rule) bool {
	return r.Def.Backfill == Current && !m.past && m.at == r.Def.At
}

// finish sets the flag for completion if no more transitions are possible.
func (r *Rule) finish(w *Row) {
	if r.Def.Backfill == Current && w.Flags&StartChecked == 0 {
		return
	}
	if r.Def.Fire == Once && w.Flags&Fired != 0 && w.Retractable == (ID{}) || r.m.Settled() {
		w.Flags |= Completed
	}
}

func (r *Rule) store(w *Row) {
	defer r.m.Reset() // frees the memory of this entity's state
	w.Due = 0
	if w.Flags&Completed != 0 {
		w.State = nil
		return
	}
	if r.m.Degraded() {
		w.Flags |= Degraded
	}
	w.State = r.m.AppendState(nil)
	if at, ok := r.m.Next(); ok {
		w.Due = at
	}
}

// Truth is the value of an instance.
type Truth struct {
	True      bool
	Next      int64 // the deadline (ms) at which the value changes without events; 0: none
	Settled   bool  // it cannot change any more
	Instances int
	Witness   []int64
	Waits     []monitor.AwaitedEvent // events that can still change the value, at most WaitsMax
}

// WaitsMax bounds Truth.Waits.
const WaitsMax = 64

// Truth returns the value of a row at the last complete instant (ms), up to which windows have ended.
func (r *Rule) Truth(w *Row, complete int64) (t Truth, err error) {
	if w.Flags&Completed != 0 {
		return Truth{True: w.Flags&True != 0, Settled: true}, nil
	}
	if err := r.m.Load(w.State); err != nil {
		return t, err
	}
	defer r.m.Reset()
	r.m.Advance(complete)
	t = Truth{True: w.Flags&True != 0, Next: w.Due, Settled: r.m.Settled(), Instances: r.m.Instances()}
	t.Waits = r.m.AwaitedEvents(nil, WaitsMax)
	t.Witness = slices.Compact(r.witness(nil))
	return t, nil
}

const hasRetractable = 1 << 7 // in the byte of flags

var errRow = errors.New("invalid row")

// Append appends the row without Due: flags, Last, the retractable firing if there is one, and the
// monitor's state.
func (w *Row) Append(b []byte) []byte {
	flags := byte(w.Flags)
	if !w.Retractable.IsZero() {
		flags |= hasRetractable
	}
	b = binary.AppendVarint(append(b, flags), w.Last)
	if flags&hasRetractable != 0 {
		b = append(b, w.Retractable[:]...)
	}
	return append(b, w.State...)
}

// Decode decodes the output of Append. The row keeps data.
func (w *Row) Decode(data []byte, due int64) error {
	if len(data) < 2 {
		return errRow
	}
	last, n := binary.Varint(data[1:])
	if n <= 0 {
		return errRow
	}
	flags, rest := data[0], data[1+n:]
	*w = Row{Due: due, Last: last, Flags: Flags(flags &^ hasRetractable)}
	if flags&hasRetractable != 0 {
		if len(rest) < len(w.Retractable) {
			return errRow
		}
		rest = rest[copy(w.Retractable[:], rest):]
	}
	if len(rest) > 0 {
		w.State = rest
	}
	return nil
}
