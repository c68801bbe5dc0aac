package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newTime() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "time",
		Short:   "Show the time of the log, or set it back",
		Long:    "Shows the time of the log's last commit, the time by which the broker goes, and why writes wait if they do.",
		Example: "  seb time\n  seb time reset",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.with(cmd, func(c *client.Client) error {
				t, err := c.LogTime(cmd.Context())
				if err == nil {
					printTime(cmd.OutOrStdout(), &t)
				}
				return err
			})
		},
	}
	r.register(cmd)
	cmd.AddCommand(newTimeReset())
	return cmd
}

func newTimeReset() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Set the log's time back to the clock of the broker's machine",
		Long: `Ends a future that a wrong clock has left in the log. It takes the clock of the broker's machine to be right: set that first.

The log's next commits have earlier times than those before; offsets and order stay. Records keep the times that they have, so
retention by time keeps those of the false future until then. Triggers go on at the right time; an entity whose events have times of
the false future waits until then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.with(cmd, func(c *client.Client) error {
				was, err := c.LogTime(cmd.Context())
				if err != nil {
					return err
				}
				now, err := c.ResetTime(cmd.Context())
				if err != nil {
					return err
				}
				if !now.Last.Before(was.Last) {
					fmt.Fprintf(cmd.OutOrStdout(), "the log's time is not ahead of the broker's clock, %s\n", rfc3339(now.Now))
					return nil
				}
				fmt.Fprintf(cmd.OutOrStdout(), "the log's time is %s now, it was %s\n", rfc3339(now.Last), rfc3339(was.Last))
				return nil
			})
		},
	}
	r.register(cmd)
	return cmd
}

func printTime(w io.Writer, t *client.LogTime) {
	if t.Last.IsZero() {
		fmt.Fprintln(w, "last commit   none")
	} else {
		fmt.Fprintf(w, "last commit   %s\n", rfc3339(t.Last))
	}
	fmt.Fprintf(w, "clock         %s\n", rfc3339(t.Now))
	if t.Error != "" {
		fmt.Fprintf(w, "writes wait   %s\n", t.Error)
	}
}

func rfc3339(t time.Time) string { return t.Local().Format(time.RFC3339) }
