package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

func newLatency() *cobra.Command {
	var r remote
	var window string
	cmd := newShow(&r, &cobra.Command{
		Use: "latency", Short: "Show percentiles of acknowledgements and PUTs", Args: cobra.NoArgs,
		Long: `Shows how long acknowledgements took, from the oldest append of each commit object, and the PUTs of commit objects. The
broker keeps the histograms in memory.`,
	}, func(ctx context.Context, c *client.Client, _ []string) (client.Latency, error) {
		return c.Latency(ctx, window)
	}, printLatency)
	cmd.Flags().StringVar(&window, "window", "1h", "1h: the last 60 to 80 minutes; start: since the start of the broker")
	r.register(cmd)
	return cmd
}

// shownPercentiles are the rows of seb latency. --json has more.
var shownPercentiles = []float64{0, 50, 75, 90, 99, 99.9, 99.99, 99.999}

func printLatency(w io.Writer, l *client.Latency) error {
	if l.Reason != "" {
		_, err := fmt.Fprintln(w, "no histograms:", l.Reason)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "PERCENTILE\tACKNOWLEDGEMENTS\tPUTS\n")
	for _, p := range shownPercentiles {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", strconv.FormatFloat(p, 'g', -1, 64), percentileOf(&l.Acks, p), percentileOf(&l.Puts, p))
	}
	fmt.Fprintf(tw, "max\t%s\t%s\nvalues\t%d\t%d\n", percentileOf(&l.Acks, 100), percentileOf(&l.Puts, 100), l.Acks.Count, l.Puts.Count)
	return tw.Flush()
}

// percentileOf returns a percentile as text; that of 100 is the maximum.
func percentileOf(c *client.LatencyCurve, p float64) string {
	seconds := c.Max
	switch i := slices.IndexFunc(c.Percentiles, func(at client.LatencyPoint) bool { return at.Percentile == p }); {
	case c.Count == 0:
		return "-"
	case i >= 0:
		seconds = c.Percentiles[i].Seconds
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}
