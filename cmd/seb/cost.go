package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

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
		_, err = fmt.Fprintln(w, budgetText(b))
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

// budgetText describes the budget of a month.
func budgetText(b *client.PutBudget) string {
	text := fmt.Sprintf("PUT budget: %s, %s used", b.Budget, dollars(b.UsedDollars))
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
