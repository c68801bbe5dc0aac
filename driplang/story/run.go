package story

import (
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/driplang/monitor"
)

// maxWork bounds the visits of parts of the program by all evaluations of an answer.
const maxWork = 400_000

// teller finds the stories of an expression.
type teller struct {
	*samples
	root      *form.Form
	monitor   *monitor.Monitor
	nodes     int // of the program
	work      int // left
	truncated bool
	fired     bool
	windows   []int64 // durations of the expression, and sums of two
	seen      map[string]bool
	found     []*candidate
}

func newTeller(e driplang.Expr, p *monitor.Program) *teller {
	t := &teller{
		samples: newSamples(p, e.Normal().Kinds), root: e.Normal().Root, monitor: monitor.New(p), nodes: p.Nodes(), work: maxWork,
		seen: map[string]bool{},
	}
	t.windows = windows(t.root)
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

// ending is the result of a history.
type ending struct {
	fires  bool
	at     int64 // when it fires, or from when on its value is decided
	events int   // events applied until it fires
	byTime bool  // it fires at a deadline, after those events
}

// spend reports whether there is work left for some operations of the monitor.
func (t *teller) spend(operations int) bool {
	t.work -= t.nodes * operations * (1 + t.monitor.Instances())
	t.truncated = t.truncated || t.work < 0
	return t.work >= 0
}

// run evaluates a history, as if no other event followed. ok is false if there is no work left.
func (t *teller) run(h history) (end ending, ok bool) {
	m := t.monitor
	m.Reset()
	for i, e := range h {
		if !t.spend(2) {
			return ending{}, false
		}
		if at, soon := m.Next(); soon && at < e.at {
			return ending{fires: true, at: at, events: i, byTime: true}, true
		}
		if e.kinds == 0 {
			continue
		}
		if m.Step(e.kinds, e.at, 0) == monitor.True {
			return ending{fires: true, at: e.at, events: i + 1}, true
		}
	}
	if at, soon := m.Next(); soon {
		return ending{fires: true, at: at, events: len(h), byTime: true}, true
	}
	end = ending{at: h[len(h)-1].at, events: len(h)}
	for m.Value() == monitor.Pending {
		at, more := m.Deadline()
		if !more {
			break
		}
		if !t.spend(2) {
			return ending{}, false
		}
		end.at = at
		m.Advance(at)
	}
	return end, true
}

// pending reports whether the value of a history is undecided at a time after its last event.
func (t *teller) pending(h history, at int64) bool {
	m := t.monitor
	m.Reset()
	for _, e := range h {
		if !t.spend(1) {
			return false
		}
		if e.kinds != 0 {
			m.Step(e.kinds, e.at, 0)
		}
	}
	return m.Advance(at) == monitor.Pending
}
