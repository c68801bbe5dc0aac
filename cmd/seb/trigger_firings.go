package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newTriggerFires(r *remote) *cobra.Command {
	var q client.FiringQuery
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "fires [ID]",
		Aliases: []string{"firings"},
		Short:   "List firings, of one trigger or of all",
		Long: `Lists firings in the order in which the broker read them, with the state of their delivery. With --json each firing is a line;
--after with its seq continues after it. With --newest the order is reversed, and --before continues.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: r.triggerIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				q.Trigger = args[0]
			}
			if q.Limit < 1 {
				return usageError{fmt.Errorf("--limit: %d, want 1 or more", q.Limit)}
			}
			if q.After < 0 {
				return usageError{fmt.Errorf("--after: %d, want 0 or more", q.After)}
			}
			if q.Before < 0 {
				return usageError{fmt.Errorf("--before: %d, want 0 or more", q.Before)}
			}
			return r.with(cmd, func(c *client.Client) error { return printFirings(cmd, c, q, asJSON) })
		},
	}
	cmd.Flags().StringVar(&q.Entity, "entity", "", "only firings of this entity")
	cmd.Flags().StringVar(&q.State, "state", "", "only firings in this state, such as dead")
	cmd.Flags().BoolVar(&q.Newest, "newest", false, "list the newest firings first")
	cmd.Flags().Int64Var(&q.After, "after", 0, "only firings after this seq")
	cmd.Flags().Int64Var(&q.Before, "before", 0, "only firings before this seq; 0: no bound")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "maximum number of firings")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one firing per line")
	return cmd
}

func printFirings(cmd *cobra.Command, c *client.Client, q client.FiringQuery, asJSON bool) error {
	w := aligned(cmd.OutOrStdout())
	if !asJSON {
		fmt.Fprintln(w, "SEQ\tAT\tTRIGGER\tENTITY\tSTATE\tATTEMPTS\tID")
	}
	// A deleted trigger keeps its firings. Without firings the ID may be a typing error.
	check := q.Trigger != "" && q.After == 0 && q.Before == 0 && q.Entity == "" && q.State == ""
	for left := q.Limit; left > 0; {
		q.Limit = min(left, pageMax)
		list, next, err := c.Firings(cmd.Context(), q)
		if err != nil {
			return err
		}
		if len(list) == 0 && check {
			if _, err := c.Trigger(cmd.Context(), q.Trigger); err != nil {
				return err
			}
		}
		check = false
		for i := range list {
			x := &list[i]
			if asJSON {
				if err := writeLine(cmd.OutOrStdout(), x); err != nil {
					return err
				}
				continue
			}
			printRow(w, []any{x.Seq, instant(x.At), x.Trigger, x.Entity, became(x), x.Attempts, x.ID})
		}
		if next == 0 {
			break
		}
		if left -= len(list); q.Newest {
			q.Before = next
		} else {
			q.After = next
		}
	}
	return w.Flush()
}

// became describes the state of a firing for people.
func became(x *client.Firing) string {
	switch {
	case x.Held == "quiet_hours":
		return "pending, after quiet hours at " + instant(x.NextAttempt)
	case x.Held == "paused":
		return "pending, until the trigger is resumed"
	case x.State == "pending" && !x.NextAttempt.IsZero() && x.Attempts > 0:
		return "pending, retry at " + instant(x.NextAttempt)
	case x.State == "pending" && x.NextAttempt.After(time.Now()):
		return "pending, not before " + instant(x.NextAttempt)
	case x.Retraction:
		return x.State + ", retracted"
	}
	return x.State
}

func newTriggerFiring(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "firing ID",
		Short: "Show a firing and its matched events",
		Args:  cobra.ExactArgs(1),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			x, err := c.Firing(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printOr(cmd.OutOrStdout(), true, &x, nil)
		}),
	}
}

func newTriggerResend(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "resend FIRING",
		Short: "Deliver a firing again, whatever its state",
		Args:  cobra.ExactArgs(1),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			_, err := c.ResendFiring(cmd.Context(), args[0])
			return err
		}),
	}
}

func newTriggerExplain(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use:               "explain ID ENTITY",
		Short:             "Show why a trigger fired for an entity or not: its events, the awaited ones, the firings",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: r.triggerIDs,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if err := nameable(args[1]); err != nil {
				return usageError{err}
			}
			return nil
		},
	}, func(ctx context.Context, c *client.Client, args []string) (client.Explanation, error) {
		return c.Explain(ctx, args[0], args[1])
	}, printExplanation)
}

func printExplanation(out io.Writer, x *client.Explanation) error {
	w := aligned(out)
	fmt.Fprintf(w, "value\t%t\n", x.Value)
	if x.Degraded {
		fmt.Fprintf(w, "\tpossibly wrong: too many instances, %d were kept\n", x.Instances)
	}
	fmt.Fprintf(w, "why\t%s\n", x.Why)
	fmt.Fprintf(w, "as of\t%s\nnext\t%s\nwaits\t%s\n", instant(x.AsOf), next(x.Next), x.WaitsFor)
	printAwaited(w, "must come", api.MustCome, x.Awaited)
	printAwaited(w, "must not come", api.MustNotCome, x.Awaited)
	for i := range x.Firings {
		f := &x.Firings[i]
		fmt.Fprintf(w, "fired\t%s  %s  %s\n", instant(f.At), became(f), f.ID)
	}
	for i, o := range x.History.Others {
		label := ""
		if i == 0 {
			label = "other events"
		}
		fmt.Fprintf(w, "%s\t%s (%d), not in the expression\n", label, o.Event, o.Count)
	}
	if err := w.Flush(); err != nil || len(x.History.Steps) == 0 {
		return err
	}
	fmt.Fprintf(out, "\n%s of the entity; the newest that the expression mentions, and deadlines:\n", counted(int64(x.History.Events), "event"))
	w = aligned(out)
	for i := range x.History.Steps {
		s := &x.History.Steps[i]
		printRow(w, []any{instant(s.At), cmp.Or(s.Event, "(time)"), s.Value, s.Text})
	}
	return w.Flush()
}

// awaitedMax bounds the awaited events of one role.
const awaitedMax = 8

// printAwaited prints the awaited events of a role.
func printAwaited(w io.Writer, label, role string, list []client.AwaitedEvent) {
	n := 0
	for i := range list {
		x := &list[i]
		if x.Role != role {
			continue
		}
		if n++; n > awaitedMax {
			continue
		}
		text := x.Expr
		if x.Need > 1 {
			text += fmt.Sprintf(", %d of %d so far", x.Have, x.Need)
		}
		if x.From != nil {
			text += ", from " + instant(*x.From)
		}
		if x.Until != nil {
			text += ", until " + instant(*x.Until)
		}
		fmt.Fprintf(w, "%s\t%s\n", label, text)
	}
	if n > awaitedMax {
		fmt.Fprintf(w, "\tand %d more\n", n-awaitedMax)
	}
}

// next formats the time of the next change; nil means never.
func next(at *time.Time) string {
	if at == nil {
		return instant(time.Time{})
	}
	return instant(*at)
}
