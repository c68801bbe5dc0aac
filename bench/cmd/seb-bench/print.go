package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

// shown are the percentiles of a line; 100 is the maximum.
var shown = []float64{50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 100}

// printRun prints a run in a few lines.
func printRun(w io.Writer, r *result.Run) {
	name, curve := r.Curves.Headline()
	var cells []string
	for _, p := range shown[:len(shown)-1] {
		if d, ok := curve.At(p); ok {
			cells = append(cells, fmt.Sprintf("p%v %s", p, result.Time(float64(d))))
		}
	}
	cells = append(cells, "max "+result.Time(float64(curve.MaxNs)))
	fmt.Fprintf(w, "%s, run %d: %s of %d: %s\n", r.Label, r.Repeat, name, curve.Count, strings.Join(cells, "  "))
	if r.Floor != nil {
		_, floor := r.Floor.Curves.Headline()
		if d, ok := floor.At(99); ok {
			fmt.Fprintf(w, "  the generator alone: p99 %s\n", result.Time(float64(d)))
		}
	}
	if !r.Counts.Clean() || r.Counts.Reordered > 0 {
		fmt.Fprintf(w, "  %s\n", wrong(&r.Counts))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "  %d x %s\n", e.Count, e.Text)
	}
	for _, f := range r.Faults {
		if f.Error != "" {
			fmt.Fprintf(w, "  fault %q: %s\n", f.Fault, f.Error)
		}
	}
	for _, reason := range r.Validity.Reasons {
		fmt.Fprintf(w, "  INVALID: %s\n", reason)
	}
}

// wrong lists faults of messages.
func wrong(c *result.Counts) string {
	var list []string
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"failed", c.Failed},
		{"unanswered", c.Unanswered},
		{"unsent", c.Unsent},
		{"answered twice", c.DoneTwice},
		{"LOST", c.Lost},
		{"duplicates", c.Duplicates},
		{"reordered", c.Reordered},
		{"CORRUPT", c.Corrupt},
		{"foreign", c.Foreign},
	} {
		if f.n > 0 {
			list = append(list, fmt.Sprintf("%s: %d", f.name, f.n))
		}
	}
	return strings.Join(list, ", ")
}

// printSummaries writes a table: the median of each percentile, and the range of several runs.
func printSummaries(w io.Writer, works []*report.Work) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\ntarget\twork\tdurable\tcurve\tsent/s")
	for _, p := range shown[:len(shown)-1] {
		fmt.Fprintf(t, "\tp%v", p)
	}
	fmt.Fprint(t, "\tmax\t\n")
	for _, work := range works {
		for _, l := range work.Lines {
			rate := l.Of(func(r *result.Run) float64 { return r.Counts.SentRate })
			for _, curve := range result.Names() {
				most, ok := l.Max(curve)
				if !ok {
					continue
				}
				fmt.Fprintf(t, "%s\t%v/s x %v\t%s\t%s\t%.0f", l.Label, work.Workload.Rate, work.Workload.Size, l.Durability(), curve, rate.Middle)
				for _, p := range shown[:len(shown)-1] {
					s, ok := l.Percentile(curve, p)
					fmt.Fprint(t, "\t"+cell(s, ok))
				}
				fmt.Fprint(t, "\t"+cell(most, true)+"\t"+strings.Join(l.Faults(), ", ")+"\n")
			}
		}
	}
	_ = t.Flush() // to a terminal or a file of the caller
}

// cell formats a median and its range, or a dash if not all runs have enough samples.
func cell(s report.Spread, ok bool) string {
	switch {
	case !ok:
		return "-"
	case s.N == 1:
		return result.Time(s.Middle)
	}
	return fmt.Sprintf("%s (%s..%s)", result.Time(s.Middle), result.Time(s.Least), result.Time(s.Most))
}
