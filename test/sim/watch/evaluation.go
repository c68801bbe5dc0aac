package watch

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/driplangtest"
)

// historyEvent is an event of an entity in the log.
type historyEvent struct {
	driplangtest.Event
	topic  string // its ID
	offset int64
}

// expected is a firing by definition.
type expected struct {
	entity, cause string
	at, taken     int64
	state         rule.State
	start         bool // it was true when the version was created
}

// meaning is an expression, and the durations after an event at which its value may change by time
// alone.
type meaning struct {
	ref   *driplangtest.Expr
	names []string
	sums  []int64 // ms
}

func meaningOf(e driplang.Expr) meaning {
	m := meaning{ref: driplangtest.Of(e), names: e.Names(), sums: []int64{0}}
	text := e.String()
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '(' || r == ')' }) {
		d, err := driplang.ParseDuration(word)
		if err != nil {
			continue
		}
		for _, sum := range slices.Clone(m.sums) {
			m.sums = append(m.sums, sum+d.Milliseconds())
		}
	}
	slices.Sort(m.sums)
	m.sums = slices.Compact(m.sums)[1:]
	return m
}

// evaluation evaluates a trigger version over an entity's history and finds its firings. It
// evaluates the definition after every event and at every instant at which the value may change. It
// shares no code with the engine or its monitor.
type evaluation struct {
	d       *rule.Definition
	m       *meaning
	part    uint32
	entity  string
	read    int // of the history
	events  []driplangtest.Event
	from    int     // the first that counts: earlier ones came before a reset
	instant []int64 // future ones, ascending

	out, fired, crossed bool
	last                int64
	rise                *expected
	found               map[string]*expected // by cause
	gone                []string             // IDs of topics whose events do not count
	edges               *int                 // events at instants at which something was due
}

func newEvaluation(d *rule.Definition, m *meaning, part uint32, entity string) *evaluation {
	k := &evaluation{d: d, m: m, part: part, entity: entity, found: map[string]*expected{}}
	if d.Backfill == rule.Current {
		k.ahead(d.At + 1)
	}
	return k
}

func (k *evaluation) ahead(at int64) {
	if i, there := slices.BinarySearch(k.instant, at); !there {
		k.instant = slices.Insert(k.instant, i, at)
	}
}

// extend evaluates up to an instant that is complete, and over all events that exist.
func (k *evaluation) extend(history []historyEvent, complete int64) {
	for {
		more := k.read < len(history)
		switch {
		case len(k.instant) > 0 && k.instant[0] <= complete && (!more || k.instant[0] < history[k.read].At):
			at := k.instant[0]
			k.instant = k.instant[1:]
			k.deadline(at)
		case more:
			k.event(&history[k.read])
			k.read++
		default:
			return
		}
	}
}

func (k *evaluation) event(h *historyEvent) {
	if slices.Contains(k.gone, h.topic) {
		return
	}
	past := k.past(h)
	if !past {
		k.cross()
	}
	if past && k.d.Backfill == rule.None || !slices.Contains(k.m.names, h.Name) {
		return
	}
	if slices.Contains(k.instant, h.At) {
		*k.edges++
	}
	k.events = append(k.events, h.Event)
	for _, sum := range k.m.sums {
		k.ahead(h.At + sum)
		k.ahead(h.At + sum + 1)
	}
	cause := rule.EventCause(k.part, h.offset)
	if h.topic != k.d.TopicID {
		cause += ":" + h.topic
	}
	k.evaluateAt(driplangtest.Point{At: h.At}, cause, past)
}

// past reports whether an event is older than the version: it was in the log by the border, or its
// offset existed then.
func (k *evaluation) past(h *historyEvent) bool {
	return h.At <= k.d.At || h.topic == k.d.TopicID && h.offset < k.d.From[k.part]
}

func (k *evaluation) deadline(at int64) {
	if at > k.d.At {
		k.cross()
	}
	k.evaluateAt(driplangtest.Point{At: at, Done: true}, rule.DeadlineCause(at, k.part), at <= k.d.At)
}

func (k *evaluation) evaluateAt(p driplangtest.Point, cause string, past bool) {
	p.Events = len(k.events) - k.from
	is := k.m.ref.Value(k.events[k.from:], p) == driplangtest.True
	if is && !k.out && (k.d.Fire != rule.Once || !k.fired) {
		k.fire(p.At, cause, past)
		if k.d.Fire == rule.OnReset {
			k.from, is = len(k.events), false
		}
	}
	if !is && k.out && k.rise != nil {
		k.rise.taken, k.rise = p.At, nil
	}
	k.out = is
}

// cross moves to the time in which the trigger exists.
func (k *evaluation) cross() {
	if k.d.Backfill != rule.Current || k.crossed {
		return
	}
	k.crossed = true
	if k.out {
		cause := rule.StartCause(k.d.At, k.part, k.d.From[k.part])
		k.fire(k.d.At, cause, false)
		k.found[cause].start = true
		if k.d.Fire == rule.OnReset {
			k.from, k.out = len(k.events), false
		}
	}
}

func (k *evaluation) fire(at int64, cause string, past bool) {
	x := &expected{entity: k.entity, cause: cause, at: at, state: rule.Pending}
	cool := k.d.Cooldown > 0 && k.fired && at < k.last+k.d.Cooldown
	switch {
	case past && k.d.Backfill != rule.Replay:
		x.state = rule.Historic
	case cool:
		x.state = rule.Suppressed
	case k.d.OnRetract == rule.Notify:
		k.rise = x
	}
	if !cool {
		k.last = at
	}
	k.fired = true
	k.found[cause] = x
}
