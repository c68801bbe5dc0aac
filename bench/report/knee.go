package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// Knees draws a percentile over the rate for works that differ only in their rate: one chart for
// each such set of at least two works.
func Knees(works []*Work, p float64) (charts []*Chart) {
	var keys []string
	sets := map[string][]*Work{}
	for _, w := range works {
		same := w.Workload
		same.Rate = 0
		key := Key(&same)
		if sets[key] == nil {
			keys = append(keys, key)
		}
		sets[key] = append(sets[key], w)
	}
	for _, key := range keys {
		if set := sets[key]; len(set) > 1 {
			charts = append(charts, knee(set, p))
		}
	}
	return charts
}

func knee(set []*Work, p float64) *Chart {
	slices.SortStableFunc(set, func(a, b *Work) int {
		return cmp.Compare(a.Workload.Rate.Float(), b.Workload.Rate.Float())
	})
	first := set[0]
	c := &Chart{
		Title: fmt.Sprintf("messages of %v, %s over the rate", first.Workload.Size, percentName(p)),
		Note:  first.note(), X: Log, Y: Log, YTime: true,
		XLabel: "messages/s, as the schedule has them", YLabel: percentName(p) + ", " + curveNames[first.Headline()],
	}
	var order []string
	lines := map[string]*Trace{}
	for _, w := range set {
		for _, l := range w.Lines {
			s, ok := l.Percentile(w.Headline(), p)
			if !ok {
				continue
			}
			t := lines[l.Name()]
			if t == nil {
				t = &Trace{Name: l.Name(), Colour: Colour(len(order))}
				lines[l.Name()] = t
				order = append(order, l.Name())
			}
			t.X, t.Y = append(t.X, w.Workload.Rate.Float()), append(t.Y, s.Middle)
			t.Low, t.High = append(t.Low, s.Least), append(t.High, s.Most)
		}
	}
	for _, name := range order {
		c.Lines = append(c.Lines, *lines[name])
	}
	return c
}

// Omission draws both curves of two works that differ only in their loop, open or closed. It shows
// the coordinated omission of a closed loop.
func Omission(open, closed *Work) *Chart {
	c := open.Percentiles(open.Headline(), "")
	c.Title = open.Title() + ": open and closed loop"
	for i, l := range closed.Lines {
		for _, curve := range []string{result.E2ESent, result.AckSent} {
			if t, ok := l.trace(curve); ok {
				t.Name, t.Colour, t.Dashed = l.Name()+", closed loop", Colour(i), true
				c.Lines = append(c.Lines, t)
				break
			}
		}
	}
	return c
}

// Omissions draws Omission for each open-loop work that has a closed-loop counterpart.
func Omissions(works []*Work) (charts []*Chart) {
	closed := map[string]*Work{}
	for _, w := range works {
		if w.Workload.Loop != workload.Closed {
			continue
		}
		same := w.Workload
		same.Loop = workload.Open
		closed[Key(&same)] = w
	}
	for _, w := range works {
		if c := closed[Key(&w.Workload)]; c != nil && w.Workload.Loop != workload.Closed {
			charts = append(charts, Omission(w, c))
		}
	}
	return charts
}
