package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

// triggerFlags are the flags that describe a trigger.
type triggerFlags struct {
	file    string
	deliver string
	spec    trigger
	carry   bool
	keep    bool
}

func (f *triggerFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file with the trigger in YAML or JSON, - for stdin")
	cmd.Flags().StringVar(&f.spec.Topic, "topic-name", "", "topic of its events (default: the broker's events topic)")
	cmd.Flags().StringVar(&f.spec.Fire, "fire", "", "once, edge or reset (default once)")
	cmd.Flags().StringVar(&f.spec.Cooldown, "cooldown", "", "with edge and reset: time after a firing in which others are suppressed, such as 7d")
}

// read reads the trigger from the file, or from an expression and flags.
func (f *triggerFlags) read(cmd *cobra.Command, exprs []string) (*trigger, error) {
	switch {
	case f.file != "" && len(exprs) > 0:
		return nil, usageError{errors.New("give an expression or a file, not both")}
	case f.file != "":
		for _, name := range []string{"topic-name", "fire", "cooldown", "backfill", "carry-fired", "on-retract", "deliver", "keep-deliver"} {
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
	t := f.spec
	t.CarryFired = &f.carry
	if f.keep && f.deliver != "" {
		return nil, usageError{errors.New("--keep-deliver: cannot be combined with --deliver")}
	}
	if f.deliver != "" {
		t.Deliver = json.RawMessage(f.deliver)
		if !json.Valid(t.Deliver) {
			return nil, usageError{errors.New("--deliver: not JSON")}
		}
	}
	// The broker reports errors in the expression, as it does for JSON.
	t.text = exprs[0]
	return &t, t.fillIn()
}

func newTriggerPut(r *remote) *cobra.Command {
	var f triggerFlags
	var ifTag string
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "put ID [EXPRESSION]",
		Short: "Create or change a trigger",
		Long: `Stores a trigger with an expression, or from a file with the members of PUT /triggers/{id}:

  expr: user_created THEN (NOT use_feature_x WITHIN 7 days)
  fire: once
  deliver:
    url: https://mail.example.com/hook
    secrets: ["${HOOK_SECRET}"]

The definition is complete: an omitted member gets its default, except status, which is unchanged. ${NAME} in url, secrets and
headers is replaced by the environment variable.`,
		Example: "  seb trigger put no-x 'user_created THEN (NOT use_x WITHIN 7 days)'\n  seb trigger put no-x -f no-x.yaml",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := f.read(cmd, args[1:])
			if err != nil {
				return err
			}
			return r.with(cmd, func(c *client.Client) error {
				s := t.spec()
				s.KeepDeliver, s.IfTag = f.keep, ifTag
				out, err := c.PutTrigger(cmd.Context(), args[0], s)
				if err != nil {
					caret(cmd, t.text, err)
					return err
				}
				return printOr(cmd.OutOrStdout(), *asJSON, &out, func(io.Writer, *client.StoredTrigger) error {
					printStored(cmd, &out)
					return nil
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.spec.Backfill, "backfill", "", "effect of older events: silent, current, replay or none (default silent)")
	cmd.Flags().BoolVar(&f.carry, "carry-fired", true, "with once: firings of earlier versions count")
	cmd.Flags().StringVar(&f.spec.OnRetract, "on-retract", "", "notify: send a second message when the expression is no longer true")
	cmd.Flags().StringVar(&f.deliver, "deliver", "", "destination of firings, in JSON (default: none; they are only listed)")
	cmd.Flags().BoolVar(&f.keep, "keep-deliver", false, "keep the destination of the existing trigger, with its secrets")
	cmd.Flags().StringVar(&ifTag, "if-tag", "", "change only the definition with this tag, which seb trigger show ID --json prints (default: any, or none)")
	asJSON = jsonFlag(cmd)
	return cmd
}

// printStored prints the result of a put.
func printStored(cmd *cobra.Command, out *client.StoredTrigger) {
	w := cmd.ErrOrStderr()
	fmt.Fprintf(w, "trigger %s stored as version %d\n", out.ID, out.Version)
	for _, text := range out.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	for _, h := range out.History {
		if h.Offset > 0 {
			fmt.Fprintf(w, "warning: events of partition %d begin at offset %d: earlier ones are unknown\n", h.Partition, h.Offset)
		}
	}
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tCOUNT\tLAST\tPROPERTIES")
	for i := range n.Names {
		x := &n.Names[i]
		var list []string
		for j := range x.Properties[:min(len(x.Properties), propertiesShown)] {
			p := &x.Properties[j]
			list = append(list, p.Path+" "+strings.Join(p.Types, "|"))
		}
		text := strings.Join(list, ", ")
		if x.More || len(x.Properties) > propertiesShown {
			text += ", ..."
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", cell([]byte(x.Name)), x.Count, next(x.Last), text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if n.Truncated {
		_, err := fmt.Fprintln(out, "more names exist: give a PREFIX, or raise --limit")
		return err
	}
	return nil
}
