package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/search"
	"github.com/sebbroker/seb/bench/workload"
)

func newSweep() *cobra.Command {
	var s session
	var rates, sizes []string
	cmd := &cobra.Command{
		Use:   "sweep [FILE|PRESET] --rates R,R,... --sizes S,S,...",
		Short: "Measure the targets at several rates and sizes",
		Long: `As run, with each of the rates and each of the sizes. The file of results holds a curve of latency over rate for every target
and size.`,
		Example: `  seb-bench sweep --rates 1000,2000,5000,10000 --sizes 256B,1KiB --duration 10s --target seb --target kafka`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.open(cmd, args); err != nil {
				return err
			}
			var sw search.Sweep
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
	cmd.Flags().StringSliceVar(&rates, "rates", nil, "messages a second, with commas between")
	cmd.Flags().StringSliceVar(&sizes, "sizes", nil, "sizes of messages, with commas between")
	return cmd
}

func newMax() *cobra.Command {
	var s session
	var slo, from, to string
	var long time.Duration
	o := search.Options{}
	cmd := &cobra.Command{
		Use:   "max [FILE|PRESET] --slo p99=50ms",
		Short: "Find the highest rate at which each target keeps an objective",
		Long: `Doubles the rate until the objective is missed, then halves the distance, and confirms what it has found with long runs. A rate
holds when the percentile of the headline curve (end to end from the intended time, or until the acknowledgement if nobody
receives) is within the objective, 99 % of the rate was reached, the backlog did not grow, every message arrived as it was
sent, and the generator was not the one that was late. Every step is in the file of results.`,
		Example: `  seb-bench max --slo p99=50ms --size 1KiB --target seb`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err = s.open(cmd, args); err != nil {
				return err
			}
			if o.Objective, err = search.ParseObjective(slo); err != nil {
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
	f.StringVar(&slo, "slo", "p99=50ms", "the objective")
	f.StringVar(&from, "from", "100", "the first rate that is tried")
	f.StringVar(&to, "to", "1000000", "the highest rate that is tried")
	f.Float64Var(&o.Tolerance, "tolerance", 0.05, "how exact the rate has to be, as a fraction of it")
	f.IntVar(&o.Confirm, "confirm", 3, "how many long runs must hold")
	f.DurationVar(&long, "long", time.Minute, "how long these measure")
	return cmd
}

// max searches for each target.
func (s *session) max(ctx context.Context, o search.Options, long time.Duration) error {
	if long <= 0 {
		return fmt.Errorf("--long: want more than 0, have %v", long)
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
		rate, err := search.Max(ctx, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, search.ErrNone):
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
