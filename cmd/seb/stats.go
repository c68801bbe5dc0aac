package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

func newStats() *cobra.Command {
	var r remote
	var window string
	cmd := newShow(&r, &cobra.Command{
		Use: "stats", Short: "Show rates, latencies and lag of the last hours", Args: cobra.NoArgs,
		Long: "Shows figures that the broker keeps in memory: the newest value, the largest, and all of them as a line from the oldest to the newest.",
	}, func(ctx context.Context, c *client.Client, _ []string) (client.Stats, error) {
		return c.Stats(ctx, window)
	}, printStats)
	cmd.Flags().StringVar(&window, "window", "1h", "time span: 1h, 6h or 24h")
	r.register(cmd)
	return cmd
}

func printStats(w io.Writer, s *client.Stats) error {
	if s.Reason != "" {
		_, err := fmt.Fprintln(w, "no statistics:", s.Reason)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "SERIES\tUNIT\tNOW\tMAX\tLAST %s\n", s.Window)
	for _, name := range slices.Sorted(maps.Keys(s.Series)) {
		of := s.Series[name]
		now, most := "-", "-"
		if n := len(of.Values); n > 0 && of.Values[n-1] != nil {
			now = figure(*of.Values[n-1])
		}
		if largest, ok := largestOf(of.Values); ok {
			most = figure(largest)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", name, of.Unit, now, most, sparkline(of.Values))
	}
	return tw.Flush()
}

func figure(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func largestOf(values []*float64) (largest float64, ok bool) {
	for _, v := range values {
		if v != nil {
			largest, ok = max(largest, *v), true
		}
	}
	return largest, ok
}

// sparkCells is the width of a sparkline.
const sparkCells = 30

// sparkline draws the largest value of each part of values. A part without a value is a space.
func sparkline(values []*float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most, _ := largestOf(values)
	var b strings.Builder
	for i := range sparkCells {
		v, ok := largestOf(values[i*len(values)/sparkCells : (i+1)*len(values)/sparkCells])
		switch {
		case !ok:
			b.WriteByte(' ')
		case most == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[int(v/most*float64(len(bars)-1))])
		}
	}
	return strings.TrimRight(b.String(), " ")
}

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
