package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/spf13/cobra"
)

func newTriggerDryRun(r *remote) *cobra.Command {
	var o dryRunFlags
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "dry-run [EXPRESSION | ID]",
		Short: "Show the firings of a trigger for all events in the log",
		Long: `Evaluates an expression, the trigger of a file, or the existing trigger ID, on all events in the log. A name that is the ID of
a trigger means the trigger; in quotes, '"name"', it is an event. --since and --until select the firings that count: earlier events
are read too, because they are the history of the expression. A large history needs less time and memory with --sample.`,
		Example: "  seb trigger dry-run 'user_created THEN (NOT use_x WITHIN 7 days)'\n  seb trigger dry-run -f no-x.yaml\n" +
			"  seb trigger dry-run no-x --since 30d\n  seb trigger dry-run no-x --sample 16",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: r.triggerIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := o.read(cmd, args)
			if err != nil {
				return err
			}
			options, err := o.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return r.with(cmd, func(c *client.Client) error {
				if err := t.named(cmd, c, args); err != nil {
					return err
				}
				run, err := c.DryRunWith(cmd.Context(), t.spec(), options)
				o.bar.Clear()
				if err != nil {
					caret(cmd, t.text, err)
					return err
				}
				return printOr(cmd.OutOrStdout(), *asJSON, &run, printDryRun)
			})
		},
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "file with the trigger in YAML or JSON, - for stdin")
	cmd.Flags().StringVar(&o.spec.Topic, "topic-name", "", "topic of its events (default: the broker's events topic)")
	cmd.Flags().StringVar(&o.spec.Fire, "fire", "", "once, edge or reset (default once)")
	cmd.Flags().StringVar(&o.spec.Cooldown, "cooldown", "", "with edge and reset: time after a firing in which others are suppressed, such as 7d")
	cmd.Flags().StringVar(&o.since, "since", "", "only firings from then on: an age (e.g. 24h, 30d) or a time (2027-01-31T00:00:00Z)")
	cmd.Flags().StringVar(&o.until, "until", "", "only firings before then: an age or a time")
	cmd.Flags().IntVar(&o.sample, "sample", 1, "evaluate one of so many entities, and estimate the number of all firings")
	asJSON = jsonFlag(cmd)
	return cmd
}

// dryRunFlags are the flags of a dry run.
type dryRunFlags struct {
	file         string
	spec         trigger // without a file
	since, until string
	sample       int
	bar          *progress.Bar // nil: none
}

// read reads the trigger from the file, or from an expression and flags.
func (f *dryRunFlags) read(cmd *cobra.Command, exprs []string) (*trigger, error) {
	switch {
	case f.file != "" && len(exprs) > 0:
		return nil, usageError{errors.New("give an expression or a file, not both")}
	case f.file != "":
		for _, name := range []string{"topic-name", "fire", "cooldown"} {
			if cmd.Flags().Changed(name) {
				return nil, usageError{fmt.Errorf("--%s: cannot be combined with --file, which sets it too", name)}
			}
		}
		t, err := readTrigger(cmd.InOrStdin(), f.file)
		if err != nil {
			caret(cmd, t.text, err)
		}
		return &t, err
	case len(exprs) == 0:
		return nil, usageError{errors.New("give an expression, or a file with -f")}
	}
	// The broker reports errors in the expression, as it does for JSON.
	f.spec.text = exprs[0]
	return &f.spec, nil
}

// bareWord matches text that can be a trigger ID or an event name.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// named loads the existing trigger if an expression is only its ID. Flags take precedence over its
// members.
func (t *trigger) named(cmd *cobra.Command, c *client.Client, exprs []string) error {
	if len(exprs) == 0 || !bareWord.MatchString(exprs[0]) {
		return nil
	}
	id := exprs[0]
	there, err := c.Trigger(cmd.Context(), id)
	switch {
	case errors.Is(err, client.ErrUnknownTrigger):
		fmt.Fprintf(cmd.ErrOrStderr(), "no trigger has the id %s: evaluated as the name of an event\n", id)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "trigger %s, version %d: %s\n", id, there.Version, shorten(there.Text))
	t.text = there.Text
	t.Topic, t.Fire, t.Cooldown = cmp.Or(t.Topic, there.Topic), cmp.Or(t.Fire, there.Fire), cmp.Or(t.Cooldown, there.Cooldown)
	t.OnRetract = there.OnRetract
	t.Expr = there.Expr
	return nil
}

// options returns the options of the flags, with a progress bar if w is a terminal.
func (f *dryRunFlags) options(w io.Writer) (o client.DryRunOptions, err error) {
	if o.Since, err = parseSince(f.since, time.Now()); err != nil {
		return o, usageError{fmt.Errorf("--since: %w", err)}
	}
	if o.Until, err = parseSince(f.until, time.Now()); err != nil {
		return o, usageError{fmt.Errorf("--until: %w", err)}
	}
	if o.Sample = f.sample; f.sample < 1 {
		return o, usageError{fmt.Errorf("--sample: want a number from 1 on, given %d", f.sample)}
	}
	if isTerminal(w) {
		o.Progress = func(p client.DryRunProgress) {
			if f.bar == nil {
				f.bar = progress.New(w, "events", p.Total, nil)
			}
			f.bar.Set(p.Read)
		}
	}
	return o, nil
}

// barMax is the length of the bar of the day with the most firings.
const barMax = 40

func printDryRun(out io.Writer, run *client.DryRun) error {
	for _, text := range run.Warnings {
		fmt.Fprintf(out, "warning: %s\n", text)
	}
	w := aligned(out)
	if run.Sample > 1 {
		fmt.Fprintf(w, "sample\tone of %d entities: the other numbers are those of the sample\n", run.Sample)
	}
	if run.Estimate != nil {
		fmt.Fprintf(w, "all\t%s firings of %s entities\n", estimated(&run.Estimate.Firings), estimated(&run.Estimate.Fired))
	}
	fmt.Fprintf(w, "events\t%d, of which %d matter, of %d entities, until %s\n", run.Events, run.Matched, run.Entities, instant(run.AsOf))
	if run.Skipped > 0 {
		fmt.Fprintf(w, "\t%d records are no events\n", run.Skipped)
	}
	fmt.Fprintf(w, "firings\t%d%s\n", run.Firings, rangeOf(run))
	fmt.Fprintf(w, "fired\t%d of %d entities (%d seen)\ntrue now\t%d\n", run.Fired, run.Entities, run.EntitiesSeen, run.True)
	if run.Waiting > 0 {
		fmt.Fprintf(w, "waiting\t%d entities, the first until %s\n", run.Waiting, next(run.Next))
	}
	fmt.Fprintf(w, "instances\tat most %d per entity\n", run.Instances)
	if run.Degraded > 0 {
		fmt.Fprintf(w, "\tmore were needed for %d entities: their value may be wrong\n", run.Degraded)
	}
	if run.Truncated {
		fmt.Fprintln(w, "\tonly the first entities were evaluated: the others exceed the memory limit; try --sample")
	}
	for _, h := range run.History {
		if h.Offset > 0 {
			fmt.Fprintf(w, "\tpartition %d begins at offset %d: earlier events are unknown\n", h.Partition, h.Offset)
		}
	}
	if run.CompleteFrom != nil {
		fmt.Fprintf(w, "\tevents before %s are missing: earlier counts are too small\n", instant(*run.CompleteFrom))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printSamples(out, run)
	return nil
}

// printSamples prints the firings by day, the last ones, and entities without one.
func printSamples(out io.Writer, run *client.DryRun) {
	most := int64(1)
	for _, n := range run.Days {
		most = max(most, n)
	}
	for _, day := range slices.Sorted(maps.Keys(run.Days)) {
		n := run.Days[day]
		fmt.Fprintf(out, "%s %8d %s\n", day, n, strings.Repeat("#", int(max(1, n*barMax/most))))
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		fmt.Fprintf(out, "%s %s", instant(s.At), s.Entity)
		for j := range s.Witness {
			fmt.Fprintf(out, "  %s at %s", s.Witness[j].Event, instant(s.Witness[j].Time))
		}
		fmt.Fprintln(out)
	}
	for i := range run.NotFired {
		n := &run.NotFired[i]
		fmt.Fprintf(out, "%-*s %s", len("2006-01-02T15:04:05.999Z"), "not fired", n.Entity)
		if n.Next != nil {
			fmt.Fprintf(out, "  until %s", instant(*n.Next))
		}
		if n.Last != nil {
			fmt.Fprintf(out, "  last fired %s", instant(*n.Last))
		}
		fmt.Fprintln(out)
	}
}

// estimated shows an estimate with its interval.
func estimated(e *client.Estimate) string {
	return fmt.Sprintf("about %d (95 %%: %d to %d)", e.Value, e.Low, e.High)
}

// rangeOf says which firings count.
func rangeOf(run *client.DryRun) (text string) {
	if run.Since != nil {
		text += " from " + instant(*run.Since)
	}
	if run.Until != nil {
		text += " until " + instant(*run.Until)
	}
	return text
}
