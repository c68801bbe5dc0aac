package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	r := remote{retry: time.Nanosecond}
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether a broker is ready, for probes",
		Long: `Asks a broker once, without a key, whether requests would succeed. Exit code 0: the broker is ready. Exit code 1: it is not
ready, or does not answer in time; the line on stderr has the reason.`,
		Example: "  seb health\n  seb health --address https://events.example.org:51313 --timeout 2s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %s: must be above 0", timeout)}
			}
			slow := fmt.Errorf("no answer within %s", timeout)
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, slow)
			defer cancel()
			cmd.SetContext(ctx)
			return r.with(cmd, func(c *client.Client) error {
				h, err := c.Ready(ctx)
				switch {
				case err != nil && errors.Is(context.Cause(ctx), slow):
					return slow
				case err != nil:
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "ready: epoch %d, format level %d\n", h.Epoch, h.FormatLevel)
				return err
			})
		},
	}
	r.register(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "time limit for the answer")
	return cmd
}
