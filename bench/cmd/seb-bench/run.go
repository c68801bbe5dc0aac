// The progress of a run: one changing line on a terminal, a line every few seconds otherwise.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

func newRun() *cobra.Command {
	var s session
	cmd := &cobra.Command{
		Use:   "run [FILE|PRESET]",
		Short: "Measure targets one after the other with one workload",
		Long: `Runs a workload on each target and writes all measurements into one JSON file. The workload comes from
a YAML file, a preset (article-a to article-e) or flags; flags override the file. With --repeat, the
targets take turns, so that changes on the machine affect all of them.

A percentile is shown when at least ten samples lie above it. A run is INVALID when the load
generator itself was late: its figures then do not describe the target.`,
		Example: `  seb-bench run article-a --target seb
  seb-bench run --rate 20000 --size 1KiB --publishers 25 --topics 25 --target "nats label=nats-core" --repeat 3`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.open(cmd, args); err != nil {
				return err
			}
			return s.all(cmd.Context(), []workload.Workload{s.file.Workload})
		},
	}
	s.flags(cmd)
	return cmd
}

// all measures every target with every workload, alternating, and prints the results. It continues
// after a failed target and finally returns an error.
func (s *session) all(ctx context.Context, workloads []workload.Workload) error {
	for range s.repeat {
		for _, w := range workloads {
			for _, t := range s.file.Targets {
				r, err := s.measure(ctx, w, t)
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case err == nil:
					printRun(s.print, r)
				default:
					s.failed(w, t, err)
				}
			}
		}
	}
	if len(s.done.Runs) > 0 {
		works, err := report.Works(&s.done)
		if err != nil {
			return err
		}
		printSummaries(s.print, works)
	}
	if err := s.end(); err != nil {
		return err
	}
	return s.verdict()
}

// end writes the results, and returns an error if some runs failed.
func (s *session) end() error {
	s.together.close()
	if err := s.done.Write(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.print, "written to", s.out)
	if n := len(s.done.Failures); n > 0 {
		return fmt.Errorf("%d of %d runs could not be done; the first: %s", n, n+len(s.done.Runs), s.done.Failures[0].Error)
	}
	return nil
}

// failed records a failed run.
func (s *session) failed(w workload.Workload, t workload.Target, err error) {
	fmt.Fprintf(s.print, "%s: NOT MEASURED: %v\n", t.Name(), err)
	s.done.Failures = append(s.done.Failures, result.Failure{Label: t.Name(), Workload: w, Error: err.Error()})
}

func newDrivers() *cobra.Command {
	return &cobra.Command{
		Use:   "drivers",
		Short: "List the drivers with their addresses and options",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, d := range sut.Drivers() {
				fmt.Fprintf(w, "%s\t%s\n", d.Name, d.Doc)
			}
			return w.Flush()
		},
	}
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := result.ThisTool(version)
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(t)
			}
			commit := t.Commit
			if t.Dirty {
				commit += " with changes"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "seb-bench %s (commit %s, %s)\n", t.Version, commit, t.Go)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with all libraries")
	return cmd
}

// view writes progress. One goroutine uses it.
type view struct {
	w        io.Writer
	terminal bool
	every    time.Duration
	label    string
	phase    string
	next     time.Duration // of a run: when the next line is due
	drawn    bool          // the terminal's line is ours
}

// newView returns a view on w: on a terminal it draws at each call, otherwise once in every.
func newView(w io.Writer, terminal bool, every time.Duration) *view {
	return &view{w: w, terminal: terminal, every: every}
}

// clearLine moves to the start of a terminal's line and clears it.
const clearLine = "\r\x1b[K"

// Show shows progress. It ignores write errors, because a run must not fail without a reader.
func (v *view) Show(p load.Progress) {
	again := p.Label != v.label || p.At < v.next-v.every // another run has begun
	if v.terminal {
		if again && v.label != "" {
			v.Done()
		}
		v.label, v.next = p.Label, p.At+v.every
		v.drawn = true
		_, _ = fmt.Fprint(v.w, clearLine+progressLine(p))
		return
	}
	if !again && p.Phase == v.phase && p.At < v.next {
		return
	}
	v.label, v.phase, v.next = p.Label, p.Phase, p.At+v.every
	_, _ = fmt.Fprintln(v.w, progressLine(p))
}

// Done keeps the last line and moves to the next.
func (v *view) Done() {
	if v.drawn {
		_, _ = fmt.Fprintln(v.w)
	}
	v.drawn, v.next = false, 0
}

// progressLine formats progress as a line.
func progressLine(p load.Progress) string {
	what := "ack"
	if p.EndToEnd {
		what = "e2e"
	}
	parts := []string{
		fmt.Sprintf("%s: %-8s", p.Label, p.Phase),
		fmt.Sprintf("%.0f/s of %.0f", p.Rate, p.Wanted),
		fmt.Sprintf("in flight %d", p.InFlight),
		"lag " + result.Time(float64(p.Lag)),
	}
	if p.Headline != nil {
		parts = append(parts, fmt.Sprintf("%s p50 %s  p99 %s  p99.9 %s", what, at(p.Headline, 50), at(p.Headline, 99), at(p.Headline, 99.9)))
	}
	if p.Failed > 0 {
		parts = append(parts, fmt.Sprintf("FAILED %d", p.Failed))
	}
	if p.Phase != result.Drain {
		parts = append(parts, fmt.Sprintf("%v left", p.Left.Round(time.Second)))
	}
	return strings.Join(parts, "  ")
}

// at formats a percentile, or a dash if there are too few samples.
func at(h *result.Histogram, p float64) string {
	d, shown := h.Percentile(p)
	if !shown {
		return "-"
	}
	return result.Time(float64(d))
}
