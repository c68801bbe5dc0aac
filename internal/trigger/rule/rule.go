package rule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang/monitor"

	"github.com/sebbroker/seb/record"
)

// ErrInitiallyTrue is what Compile says of an expression that no event can make true.
var ErrInitiallyTrue = errors.New("is true before anything has happened; add an event that starts it, e.g. `signup AND NOT A`")

// Rule is a definition made ready. It is for one goroutine.
type Rule struct {
	Def     Definition
	program *monitor.Program
	m       *monitor.Monitor
	names   []string
	past    []uint64 // reused

	topic record.ID // that the events are read from, if it is not Def.TopicID; else zero
	tag   uint64    // in the references to its events
}

// offsetBits is how many bits of a reference to an event are its offset. The others tell a topic that was created again from
// the one before it, whose events are no longer there.
const offsetBits = 48

// Bind says which topic the events come from. Without it that is Def.TopicID.
func (r *Rule) Bind(topic record.ID) {
	r.topic, r.tag = record.ID{}, 0
	if topic.String() != r.Def.TopicID {
		r.topic, r.tag = topic, uint64(binary.BigEndian.Uint16(topic[:])|1)<<offsetBits
	}
}

// eventCause is the cause of what fires at an event.
func (r *Rule) eventCause(partition uint32, offset int64) string {
	if r.topic != (record.ID{}) {
		return EventCauseAgain(partition, offset, r.topic)
	}
	return EventCause(partition, offset)
}

// witness appends the offsets of the events because of which the expression is true, as far as the topic has them.
func (r *Rule) witness(dst []int64) []int64 {
	r.past = r.m.MatchedEvents(r.past[:0])
	for _, ref := range r.past {
		if ref&^(1<<offsetBits-1) == r.tag {
			dst = append(dst, int64(ref-r.tag))
		}
	}
	return dst
}

// Compile makes a definition ready.
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

// Bytes is about how much memory it takes. TestTriggerMemory of package trigger holds that against the heap.
func (r *Rule) Bytes() int64 { return 2<<10 + 700*int64(r.program.Nodes()) + 8*int64(len(r.Def.From)) }

// Nodes is how many parts it has.
func (r *Rule) Nodes() int { return r.program.Nodes() }

// Names is the event names that it mentions, sorted.
func (r *Rule) Names() []string { return r.names }

// Match is which kinds of event, among those that the expression tells apart, an event is; 0 if it does not matter.
func (r *Rule) Match(e *Event) monitor.Kinds {
	return r.program.Match(e.Name, e.Data)
}

// Row is what is kept of an entity. The zero Row is that of one of which nothing has happened.
type Row struct {
	State []byte // the monitor's
	Due   int64  // the instant (ms) at which the truth changes by itself; 0: none
	Last  int64  // when it last fired, cooldown or not regarded as its definition says; 0: never
	Rise  ID
	Flags Flags
}

// Flags are facts about a Row.
type Flags uint8

// The flags.
const (
	True    Flags = 1 << iota // the expression is true
	Fired                     // it has fired at least once
	Over                      // nothing will ever come of it again: it has no state
	Crossed                   // it was looked at whether it was true when the trigger was made (Current)
	Lossy                     // the monitor had to give up instances: the value may be wrong
)

// Blank is whether a row says nothing.
func (w *Row) Blank() bool { return len(w.State) == 0 && w.Flags&^Crossed == 0 && w.Last == 0 }

// Edge is something that has happened to an entity.
type Edge struct {
	Falls bool // else it rises: the trigger fires
	At    int64
	Cause string
	ID    ID // of the firing, or of the one that is taken back
	// State is Historic, Suppressed or Computed, which is to be recorded.
	State   State
	Witness []int64 // offsets; the caller owns it
}

// Spot is an entity of a partition and its row.
type Spot struct {
	Entity    string
	Partition uint32
	Row       *Row
	Edges     []Edge // what has happened is appended here
}

// Event applies an event that Match has looked at, at its time (ms), to the row.
func (r *Rule) Event(s *Spot, k monitor.Kinds, at, offset int64) error {
	past := r.isPast(s.Partition, offset, at)
	if s.Row.Flags&Over != 0 || past && r.Def.Backfill == None {
		return nil
	}
	if err := r.m.Load(s.Row.State); err != nil {
		return err
	}
	if !past {
		r.cross(s)
	}
	r.deadlines(s, at-1)
	if s.Row.Flags&Over == 0 {
		r.m.Step(k, at, uint64(offset)|r.tag)
		cause := func() string { return r.eventCause(s.Partition, offset) }
		r.look(s, moment{at: at, past: past, cause: cause})
	}
	r.store(s.Row)
	return nil
}

// isPast is whether an event was there before the version.
func (r *Rule) isPast(partition uint32, offset, at int64) bool {
	if r.topic != (record.ID{}) {
		return at <= r.Def.At // From are offsets of another topic
	}
	return r.Def.Past(partition, offset, at)
}

// Until completes the instant at: all deadlines up to it are done. All events of the partition up to then were applied.
func (r *Rule) Until(s *Spot, at int64) error {
	if s.Row.Flags&Over != 0 {
		return nil
	}
	if err := r.m.Load(s.Row.State); err != nil {
		return err
	}
	if at > r.Def.At { // events that were there may be of the instant behind Def.At
		r.cross(s)
	}
	r.deadlines(s, at)
	r.store(s.Row)
	return nil
}

// cross goes over to the time in which the trigger is there.
func (r *Rule) cross(s *Spot) {
	if r.Def.Backfill != Current || s.Row.Flags&Crossed != 0 {
		return
	}
	r.deadlines(s, r.Def.At)
	s.Row.Flags |= Crossed
	if s.Row.Flags&True != 0 && s.Row.Flags&Over == 0 {
		r.rise(s, moment{at: r.Def.At, cause: func() string { return r.Def.start(s.Partition) }})
	}
	r.finish(s.Row)
}

// deadlines passes those up to and with an instant, one by one.
func (r *Rule) deadlines(s *Spot, to int64) {
	for s.Row.Flags&Over == 0 {
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
	past  bool // before the trigger was there
	cause func() string
}

// look compares the value with what it was.
func (r *Rule) look(s *Spot, m moment) {
	is, was := r.m.Value() == monitor.True, s.Row.Flags&True != 0
	switch {
	case is && !was:
		s.Row.Flags |= True
		r.rise(s, m)
	case was && !is:
		s.Row.Flags &^= True
		if s.Row.Rise != (ID{}) {
			s.Edges = append(s.Edges, Edge{Falls: true, At: m.at, Cause: m.cause(), ID: s.Row.Rise, State: Computed})
			s.Row.Rise = ID{}
		}
	}
	r.finish(s.Row)
}

func (r *Rule) rise(s *Spot, m moment) {
	w := s.Row
	if r.Def.Fire == Once && w.Flags&Fired != 0 && !m.starts(r) {
		return
	}
	e := Edge{At: m.at, Cause: m.cause(), State: Computed}
	e.ID = MakeID(r.Def.ID, r.Def.Version, s.Entity, e.Cause)
	e.Witness = r.witness(nil)
	cool := r.Def.Cooldown > 0 && w.Flags&Fired != 0 && m.at < w.Last+r.Def.Cooldown
	switch {
	case m.past && r.Def.Backfill != Replay:
		e.State = Historic
	case cool:
		e.State = Suppressed
	case r.Def.OnRetract == Notify:
		w.Rise = e.ID
	}
	if !cool {
		w.Last = m.at
	}
	w.Flags |= Fired
	s.Edges = append(s.Edges, e)
	if r.Def.Fire == OnReset {
		r.m.Reset()
		w.Flags &^= True
	}
}

// starts is whether it is the firing for what was true when the trigger was made, which historic ones do not forbid.
func (m *moment) starts(r *Rule) bool {
	return r.Def.Backfill == Current && !m.past && m.at == r.Def.At
}

// finish gives the state up if nothing can come of it any more.
func (r *Rule) finish(w *Row) {
	if r.Def.Backfill == Current && w.Flags&Crossed == 0 {
		return
	}
	if r.Def.Fire == Once && w.Flags&Fired != 0 && w.Rise == (ID{}) || r.m.Settled() {
		w.Flags |= Over
	}
}

func (r *Rule) store(w *Row) {
	defer r.m.Reset() // what the entity has takes no memory then
	w.Due = 0
	if w.Flags&Over != 0 {
		w.State = nil
		return
	}
	if r.m.Degraded() {
		w.Flags |= Lossy
	}
	w.State = r.m.AppendState(nil)
	if at, ok := r.m.Next(); ok {
		w.Due = at
	}
}

// Truth is what an entity's row is worth.
type Truth struct {
	True      bool
	Next      int64 // the instant (ms) at which that changes if nothing more happens; 0: never
	Settled   bool  // it can not change any more
	Instances int
	Witness   []int64
	Waits     []monitor.AwaitedEvent // events that can still make a difference, at most WaitsMax
}

// WaitsMax is how many events a Truth names at most that can still make a difference.
const WaitsMax = 64

// Truth says what a row is worth at the instant that was last complete.
func (r *Rule) Truth(w *Row) (t Truth, err error) {
	if w.Flags&Over != 0 {
		return Truth{True: w.Flags&True != 0, Settled: true}, nil
	}
	if err := r.m.Load(w.State); err != nil {
		return t, err
	}
	t = Truth{True: w.Flags&True != 0, Next: w.Due, Settled: r.m.Settled(), Instances: r.m.Instances()}
	t.Waits = r.m.AwaitedEvents(nil, WaitsMax)
	t.Witness = slices.Compact(r.witness(nil))
	return t, nil
}
