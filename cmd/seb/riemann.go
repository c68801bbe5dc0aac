package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

func newRiemann() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "riemann", Short: "Query the index of Riemann events"}
	r.register(cmd)
	cmd.AddCommand(newShow(&r, &cobra.Command{
		Use:   "query QUERY",
		Short: "Print the newest events of hosts and services that match",
		Long: `Prints the events in the index for which a query is true, one JSON object per line. The index has the newest event of
each host and service that has not expired. The query is in Riemann's query language; true matches all events.`,
		Example: "  seb riemann query 'state = \"critical\" and metric > 0.9'\n  seb riemann query 'host = \"web1\" and service = \"disk\"'",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (client.RiemannIndex, error) {
		return c.RiemannIndex(ctx, args[0])
	}, printRiemannIndex))
	return cmd
}

func printRiemannIndex(out io.Writer, x *client.RiemannIndex) error {
	for _, e := range x.Events {
		if _, err := fmt.Fprintf(out, "%s\n", e); err != nil {
			return err
		}
	}
	return nil
}
