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
		Short:   "Show the log time, or set it back",
		Long:    "Shows the time of the last commit, the broker's clock, and the reason if writes wait.",
		Example: "  seb time\n  seb time reset",
		Args:    cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			t, err := c.LogTime(cmd.Context())
			if err == nil {
				printTime(cmd.OutOrStdout(), &t)
			}
			return err
		}),
	}
	r.register(cmd)
	cmd.AddCommand(newTimeReset())
	return cmd
}

func newTimeReset() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Set the log time back to the clock of the broker's machine",
		Long: `Corrects a log time that a wrong clock has moved into the future. It trusts the clock of the broker's machine: correct that
first.

The next commits then have earlier times than those before; offsets and order do not change. Records keep their times, so
retention by time keeps records of the false future until then. Triggers continue at the correct time; an entity with events
from the false future waits until then.`,
		Args: cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			was, err := c.LogTime(cmd.Context())
			if err != nil {
				return err
			}
			now, err := c.ResetTime(cmd.Context())
			if err != nil {
				return err
			}
			if !now.Last.Before(was.Last) {
				fmt.Fprintf(cmd.OutOrStdout(), "the log time is not ahead of the broker's clock, %s\n", rfc3339(now.Now))
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the log time is %s now; it was %s\n", rfc3339(now.Last), rfc3339(was.Last))
			return nil
		}),
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
