package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Work is the runs of several systems whose workloads differ only in their name.
type Work struct {
	Workload workload.Workload
	Lines    []*Line // in the order of their first runs
}

// Line is all repeats of one system under one work.
type Line struct {
	Label string
	Runs  []*result.Run
	hists map[string][]*result.Histogram // by name of the curve, one for each run that has it
}

// Works groups runs by their workload. The error is of a histogram that cannot be decoded.
func Works(files ...*result.File) ([]*Work, error) {
	var works []*Work
	byKey := map[string]*Work{}
	for _, f := range files {
		for i := range f.Runs {
			r := &f.Runs[i]
			key := Key(&r.Workload)
			w := byKey[key]
			if w == nil {
				w = &Work{Workload: r.Workload}
				byKey[key] = w
				works = append(works, w)
			}
			if err := w.add(r); err != nil {
				return nil, fmt.Errorf("run %s of %s: %w", r.ID, r.Label, err)
			}
		}
	}
	return works, nil
}

// Key identifies a workload without its name.
func Key(w *workload.Workload) string {
	same := *w
	same.Name = ""
	b, err := json.Marshal(&same)
	if err != nil {
		panic("encode a workload: " + err.Error()) // a valid workload has only finite numbers
	}
	return string(b)
}

func (w *Work) add(r *result.Run) error {
	i := slices.IndexFunc(w.Lines, func(l *Line) bool {
		return l.Label == r.Label && l.Runs[0].System.System == r.System.System && l.Durability() == r.System.Durability
	})
	if i < 0 {
		i = len(w.Lines)
		w.Lines = append(w.Lines, &Line{Label: r.Label, hists: map[string][]*result.Histogram{}})
	}
	l := w.Lines[i]
	l.Runs = append(l.Runs, r)
	for _, name := range result.Names() {
		c := r.Curves.Named(name)
		if c == nil {
			continue
		}
		h, err := c.Histogram()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.hists[name] = append(l.hists[name], h)
	}
	return nil
}

// Title describes the work in one line.
func (w *Work) Title() string {
	x := &w.Workload
	parts := []string{}
	if x.Name != "" {
		parts = append(parts, x.Name)
	}
	parts = append(parts, fmt.Sprintf("%v messages/s of %v", x.Rate, x.Size))
	if x.Publishers > 1 {
		parts = append(parts, fmt.Sprintf("%d publishers", x.Publishers))
	}
	if x.Subscribers != 1 {
		parts = append(parts, fmt.Sprintf("%d subscribers", x.Subscribers))
	}
	if x.Loop == workload.Closed {
		parts = append(parts, "closed loop")
	}
	if x.Arrivals == workload.Poisson {
		parts = append(parts, "Poisson arrivals")
	}
	for _, f := range x.Faults {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, ", ")
}

// Headline returns the name of the curve that the work is judged by: end to end if there are
// subscribers.
func (w *Work) Headline() string {
	if w.Workload.Subscribers > 0 {
		return result.E2EIntended
	}
	return result.AckIntended
}

// Unlike reports whether the systems store messages with different durability, so that their
// figures are not comparable.
func (w *Work) Unlike() bool {
	for _, l := range w.Lines {
		if l.Durability() != w.Lines[0].Durability() {
			return true
		}
	}
	return false
}

// Durability returns the durability of acknowledged messages.
func (l *Line) Durability() sut.Durability { return l.Runs[0].System.Durability }

// Name returns the line's label with its durability.
func (l *Line) Name() string { return l.Label + " (" + string(l.Durability()) + ")" }

// Spread is a figure over the repeats of a line. N of them have it.
type Spread struct {
	Middle, Least, Most float64
	N                   int
}

// SpreadOf returns the spread of values; NaN if there are none. It sorts them.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{Middle: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	}
	slices.SortFunc(values, cmp.Compare[float64])
	n := len(values)
	return Spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1], n}
}

// SpreadBy returns the spread of a figure of each element of a list.
func SpreadBy[T any](list []T, figure func(T) float64) Spread {
	values := make([]float64, len(list))
	for i, e := range list {
		values[i] = figure(e)
	}
	return SpreadOf(values)
}

// Format formats the median, and the range if there is one, with a format of package fmt.
func (s Spread) Format(format string) string {
	if s.Least == s.Most {
		return fmt.Sprintf(format, s.Middle)
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.Middle, s.Least, s.Most)
}

// Of returns the spread of a figure over the runs.
func (l *Line) Of(figure func(*result.Run) float64) Spread {
	return SpreadBy(l.Runs, figure)
}

// Percentile returns a percentile (0 to 100) of a curve over the repeats, in nanoseconds. ok is
// false unless all repeats have enough samples above it.
func (l *Line) Percentile(curve string, p float64) (s Spread, ok bool) {
	var values []float64
	for _, h := range l.hists[curve] {
		d, shown := h.Percentile(p)
		if !shown {
			return Spread{}, false
		}
		values = append(values, float64(d))
	}
	return SpreadOf(values), len(values) > 0
}

// Max returns the longest time of a curve over the repeats, in nanoseconds; ok is false if no run
// has it.
func (l *Line) Max(curve string) (s Spread, ok bool) {
	var values []float64
	for _, h := range l.hists[curve] {
		values = append(values, float64(h.Max()))
	}
	return SpreadOf(values), len(values) > 0
}

// behind reports whether a run ended while messages were still arriving.
func behind(r *result.Run) bool {
	last := r.Seconds[max(0, len(r.Seconds)-2):] // the last one is partial
	return r.Counts.Unanswered+r.Counts.Unsent > 0 || slices.ContainsFunc(last, func(s result.Second) bool { return s.Received > 0 })
}

// Faults describes the problems of the line's runs; empty without problems.
func (l *Line) Faults() (list []string) {
	var invalid int
	sum := map[string]int64{}
	for _, r := range l.Runs {
		if !r.Validity.Valid {
			invalid++
		}
		c := &r.Counts
		lost := "lost"
		if behind(r) { // the missing messages may still have been on their way
			lost = "not delivered by the end"
		}
		for name, n := range map[string]int64{
			"failed": c.Failed, "unanswered": c.Unanswered, "unsent": c.Unsent, lost: c.Lost,
			"duplicate": c.Duplicates, "corrupt": c.Corrupt, "foreign": c.Foreign, "answered twice": c.DoneTwice,
		} {
			sum[name] += n
		}
		if !r.Workload.Shared && r.Workload.Partitions == 1 {
			sum["out of order"] += c.Reordered
		}
	}
	if invalid > 0 {
		list = append(list, fmt.Sprintf("%d of %d runs invalid", invalid, len(l.Runs)))
	}
	for _, name := range []string{
		"lost", "duplicate", "corrupt", "out of order", "failed", "unanswered", "unsent", "not delivered by the end", "foreign", "answered twice",
	} {
		if sum[name] > 0 {
			list = append(list, fmt.Sprintf("%d %s", sum[name], name))
		}
	}
	return list
}
