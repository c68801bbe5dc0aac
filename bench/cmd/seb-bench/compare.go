package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
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

func newSweep() *cobra.Command {
	var s session
	var rates, sizes []string
	cmd := &cobra.Command{
		Use:   "sweep [FILE|PRESET] --rates R,R,... --sizes S,S,...",
		Short: "Measure the targets at several rates and sizes",
		Long: `Does the same as run, with each of the rates and each of the sizes. For every target and size, the
result file has a curve of latency over rate.`,
		Example: `  seb-bench sweep --rates 1000,2000,5000,10000 --sizes 256B,1KiB --duration 10s --target seb --target kafka`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.open(cmd, args); err != nil {
				return err
			}
			var sw load.Sweep
			for _, text := range rates {
				rate, err := workload.ParseRate(strings.TrimSpace(text))
				if err != nil {
					return fmt.Errorf("--rates: %w", err)
				}
				sw.Rates = append(sw.Rates, rate)
			}
			for _, text := range sizes {
				size, err := workload.ParseSizes(text)
				if err != nil {
					return fmt.Errorf("--sizes: %w", err)
				}
				sw.Sizes = append(sw.Sizes, size)
			}
			all := sw.Workloads(s.file.Workload)
			for i := range all {
				if err := all[i].Validate(); err != nil {
					return fmt.Errorf("at %v/s of %v: %w", all[i].Rate, all[i].Size, err)
				}
			}
			return s.all(cmd.Context(), all)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringSliceVar(&rates, "rates", nil, "messages per second, separated by commas")
	cmd.Flags().StringSliceVar(&sizes, "sizes", nil, "message sizes, separated by commas")
	return cmd
}

func newMax() *cobra.Command {
	var s session
	var slo, from, to string
	var long time.Duration
	o := load.Search{}
	cmd := &cobra.Command{
		Use:   "max [FILE|PRESET] --slo p99=50ms",
		Short: "Find the highest rate at which each target stays within a latency limit",
		Long: `Doubles the rate until the target misses the latency limit, then narrows the range by halving it, and
confirms the result with longer runs. A target sustains a rate when all of these hold: the percentile
is within the limit, at least 99 % of the rate was reached, the backlog did not grow, every message
arrived intact, and the load generator itself was not late. The percentile is of the end-to-end
latency from the intended time, or of the latency until the acknowledgement if there are no
subscribers. Every step is in the result file.`,
		Example: `  seb-bench max --slo p99=50ms --size 1KiB --target seb`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err = s.open(cmd, args); err != nil {
				return err
			}
			if o.Objective, err = load.ParseObjective(slo); err != nil {
				return fmt.Errorf("--slo: %w", err)
			}
			if o.From, err = workload.ParseRate(from); err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			if o.To, err = workload.ParseRate(to); err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			if err := o.Validate(); err != nil {
				return err
			}
			return s.max(cmd.Context(), o, long)
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&slo, "slo", "p99=50ms", "latency limit: percentile and duration")
	f.StringVar(&from, "from", "100", "first rate to test")
	f.StringVar(&to, "to", "1000000", "highest rate to test")
	f.Float64Var(&o.Tolerance, "tolerance", 0.05, "precision of the rate, as a fraction")
	f.IntVar(&o.Confirm, "confirm", 3, "number of long runs that must succeed")
	f.DurationVar(&long, "long", time.Minute, "measured time of these")
	return cmd
}

// max searches for each target.
func (s *session) max(ctx context.Context, o load.Search, long time.Duration) error {
	if long <= 0 {
		return fmt.Errorf("--long: want more than 0, given %v", long)
	}
	found := make([]string, len(s.file.Targets))
	for i, t := range s.file.Targets {
		o.Measure = func(ctx context.Context, rate workload.Rate, confirm bool) (*result.Run, error) {
			w := s.file.Workload
			w.Rate = rate
			if confirm {
				w.Duration = workload.Duration(long)
			}
			return s.measure(ctx, w, t)
		}
		o.Tried = func(rate workload.Rate, why string) {
			why = cmp.Or(why, "holds")
			fmt.Fprintf(s.print, "%s at %v/s: %s\n", t.Name(), rate, why)
		}
		rate, err := o.Max(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, load.ErrNoRate):
			found[i] = err.Error()
		case err != nil:
			found[i] = "NOT MEASURED: " + err.Error()
			s.failed(s.file.Workload, t, err)
		default:
			found[i] = fmt.Sprintf("%v messages a second", rate)
		}
	}
	fmt.Fprintln(s.print)
	for i, t := range s.file.Targets {
		fmt.Fprintf(s.print, "%s, %v, %v: %s\n", t.Name(), s.file.Size, o.Objective, found[i])
	}
	return s.end()
}
