package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

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
