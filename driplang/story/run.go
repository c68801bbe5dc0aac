package story

import (
	"math"
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/driplang/monitor"
)

// maxWork bounds the visits of parts of the program by all evaluations of an answer.
const maxWork = 200_000

// teller finds the stories of an expression.
type teller struct {
	*samples
	root      *form.Form
	monitor   *monitor.Monitor
	nodes     int // of the program
	perFrame  int // nodes of a usual frame
	work      int // left
	truncated bool
	fired     bool
	windows   []int64 // durations of the expression
	ends      []int64 // windows, and sums of two
	seen      map[string]bool
	found     []*candidate
}

func newTeller(e driplang.Expr, p *monitor.Program) *teller {
	t := &teller{
		samples: newSamples(p, e.Normal().Kinds), root: e.Normal().Root, monitor: monitor.New(p), nodes: p.Nodes(), work: maxWork,
		seen: map[string]bool{},
	}
	t.windows, t.truncated = windows(t.root), t.lacks
	t.ends = ends(t.windows)
	frames := 1
	t.root.Each(func(f *form.Form) {
		if f.Op == form.Then {
			frames++
		}
	})
	t.perFrame = t.nodes/frames + 1
	return t
}

// windows returns the durations of a form in ascending order.
func windows(f *form.Form) (list []int64) {
	f.Each(func(g *form.Form) {
		for _, d := range []int64{g.After, g.Within} {
			if d > 0 && len(list) < 64 {
				list = append(list, d)
			}
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// ends returns durations, and the sums of two of the shortest.
func ends(windows []int64) []int64 {
	const few = 4
	list := slices.Clone(windows)
	for i, d := range windows[:min(few, len(windows))] {
		for _, e := range windows[:i] {
			if !slices.Contains(list, d+e) {
				list = append(list, d+e)
			}
		}
	}
	return list
}

// ending is the result of a history.
type ending struct {
	fires  bool
	at     int64 // when it fires, or from when on its value is decided
	events int   // events applied until it fires
	byTime bool  // it fires at a deadline, after those events
}

// spend reports whether some work may be done, and subtracts it.
func (t *teller) spend(work int) bool {
	if t.work >= 0 {
		t.work -= work
	}
	t.truncated = t.truncated || t.work < 0
	return t.work >= 0
}

// operation is the work of an operation of the monitor.
func (t *teller) operation() int { return t.nodes + t.perFrame*t.monitor.Instances() }

// run evaluates a history, as if no other event followed. ok is false if there is no work left.
func (t *teller) run(h history) (end ending, ok bool) {
	m := t.monitor
	m.Reset()
	for i, e := range h {
		if at, fires, ok := t.pass(e.at, nil); !ok || fires {
			return ending{fires: true, at: at, events: i, byTime: true}, ok
		}
		if e.kinds == 0 {
			continue
		}
		if !t.spend(t.operation()) {
			return ending{}, false
		}
		if m.Step(e.kinds, e.at, 0) == monitor.True {
			return ending{fires: true, at: e.at, events: i + 1}, true
		}
	}
	end = ending{at: h[len(h)-1].at, events: len(h)}
	at, fires, ok := t.pass(math.MaxInt64, &end.at)
	if fires {
		return ending{fires: true, at: at, events: len(h), byTime: true}, ok
	}
	return end, ok
}

// pass passes the deadlines before an instant, up to the one at which the expression becomes true. If
// decided is not nil, it becomes the last instant at which the value stopped to be pending.
func (t *teller) pass(before int64, decided *int64) (at int64, fires, ok bool) {
	m := t.monitor
	for was := m.Value(); ; {
		at, more := m.Deadline()
		if !more || at >= before {
			return 0, false, true
		}
		if !t.spend(t.operation()) {
			return 0, false, false
		}
		switch v := m.Advance(at); {
		case v == monitor.True:
			return at, true, true
		case v == monitor.False && was == monitor.Pending && decided != nil:
			*decided, was = at, v
		default:
			was = v
		}
	}
}

// pending reports whether the value of a history is undecided at a time after its last event.
func (t *teller) pending(h history, at int64) bool {
	m := t.monitor
	m.Reset()
	for _, e := range h {
		if !t.spend(t.operation()) {
			return false
		}
		if e.kinds != 0 {
			m.Step(e.kinds, e.at, 0)
		}
	}
	return m.Advance(at) == monitor.Pending
}

// middle returns a plain time between two others whose distance from the first is no duration of the
// expression, nor next to one.
func (t *teller) middle(low, high int64) int64 {
	at := low + between(0, high-low)
	for range 4 {
		if !t.near(at - low) {
			break
		}
		at += between(0, high-at)
	}
	return at
}

// near reports whether a duration is one of the expression, or a millisecond away.
func (t *teller) near(millis int64) bool {
	return slices.ContainsFunc(t.windows, func(d int64) bool { return d-1 <= millis && millis <= d+1 })
}
