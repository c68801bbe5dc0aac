package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// Change is a figure of one system under one workload, before and after.
type Change struct {
	Work          string // title of the workload
	Label         string // label of the target
	Figure        string // name, as in conditions
	Nanos         bool   // the values are nanoseconds
	Before, After Spread
	// P is the p-value of the Mann-Whitney test over the repeats. It is 1 if one side has a single
	// run.
	P float64
	// Apart reports whether the difference is significant: P is below 5 %. With too few repeats to
	// reach 5 %, the two ranges must be disjoint instead. The range of a single run is the 95 %
	// confidence interval of the percentile.
	Apart bool
}

// Ratio returns After divided by Before; NaN if Before is zero.
func (c *Change) Ratio() float64 {
	if c.Before.Middle == 0 {
		return math.NaN()
	}
	return c.After.Middle / c.Before.Middle
}

// figure is a compared quantity. values has one value per run; low and high are the confidence
// interval of a single run.
type figure struct {
	name   string
	nanos  bool
	values func(l *Line, curve string) []interval
}

type interval struct{ value, low, high float64 }

func percentile(p float64) figure {
	return figure{name: fmt.Sprintf("p%v", p), nanos: true, values: func(l *Line, curve string) (list []interval) {
		for _, r := range l.Runs {
			c := r.Curves.Named(curve)
			if c == nil {
				return nil
			}
			for _, x := range c.Percentiles {
				if x.Percentile == p {
					list = append(list, interval{float64(x.Ns), float64(x.LowNs), float64(x.HighNs)})
				}
			}
		}
		if len(list) < len(l.Runs) {
			return nil // not every run has enough samples
		}
		return list
	}}
}

func comparePlain(name string, nanos bool, of func(r *result.Run, curve string) float64) figure {
	return figure{name: name, nanos: nanos, values: func(l *Line, curve string) (list []interval) {
		for _, r := range l.Runs {
			x := interval{value: of(r, curve)}
			x.low, x.high = x.value, x.value
			if nanos || name == moreIsBetter { // a single run has no known variance; a count of lost messages is exact
				x.low, x.high = math.Inf(-1), math.Inf(1)
			}
			list = append(list, x)
		}
		return list
	}}
}

// figures are all compared quantities, in display order.
var figures = []figure{
	percentile(50), percentile(75), percentile(90), percentile(95), percentile(99), percentile(99.9), percentile(99.99),
	percentile(99.999), percentile(99.9999),
	comparePlain("mean", true, func(r *result.Run, curve string) float64 {
		if c := r.Curves.Named(curve); c != nil {
			return float64(c.MeanNs)
		}
		return 0
	}),
	comparePlain("max", true, func(r *result.Run, curve string) float64 {
		if c := r.Curves.Named(curve); c != nil {
			return float64(c.MaxNs)
		}
		return 0
	}),
	comparePlain("rate", false, func(r *result.Run, _ string) float64 { return r.Counts.SentRate }),
	comparePlain("lost", false, func(r *result.Run, _ string) float64 { return float64(r.Counts.Lost) }),
	comparePlain("duplicates", false, func(r *result.Run, _ string) float64 { return float64(r.Counts.Duplicates) }),
	comparePlain("corrupt", false, func(r *result.Run, _ string) float64 { return float64(r.Counts.Corrupt) }),
	comparePlain("failed", false, func(r *result.Run, _ string) float64 {
		return float64(r.Counts.Failed + r.Counts.Unanswered + r.Counts.Unsent)
	}),
}

// Figures returns the names of the compared figures.
func Figures() (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}

// Compare pairs the lines of two results that have the same workload and target label. Unpaired
// lists the lines that only one result has.
func Compare(before, after *result.File) (changes []Change, unpaired []string, err error) {
	old, err := Works(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the first result: %w", err)
	}
	recent, err := Works(after)
	if err != nil {
		return nil, nil, fmt.Errorf("the second result: %w", err)
	}
	name := func(w *Work, l *Line) string {
		return fmt.Sprintf("%s, %s, for %v after %v", l.Name(), w.Title(), w.Workload.Duration, w.Workload.Warmup)
	}
	used := map[*Line]bool{}
	for _, w := range recent {
		var first *Work
		if i := slices.IndexFunc(old, func(o *Work) bool { return Key(&o.Workload) == Key(&w.Workload) }); i >= 0 {
			first = old[i]
		}
		for _, l := range w.Lines {
			i := -1
			if first != nil {
				i = slices.IndexFunc(first.Lines, func(o *Line) bool { return o.Label == l.Label && !used[o] })
			}
			if i < 0 {
				unpaired = append(unpaired, "only in the second: "+name(w, l))
				continue
			}
			used[first.Lines[i]] = true
			changes = append(changes, compareLines(w, first.Lines[i], l)...)
		}
	}
	for _, w := range old {
		for _, l := range w.Lines {
			if !used[l] {
				unpaired = append(unpaired, "only in the first: "+name(w, l))
			}
		}
	}
	slices.Sort(unpaired)
	return changes, unpaired, nil
}

// moreIsBetter is the only figure for which a higher value is better.
const moreIsBetter = "rate"

// Verdict summarizes the change: better, worse, the same, or not significant.
func (c *Change) Verdict() string {
	switch {
	case c.Before == c.After && c.Before.Least == c.Before.Most:
		return "the same"
	case !c.Apart:
		return "not significant"
	case (c.After.Middle > c.Before.Middle) == (c.Figure == moreIsBetter):
		return "BETTER"
	}
	return "WORSE"
}

func compareLines(w *Work, before, after *Line) (changes []Change) {
	for _, f := range figures {
		a, b := f.values(before, w.Headline()), f.values(after, w.Headline())
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		c := Change{Work: w.Title(), Label: after.Label, Figure: f.name, Nanos: f.nanos, Before: spread(a), After: spread(b), P: 1}
		if len(a) > 1 && len(b) > 1 {
			c.P = MannWhitney(plainValues(a), plainValues(b))
		}
		c.Apart = c.P < significant || (lowestP(len(a), len(b)) >= significant && disjoint(a, b))
		changes = append(changes, c)
	}
	return changes
}

// significant is the significance level: a difference with a lower P counts.
const significant = 0.05

// lowestP returns the lowest possible P for these numbers of repeats: the samples are disjoint, in
// either order.
func lowestP(n, m int) float64 {
	if n < 2 || m < 2 {
		return 1
	}
	orders := 1.0
	for i := 1; i <= n; i++ {
		orders = orders * float64(m+i) / float64(i)
	}
	return 2 / orders
}

func plainValues(list []interval) []float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = x.value
	}
	return values
}

func spread(list []interval) Spread { return SpreadOf(plainValues(list)) }

// disjoint reports whether the ranges of two samples do not overlap.
func disjoint(a, b []interval) bool {
	aLow, aHigh := rangeOf(a)
	bLow, bHigh := rangeOf(b)
	return aHigh < bLow || bHigh < aLow
}

func rangeOf(list []interval) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, x := range list {
		if len(list) == 1 {
			return x.low, x.high
		}
		low, high = min(low, x.value), max(high, x.value)
	}
	return low, high
}

// exactMax is the most values in both samples together for an exact count of all orders: C(20, 10)
// = 184,756.
const exactMax = 20

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test of a and b; 1 if one is
// empty. It is exact for up to 20 values in all, and a normal approximation above. Ties count half.
func MannWhitney(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	all := append(slices.Clone(a), b...)
	ranks := ranksOf(all)
	sum := 0.0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	mean := float64(len(a)) * float64(len(all)+1) / 2
	distance := math.Abs(sum - mean)
	if len(all) > exactMax {
		return approximate(ranks, len(a), len(b), distance)
	}
	var extreme, orders int
	choose(ranks, len(a), 0, func(sum float64) {
		orders++
		if math.Abs(sum-mean) >= distance-1e-9 {
			extreme++
		}
	})
	return float64(extreme) / float64(orders)
}

// ranksOf returns the ranks of values, from 1. Equal values get the mean of their ranks.
func ranksOf(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	ranks := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// choose calls f with the sum of every choice of n ranks.
func choose(ranks []float64, n int, sum float64, f func(float64)) {
	switch {
	case n == 0:
		f(sum)
	case n <= len(ranks):
		choose(ranks[1:], n-1, sum+ranks[0], f)
		choose(ranks[1:], n, sum, f)
	}
}

// approximate returns the normal approximation, with the correction for ties.
func approximate(ranks []float64, n, m int, distance float64) float64 {
	total := float64(n + m)
	squares, mean := 0.0, (total+1)/2
	for _, r := range ranks {
		squares += (r - mean) * (r - mean)
	}
	variance := float64(n) * float64(m) / (total * (total - 1)) * squares
	if variance == 0 {
		return 1
	}
	return min(1, math.Erfc(max(0, distance-0.5)/math.Sqrt(2*variance)))
}

// Condition makes a comparison fail. Examples: p99>10% (the second median is more than a tenth
// above the first), p99>5ms (it is above 5 ms), rate<-5%, lost>0.
type Condition struct {
	text     string
	figure   string
	less     bool
	limit    float64
	relative bool // limit is a fraction of the first median, else a value of the second
}

// String returns the condition as it was given.
func (c *Condition) String() string { return c.text }

// ParseCondition parses a condition.
func ParseCondition(s string) (Condition, error) {
	fail := func(why string) (Condition, error) {
		return Condition{}, fmt.Errorf("condition %q: %s; want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>10%%, p99.9>5ms, rate<-5%%, lost>0", s, why)
	}
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fail("no < and no >")
	}
	c := Condition{text: s, figure: strings.TrimSpace(s[:at]), less: s[at] == '<'}
	known := slices.IndexFunc(figures, func(f figure) bool { return f.name == c.figure })
	if known < 0 {
		return fail(fmt.Sprintf("no figure %q, there are %s", c.figure, strings.Join(Figures(), ", ")))
	}
	limit := strings.TrimSpace(s[at+1:])
	if number, ok := strings.CutSuffix(limit, "%"); ok {
		c.relative = true
		v, err := strconv.ParseFloat(strings.TrimPrefix(number, "+"), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fail(fmt.Sprintf("%q is no percentage", limit))
		}
		c.limit = v / 100
		return c, nil
	}
	if figures[known].nanos {
		d, err := time.ParseDuration(limit)
		if err != nil {
			return fail(fmt.Sprintf("%q is no duration", limit))
		}
		c.limit = float64(d)
		return c, nil
	}
	v, err := strconv.ParseFloat(limit, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fail(fmt.Sprintf("%q is no number", limit))
	}
	c.limit = v
	return c, nil
}

// About reports whether a change is of the condition's figure.
func (c *Condition) About(x *Change) bool { return x.Figure == c.figure }

// Met reports whether a change meets the condition. Only a significant change meets a relative
// condition.
func (c *Condition) Met(x *Change) bool {
	if !c.About(x) {
		return false
	}
	value := x.After.Middle
	if c.relative {
		if !x.Apart {
			return false
		}
		value = x.Ratio() - 1
		if x.Before.Middle == 0 { // an increase from zero exceeds every fraction
			value = math.Inf(1)
			if x.After.Middle == 0 {
				value = 0
			}
		}
	}
	if c.less {
		return value < c.limit
	}
	return value > c.limit
}
