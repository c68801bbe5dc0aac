package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newTransaction() *cobra.Command {
	var r remote
	return r.parent(
		&cobra.Command{Use: "transaction", Aliases: []string{"transactions"}, Short: "List, describe and abort transactions of Kafka clients"},
		newTransactionList(&r), newTransactionDescribe(&r), newTransactionAbort(&r),
	)
}

// transactionIDs completes a transactional ID.
func (r *remote) transactionIDs() cobra.CompletionFunc {
	return completer(r, (*client.Client).Transactions, func(t *client.Transaction) string { return t.ID })
}

func newTransactionList(r *remote) *cobra.Command {
	return newList(r, "transactional IDs", (*client.Client).Transactions, "TRANSACTIONAL-ID\tSTATE\tAGE\tTIMEOUT\tPARTITIONS\tOFFSETS", func(t *client.Transaction) []any {
		return []any{printable(t.ID), t.State, cmp.Or(spanOf(t.AgeSeconds), "-"), spanOf(t.TimeoutSeconds), len(t.Partitions), t.StagedOffsets}
	})
}

// spanOf returns a time span as text, "" for 0.
func spanOf(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return d.Round(time.Millisecond).String()
}

func newTransactionDescribe(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "describe ID", Short: "Show the producer of a transactional ID, and the partitions of its open transaction",
		Long: `Shows the producer of a transactional ID, and its transaction. While one is open, consumers, triggers,
webhooks and ordered queues wait at STABLE, the last stable offset, in each of its partitions. FIRST is the
offset of its first record there.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: r.transactionIDs(),
	}, func(ctx context.Context, c *client.Client, args []string) (client.Transaction, error) {
		return c.Transaction(ctx, args[0])
	}, printTransaction)
}

func printTransaction(w io.Writer, t *client.Transaction) error {
	tw := aligned(w)
	fmt.Fprintf(tw, "state\t%s\nproducer\t%d, epoch %d\ntimeout\t%s\nchanged\t%s\n", t.State, t.ProducerID, t.ProducerEpoch, spanOf(t.TimeoutSeconds), ago(t.Changed))
	if !t.Started.IsZero() {
		fmt.Fprintf(tw, "started\t%s, %s ago\noffsets\t%d of consumer groups\n", ago(t.Started), cmp.Or(spanOf(t.AgeSeconds), "0s"), t.StagedOffsets)
	}
	if err := tw.Flush(); err != nil || len(t.Partitions) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printTable(w, "TOPIC\tPARTITION\tFIRST\tSTABLE", t.Partitions, func(p *client.TransactionPartition) []any {
		return []any{p.Topic, p.Partition, p.First, p.Stable}
	})
}

func newTransactionAbort(r *remote) *cobra.Command {
	var yes *bool
	cmd := &cobra.Command{
		Use:   "abort ID",
		Short: "Abort the open transaction of a transactional ID",
		Long: `Aborts the open transaction of ID: committed reads skip its records, its offsets are dropped, and whatever waited for it
continues. Its producer is fenced: the next request fails, and most programs then restart their producer.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.transactionIDs(),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if !*yes {
				t, err := c.Transaction(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				what := fmt.Sprintf("would abort the transaction with records in %s, and fence its producer", counted(int64(len(t.Partitions)), "partition"))
				if err := confirm(cmd, false, false, what); err != nil {
					return err
				}
			}
			if _, err := c.AbortTransaction(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the transaction of %s is aborted\n", printable(args[0]))
			return err
		}),
	}
	yes = yesFlag(cmd)
	return cmd
}
