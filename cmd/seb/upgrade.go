package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newUpgrade() *cobra.Command {
	var r remote
	var finalize bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show or raise the format level of the broker's bucket",
		Long: `Shows the format level of the bucket, the highest level that the broker knows, and when the bucket will be raised to it.

A broker of a newer program keeps the level of an existing bucket, so that the older program can lead it again. The first write
10 minutes or more after the start raises the level, unless the broker was started with --hold-upgrade. --finalize raises it at
once. Programs that do not know the level then refuse the bucket.`,
		Example: "  seb upgrade\n  seb upgrade --finalize",
		Args:    cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			u, err := c.Upgrade(cmd.Context())
			if err != nil {
				return err
			}
			if finalize {
				return finalizeUpgrade(cmd, c, u)
			}
			printUpgrade(cmd.OutOrStdout(), &u, time.Now())
			return nil
		}),
	}
	r.register(cmd)
	cmd.Flags().BoolVar(&finalize, "finalize", false, "raise the bucket to the highest level that the broker knows")
	return cmd
}

func finalizeUpgrade(cmd *cobra.Command, c *client.Client, was client.Upgrade) error {
	now, err := c.FinalizeUpgrade(cmd.Context())
	if err != nil {
		return err
	}
	if was.Level >= now.Level {
		fmt.Fprintf(cmd.OutOrStdout(), "the bucket is already at format level %d\n", now.Level)
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the bucket is now at format level %d; it was at %d\n", now.Level, was.Level)
	return nil
}

func printUpgrade(w io.Writer, u *client.Upgrade, now time.Time) {
	if u.Level >= u.HighestLevel {
		fmt.Fprintf(w, "the bucket is at format level %d, the highest that the broker knows\n", u.Level)
		return
	}
	fmt.Fprintf(w, "the bucket is at format level %d; the broker knows levels up to %d\n", u.Level, u.HighestLevel)
	switch {
	case u.RaiseAt.IsZero():
		fmt.Fprintln(w, "no write raises it; run \"seb upgrade --finalize\" at the broker that leads")
	case now.Before(u.RaiseAt):
		fmt.Fprintf(w, "an older program can lead it until the first write at or after %s raises it; \"seb upgrade --finalize\" does so now\n",
			u.RaiseAt.Local().Format(time.RFC3339))
	default:
		fmt.Fprintln(w, "the next write raises it; \"seb upgrade --finalize\" does so now")
	}
}
