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
	return printTable(w, "SERIES\tUNIT\tNOW\tMAX\tLAST "+s.Window, slices.Sorted(maps.Keys(s.Series)), func(name *string) []any {
		of := s.Series[*name]
		now, most := "-", "-"
		if n := len(of.Values); n > 0 && of.Values[n-1] != nil {
			now = figure(*of.Values[n-1])
		}
		if largest, ok := largestOf(of.Values); ok {
			most = figure(largest)
		}
		return []any{*name, of.Unit, now, most, sparkline(of.Values)}
	})
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
	tw := aligned(w)
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
			err := r.with(cmd, func(c *client.Client) error {
				h, err := c.Ready(ctx)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "ready: epoch %d, format level %d\n", h.Epoch, h.FormatLevel)
				}
				return err
			})
			if err != nil && errors.Is(context.Cause(ctx), slow) {
				return slow
			}
			return err
		},
	}
	r.register(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "time limit for the answer")
	return cmd
}

func newCost() *cobra.Command {
	var r remote
	cmd := newShow(&r, &cobra.Command{
		Use: "cost", Short: "Show what the bucket costs this month", Args: cobra.NoArgs,
		Long: "Shows the requests to the bucket in this calendar month (UTC) with their prices, and what a month costs at the pace of the last hour and the present size. The broker's --prices selects the price list.",
	}, func(ctx context.Context, c *client.Client, _ []string) (client.Cost, error) {
		return c.Cost(ctx)
	}, printCost)
	r.register(cmd)
	return cmd
}

func printCost(w io.Writer, c *client.Cost) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "KIND\t%s\tPRICE\tDOLLARS\tA MONTH\tDOLLARS\t\n", c.Month)
	for i := range c.Requests {
		r := &c.Requests[i]
		fmt.Fprintf(tw, "%s\t%d\t$%g/M\t%s\t", r.Kind, r.Count, r.PerMillion, dollars(r.Dollars))
		if c.PaceSeconds == 0 {
			fmt.Fprint(tw, "-\t-\t\n")
			continue
		}
		fmt.Fprintf(tw, "%d\t%s\t\n", r.MonthCount, dollars(r.MonthDollars))
	}
	fmt.Fprintf(tw, "storage\t\t$%g/GB\t\t%.3f GB\t%s\t\n", c.Storage.PerGBMonth, float64(c.Storage.Bytes)/1e9, dollars(c.Storage.MonthDollars))
	month := dollars(c.MonthDollars)
	if c.PaceSeconds == 0 {
		month = "-"
	}
	fmt.Fprintf(tw, "total\t\t\t%s\t\t%s\t\n", dollars(c.Dollars), month)
	if err := tw.Flush(); err != nil {
		return err
	}
	pace := "the pace of a month is known after a minute"
	if c.PaceSeconds > 0 {
		pace = fmt.Sprintf("a month at the pace of the last %v", time.Duration(c.PaceSeconds)*time.Second)
	}
	_, err := fmt.Fprintf(w, "\nPrices: %s; %s.\n", c.Prices, pace)
	if b := c.PutBudget; err == nil && b != nil {
		_, err = fmt.Fprintln(w, budgetText(c, b))
	}
	for i := range c.Requests {
		// Requests other than commits have the same begin.
		if r := &c.Requests[i]; err == nil && i < 2 && r.Since.Format("2006-01-02 15:04:05") != c.Month+"-01 00:00:00" {
			of := "Commit objects"
			if i == 1 {
				of = "Other requests"
			}
			_, err = fmt.Fprintf(w, "%s are counted since %s.\n", of, r.Since.UTC().Format(time.RFC3339))
		}
	}
	return err
}

// budgetText describes the budget of a month. The budget has requests that were not counted as used.
func budgetText(c *client.Cost, b *client.PutBudget) string {
	counted := 0.0
	for i := range c.Requests {
		if kind := c.Requests[i].Kind; kind == "commit" || kind == "put" || kind == "list" {
			counted += c.Requests[i].Dollars
		}
	}
	text := fmt.Sprintf("PUT budget: %s, %s used by commit, put and list", b.Budget, dollars(b.UsedDollars))
	if more := b.UsedDollars - counted; more > 0.005 && c.Dollars > 0 {
		text += fmt.Sprintf(", of which %s are set aside for requests that were not counted", dollars(more))
	}
	if b.Dollars == 0 {
		text = fmt.Sprintf("PUT budget: %s, %d of %d PUTs used", b.Budget, b.UsedPuts, b.Puts)
	}
	if b.IntervalMillis == 0 {
		text += "; objects leave at once"
	} else {
		text += fmt.Sprintf("; objects collect records for %v", time.Duration(b.IntervalMillis)*time.Millisecond)
	}
	if b.Exceeded > 0.001 {
		text += fmt.Sprintf("; exceeded by %.1f %%", 100*b.Exceeded)
	}
	return text + "."
}

// dollars formats an amount: cents, or two significant digits below a cent.
func dollars(v float64) string {
	if v > 0 && v < 0.01 {
		return fmt.Sprintf("$%.2g", v)
	}
	return fmt.Sprintf("$%.2f", v)
}
