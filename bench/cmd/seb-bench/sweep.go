package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

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
			if why == "" {
				why = "holds"
			}
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
