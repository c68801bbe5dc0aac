package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

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
