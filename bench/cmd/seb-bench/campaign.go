package main

import (
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

// campaignFlags are those of the campaign command.
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
		Short: "Measure Seb beside other brokers and write docs/reports/latency-figures.md",
		Long: `Installs and starts brokers, one at a time, measures all of them with the article's five workloads in turns, then Seb's batch wait,
a second broker that follows, and what a closed loop hides; and writes the sections of docs/reports/latency-figures.md that are between marks, with
pictures, of everything that is there. bench/cmd/peers does this.

Every run's result is kept in a file. What was cut off goes on where it was when the same command is given again; runs of other
durations or numbers of repeats are kept apart. Needs Seb's repository.`,
		Example: `  seb-bench campaign                                       # three quarters of an hour
  seb-bench campaign --duration 20s --repeats 5
  seb-bench campaign --only kafka,"Seb disk" --runs a,b    # those again that are missing
  seb-bench campaign --long --runs d                       # 10 minutes each`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.DurationVar(&c.settings.Duration, "duration", 0, "how long each run measures (default: 5s to 20s, what the budget allows)")
	f.IntVar(&c.settings.Repeats, "repeats", 0, "how often each is done (default 3; with --long 5)")
	f.DurationVar(&c.settings.Budget, "budget", 45*time.Minute, "how long all of it may take, which says how long the runs are")
	f.BoolVar(&c.settings.Long, "long", false, "runs of 10 minutes of Seb, NATS and Redis, which have a section of their own")
	f.StringSliceVar(&c.only, "only", nil, "systems, by label, peer or family, with commas between")
	f.StringSliceVar(&c.runs, "runs", nil, "works, as in a,d or article-b, with commas between")
	f.StringSliceVar(&c.parts, "parts", nil, "parts: runs, batch-wait, follower, loops")
	f.StringVar(&c.root, "repository", "", "folder of Seb's source (default: the nearest one above)")
	f.StringVar(&c.results, "results", "", "folder of the results (default: bench/results/raw in the repository)")
	f.StringVar(&c.document, "document", "", "Markdown file whose sections are written (default: docs/reports/latency-figures.md in the repository)")
	f.StringVar(&c.pictures, "pictures", "", "folder of the pictures (default: beside the document, with its name)")
	f.StringVar(&c.summary, "summary", "", "JSON file of all figures (default: bench/results/summary.json in the repository; with --document none)")
	f.BoolVar(&c.fresh, "fresh", false, "measure again what is chosen, though it was measured")
	f.BoolVar(&c.report, "report", false, "measure nothing, write what is there")
	f.BoolVar(&c.dryRun, "dry-run", false, "list what would be done, and how long it takes")
	f.DurationVar(&c.spin, "spin", defaultSpin(), "how long before each send the time is polled instead of slept")
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
			fmt.Fprintln(out, "cut off: the same command goes on here; with --report it writes what is there")
			return failed
		}
	}
	// Everything that is there of the whole plan, not only what was chosen.
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

// places fills in where everything is.
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
	if c.results == "" {
		c.results = filepath.Join(results, "raw")
	}
	if c.document == "" {
		c.document = filepath.Join(c.root, "docs", "reports", "latency-figures.md")
		if c.summary == "" {
			c.summary = filepath.Join(results, "summary.json")
		}
	}
	if c.pictures == "" {
		c.pictures = c.document[:len(c.document)-len(filepath.Ext(c.document))]
	}
	_, err = os.Stat(c.document) // before hours are spent on it
	return err
}
