package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/campaign"
	"github.com/sebbroker/seb/bench/load"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/result"
)

// campaignFlags are the flags of the campaign command.
type campaignFlags struct {
	settings              campaign.Settings
	only, runs, parts     []string
	root, results         string
	document, pictures    string
	summary               string
	fresh, report, dryRun bool
	spin                  time.Duration
}

func newCampaign() *cobra.Command {
	var c campaignFlags
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Compare Seb with other brokers and write docs/reports/latency-figures.md",
		Long: `Installs and starts brokers, one at a time, and measures all of them in turns with the article's five
workloads. It then measures Seb's batch wait, a second broker that follows the first, and what a
closed loop hides. From all results that exist it writes the marked sections of
docs/reports/latency-figures.md, with charts. The program bench/cmd/peers does the same.

The result of every run is kept in a file. An interrupted campaign continues where it stopped when
the same command is given again. Runs with another duration or number of repeats are kept apart. The
command needs Seb's repository.`,
		Example: `  seb-bench campaign                                       # takes 45 minutes
  seb-bench campaign --duration 20s --repeats 5
  seb-bench campaign --only kafka,"Seb disk" --runs a,b    # only the missing ones of these
  seb-bench campaign --long --runs d                       # 10 minutes each
  seb-bench campaign --flushed                             # brokers that flush; also needs strace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.DurationVar(&c.settings.Duration, "duration", 0, "measured time of each run (default: 5s to 20s, as the budget allows)")
	f.IntVar(&c.settings.Repeats, "repeats", 0, "repeats of each run (default: 3, or 5 with --long or --flushed)")
	f.DurationVar(&c.settings.Budget, "budget", 45*time.Minute, "time for the whole campaign, which sets the duration of the runs")
	f.BoolVar(&c.settings.Long, "long", false, "runs of 10 minutes of Seb, NATS and Redis, in a separate section")
	f.BoolVar(&c.settings.Flushed, "flushed", false, "brokers that flush before they acknowledge, without subscribers, in a separate section")
	f.StringSliceVar(&c.only, "only", nil, "systems by label, peer or family, separated by commas")
	f.StringSliceVar(&c.runs, "runs", nil, "works such as a,d or article-b, separated by commas")
	f.StringSliceVar(&c.parts, "parts", nil, "parts: runs, batch-wait, follower, loops; with --flushed flushed, flush")
	f.StringVar(&c.root, "repository", "", "folder of Seb's source (default: the nearest one above)")
	f.StringVar(&c.results, "results", "", "folder of the results (default: bench/results/raw in the repository)")
	f.StringVar(&c.document, "document", "", "Markdown file whose sections are written (default: docs/reports/latency-figures.md in the repository)")
	f.StringVar(&c.pictures, "pictures", "", "folder of the pictures (default: next to the document, with its name)")
	f.StringVar(&c.summary, "summary", "", "JSON file of all figures (default: bench/results/summary.json in the repository; with --document none)")
	f.BoolVar(&c.fresh, "fresh", false, "measure selected runs again")
	f.BoolVar(&c.report, "report", false, "measure nothing, write the existing results")
	f.BoolVar(&c.dryRun, "dry-run", false, "list the runs and their duration")
	f.DurationVar(&c.spin, "spin", defaultSpin(), "time before each send in which to poll the clock instead of sleeping")
	return cmd
}

func (c *campaignFlags) run(cmd *cobra.Command) error {
	if err := c.places(); err != nil {
		return err
	}
	plan, err := campaign.NewPlan(c.settings)
	if err != nil {
		return err
	}
	chosen, err := plan.Choose(c.only, c.runs, c.parts)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.dryRun {
		for _, step := range chosen.Steps() {
			fmt.Fprintf(out, "%s: %s, %v/s of %v, %s loop, for %v, repeat %d\n", step.Part, step.Label(), step.Workload.Rate, step.Workload.Size, step.Workload.Loop,
				step.Workload.Duration, step.Repeat)
		}
		fmt.Fprintf(out, "%d runs, about %v, results in %s\n", len(chosen.Steps()), chosen.Estimate().Round(time.Minute), filepath.Join(c.results, plan.Name()))
		return nil
	}
	if c.fresh && !c.report {
		if err := chosen.Remove(c.results); err != nil {
			return err
		}
	}
	var failed error
	if !c.report {
		o := campaign.Options{
			Repository: c.root, Results: c.results, Data: filepath.Join(c.root, "bench", ".cache", "campaign"), Clock: load.NewMonotonicClock(c.spin), Spin: c.spin, Tool: result.ThisTool(version), Out: out,
		}
		if isTerminal(cmd.ErrOrStderr()) {
			view := newView(cmd.ErrOrStderr(), true, time.Second)
			o.Live, o.LiveDone = view.Show, view.Done
		}
		failed = chosen.Run(cmd.Context(), o)
		if cmd.Context().Err() != nil {
			fmt.Fprintln(out, "interrupted: the same command continues; with --report it writes the existing results")
			return failed
		}
	}
	// All existing results of the plan, not only the selected ones.
	err = plan.Write(campaign.Output{Results: c.results, Document: c.document, Pictures: c.pictures, Summary: c.summary, Root: c.root})
	if err != nil {
		if failed != nil {
			return failed
		}
		return err
	}
	fmt.Fprintf(out, "written to %s and %s\n", c.document, c.pictures)
	return failed
}

// places sets the default paths.
func (c *campaignFlags) places() (err error) {
	if c.root == "" {
		if c.root, err = peers.Repository(); err != nil {
			return err
		}
	}
	if c.root, err = filepath.Abs(c.root); err != nil {
		return err
	}
	results := filepath.Join(c.root, "bench", "results")
	c.results = cmp.Or(c.results, filepath.Join(results, "raw"))
	if c.document == "" {
		c.document = filepath.Join(c.root, "docs", "reports", "latency-figures.md")
		c.summary = cmp.Or(c.summary, filepath.Join(results, "summary.json"))
	}
	c.pictures = cmp.Or(c.pictures, c.document[:len(c.document)-len(filepath.Ext(c.document))])
	_, err = os.Stat(c.document) // before hours of measuring
	return err
}
