package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/report"

	"github.com/sebbroker/seb/bench/result"
)

func newCompare() *cobra.Command {
	var texts []string
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "Compare two results and test whether the differences are significant",
		Long: `Compares the medians of the repeats of each target that did the same work in both files. A difference
is significant when it would arise by chance in less than 1 of 20 cases (Mann-Whitney test over the
repeats). This needs 4 repeats on each side. With fewer repeats, the ranges must not overlap; with
single runs, the 95 % confidence intervals of the percentiles must not overlap.

A condition such as "p99 > 10%" (the second median is that much higher than the first, and the
difference is significant), "p99 > 5ms" or "lost > 0" (the second median is above that value) makes
the exit code 3 if it holds for any target. The figures are
` + strings.Join(report.Figures(), ", ") + `.`,
		Example: `  seb-bench compare main.json branch.json --fail-if "p99 > 10%" --fail-if "lost > 0"`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var conditions []report.Condition
			for _, text := range texts {
				c, err := report.ParseCondition(text)
				if err != nil {
					return fmt.Errorf("--fail-if: %w", err)
				}
				conditions = append(conditions, c)
			}
			return compareFiles(cmd.OutOrStdout(), paths[0], paths[1], conditions)
		},
	}
	cmd.Flags().StringArrayVar(&texts, "fail-if", nil, `condition for exit code 3, may be repeated: "p99 > 10%", "p99.9 > 5ms", "rate < -5%", "lost > 0"`)
	return cmd
}

var (
	errConditions = errors.New("conditions hold")
	errNoCommon   = errors.New("no target did the same work in both")
)

func compareFiles(w io.Writer, before, after string, conditions []report.Condition) error {
	files, _, err := readWorks([]string{before})
	if err != nil {
		return err
	}
	others, _, err := readWorks([]string{after})
	if err != nil {
		return err
	}
	changes, unpaired, err := report.Compare(files[0], others[0])
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return fmt.Errorf("%s, %s: %w: %s", before, after, errNoCommon, strings.Join(unpaired, ", "))
	}
	printChanges(w, changes)
	for _, text := range unpaired {
		fmt.Fprintln(w, text)
	}
	warnInvalid(w, before, files[0])
	warnInvalid(w, after, others[0])
	return judge(w, changes, conditions)
}

// judge returns an error if a condition holds, and prints for which targets.
func judge(w io.Writer, changes []report.Change, conditions []report.Condition) error {
	var held []string
	for i := range conditions {
		c := &conditions[i]
		known, met := false, false
		for k := range changes {
			x := &changes[k]
			known = known || c.About(x)
			if c.Met(x) {
				met = true
				fmt.Fprintf(w, "FAILED %s: %s, %s: %s\n", c, x.Label, x.Work, fromTo(x))
			}
		}
		switch {
		case met:
			held = append(held, c.String())
		case !known:
			// A condition that cannot be checked is a failure.
			fmt.Fprintf(w, "FAILED %s: no target has enough samples for it in both\n", c)
			held = append(held, c.String())
		default:
			fmt.Fprintf(w, "ok: not %s\n", c)
		}
	}
	if len(held) > 0 {
		return fmt.Errorf("%w: %s", errConditions, strings.Join(held, ", "))
	}
	return nil
}

// printChanges writes a table for each target and work.
func printChanges(w io.Writer, changes []report.Change) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	apart := 0
	for i := range changes {
		x := &changes[i]
		if i == 0 || x.Label != changes[i-1].Label || x.Work != changes[i-1].Work {
			if i > 0 {
				fmt.Fprintln(t)
			}
			fmt.Fprintf(t, "%s, %s, %d and %d runs\nfigure\tbefore\tafter\tchange\tp\t\n", x.Label, x.Work, x.Before.N, x.After.N)
		}
		p := fmt.Sprintf("%.3f", x.P)
		if x.Before.N < 2 || x.After.N < 2 {
			p = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", x.Figure, valueOf(x, x.Before), valueOf(x, x.After), change(x), p, x.Verdict())
		if x.Apart {
			apart++
		}
	}
	_ = t.Flush() // to a terminal or a file of the caller
	if apart == 0 {
		fmt.Fprint(w, "\nNo difference is significant.\n\n")
		return
	}
	fmt.Fprintf(w, "\n%d of %d differences are significant.\n\n", apart, len(changes))
}

func fromTo(x *report.Change) string {
	return valueOf(x, x.Before) + " before, " + valueOf(x, x.After) + " after"
}

// valueOf formats a figure with its range.
func valueOf(x *report.Change, s report.Spread) string {
	if x.Nanos {
		return cell(s, true)
	}
	if s.N == 1 || s.Least == s.Most {
		return fmt.Sprintf("%.6g", s.Middle)
	}
	return fmt.Sprintf("%.6g (%.6g..%.6g)", s.Middle, s.Least, s.Most)
}

func change(x *report.Change) string {
	r := x.Ratio()
	if math.IsNaN(r) {
		if x.After.Middle == 0 {
			return "none"
		}
		return "new"
	}
	return fmt.Sprintf("%+.1f %%", 100*(r-1))
}

// warnInvalid lists runs whose figures are those of the generator.
func warnInvalid(w io.Writer, path string, f *result.File) {
	invalid := 0
	for i := range f.Runs {
		if !f.Runs[i].Validity.Valid {
			invalid++
		}
	}
	if invalid > 0 {
		fmt.Fprintf(w, "%s: %d of %d runs are INVALID: their figures are not the target's\n", path, invalid, len(f.Runs))
	}
	for i := range f.Failures {
		fmt.Fprintf(w, "%s: not measured: %s, %s: %s\n", path, f.Failures[i].Label, f.Failures[i].Workload.Name, f.Failures[i].Error)
	}
}
