package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/webhook"
	"github.com/spf13/cobra"
)

func newTrigger() *cobra.Command {
	var r remote
	return r.parent(
		&cobra.Command{
			Use: "trigger", Aliases: []string{"triggers"}, Short: "Create, list, test, explain, pause and delete triggers; list their firings",
		},
		newTriggerApply(&r), newTriggerList(&r), newTriggerShow(&r), newTriggerDelete(&r), newTriggerPause(&r, true), newTriggerPause(&r, false), newTriggerDryRun(&r),
		newTriggerExplain(&r), newTriggerFires(&r), newTriggerFiring(&r), newTriggerResend(&r), newTriggerNames(&r), newTriggerSecret(),
	)
}

// triggerIDs completes the ID of a trigger.
func (r *remote) triggerIDs(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completer(r, (*client.Client).Triggers, func(t *client.Trigger) string { return t.ID })(cmd, args, toComplete)
}

// caret shows on stderr the position of an error in an expression in text form.
func caret(cmd *cobra.Command, expr string, err error) {
	var at driplang.Error
	if e, ok := errors.AsType[*client.Error](err); ok {
		at.Line, at.Col = e.Line, e.Column
	} else if e, ok := errors.AsType[*driplang.Error](err); ok {
		at = *e
	}
	if line := at.Caret(expr); line != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), line)
	}
}

// instant formats a time for people; "-" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z")
}

func newTriggerList(r *remote) *cobra.Command {
	var counts bool
	cmd := newShow(r, &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List all triggers", Args: cobra.NoArgs},
		func(ctx context.Context, c *client.Client, _ []string) ([]client.Trigger, error) {
			if counts {
				return c.CountedTriggers(ctx)
			}
			return c.Triggers(ctx)
		},
		func(out io.Writer, list *[]client.Trigger) error {
			head := ""
			if counts {
				head = "24H\t7D\tPENDING\tDEAD\tLAST\t"
			}
			return printTable(out, "ID\tVERSION\tSTATUS\tFIRE\t"+head+"EXPRESSION", *list, func(t *client.Trigger) []any {
				cells := []any{t.ID, t.Version, triggerStatus(t), t.Fire}
				if f := t.Firings; f != nil {
					cells = append(cells, f.Day, f.Week, f.Pending, f.States["dead"], next(f.Last))
				}
				return append(cells, shorten(t.Text))
			})
		})
	cmd.Flags().BoolVar(&counts, "counts", false, "count the newest firings of each trigger")
	return cmd
}

func triggerStatus(t *client.Trigger) string {
	if t.Blocked != "" {
		return t.Status + ", blocked"
	}
	if t.TopicMissing {
		return t.Status + ", topic missing"
	}
	if t.Backfilling {
		return t.Status + ", reads the history"
	}
	if t.Late {
		return t.Status + ", behind"
	}
	return t.Status
}

// shorten formats an expression as one short line.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return text
}

func newTriggerShow(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "show ID", Short: "Show a trigger, without its secrets", Args: cobra.ExactArgs(1), ValidArgsFunction: r.triggerIDs,
	}, func(ctx context.Context, c *client.Client, args []string) (client.Trigger, error) {
		return c.CountedTrigger(ctx, args[0])
	}, printTrigger)
}

func printTrigger(out io.Writer, t *client.Trigger) error {
	w := aligned(out)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	line("id", t.ID)
	line("version", fmt.Sprintf("%d, since %s", t.Version, instant(t.VersionAt)))
	line("status", triggerStatus(t))
	line("expression", strings.Join(strings.Fields(t.Text), " "))
	line("events", strings.Join(t.Names, ", ")+" in topic "+t.Topic)
	line("class", t.Class)
	line("fire", t.Fire)
	line("cooldown", t.Cooldown)
	line("backfill", t.Backfill)
	if t.Fire == "once" {
		line("carry fired", fmt.Sprint(t.CarryFired))
	}
	line("on retract", t.OnRetract)
	line("deliver", string(t.Deliver))
	line("made", instant(t.CreatedAt))
	if f := t.Firings; f != nil {
		line("firings", fmt.Sprintf("%d in 24 hours, %d in 7 days, the last at %s", f.Day, f.Week, next(f.Last)))
		for _, state := range slices.Sorted(maps.Keys(f.States)) {
			line("  "+state, fmt.Sprint(f.States[state]))
		}
		if f.OldestPending != nil {
			line("pending since", instant(*f.OldestPending))
		}
		if f.Since != nil {
			line("counted since", instant(*f.Since))
		}
	}
	return w.Flush()
}

func newTriggerDelete(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "delete ID",
		Aliases:           []string{"rm"},
		Short:             "Delete a trigger and drop its undelivered firings",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.triggerIDs,
	}
	return r.deleting(cmd, "would delete trigger %s and drop its undelivered firings", "trigger %s is deleted", (*client.Client).DeleteTrigger)
}

func newTriggerPause(r *remote, paused bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "resume ID",
		Short:             "End the pause of a trigger",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.triggerIDs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			_, err := c.PauseTrigger(cmd.Context(), args[0], paused)
			return err
		}),
	}
	if paused {
		cmd.Use, cmd.Short = "pause ID", "Pause a trigger: suppress new firings, hold undelivered ones"
	}
	return cmd
}

func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// propertiesShown bounds the properties of an event that are printed without --json.
const propertiesShown = 20

func newTriggerNames(r *remote) *cobra.Command {
	var q client.EventNamesQuery
	cmd := newShow(r, &cobra.Command{
		Use:   "names [PREFIX]",
		Short: "List the names of events that expressions can mention, with the properties of their data",
		Long: `Lists the names of the newest events in a topic, the most frequent first, with the types of the properties of their data.
COUNT is an estimate from up to 5,000 records. Names that the engine knows only from older events follow.`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (client.EventNames, error) {
		if len(args) == 1 {
			q.Prefix = args[0]
		}
		return c.EventNames(ctx, q)
	}, printEventNames)
	cmd.Flags().StringVar(&q.Topic, "topic-name", "", "topic of the events (default: the broker's events topic)")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", limitDefault, "maximum number of names, at most 1000")
	return cmd
}

func printEventNames(out io.Writer, n *client.EventNames) error {
	err := printTable(out, "NAME\tCOUNT\tLAST\tPROPERTIES", n.Names, func(x *client.EventName) []any {
		var list []string
		for j := range x.Properties[:min(len(x.Properties), propertiesShown)] {
			p := &x.Properties[j]
			list = append(list, p.Path+" "+strings.Join(p.Types, "|"))
		}
		text := strings.Join(list, ", ")
		if x.More || len(x.Properties) > propertiesShown {
			text += ", ..."
		}
		return []any{cell([]byte(x.Name)), x.Count, next(x.Last), text}
	})
	if err == nil && n.Truncated {
		_, err = fmt.Fprintln(out, "more names exist: give a PREFIX, or raise --limit")
	}
	return err
}

func newTriggerSecret() *cobra.Command {
	return &cobra.Command{
		Use:     "secret",
		Short:   "Print a new secret, to sign and verify the webhooks of a trigger",
		Example: "  export HOOK_SECRET=$(seb trigger secret)",
		Args:    cobra.NoArgs,

		Annotations: map[string]string{commandAway: "true"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), webhook.NewSecret().Reveal())
			return err
		},
	}
}
