package main

import (
	"bufio"
	"fmt"
	"iter"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newKeyHistory(r *remote) *cobra.Command {
	var k keyFlags
	var order string
	var limit int
	cmd := &cobra.Command{
		Use:               "history TOPIC KEY",
		Short:             "Show the records of a key, tombstones included",
		Example:           "  seb key history users u1\n  seb key history users u1 --order oldest --limit 0 --json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: r.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := k.key("KEY", args[1])
			if err != nil {
				return err
			}
			if order != "newest" && order != "oldest" {
				return usageError{fmt.Errorf("--order: %q, want newest or oldest", order)}
			}
			o := client.KeyHistoryOptions{OldestFirst: order == "oldest", PageSize: pageOf(limit)}
			o.Partition, o.Freshness = k.where()
			return r.with(cmd, func(c *client.Client) error {
				return k.history(c.KeyHistory(cmd.Context(), args[0], key, o), limit).print(cmd)
			})
		},
	}
	k.register(cmd)
	cmd.Flags().StringVar(&order, "order", "newest", "order of the records: newest or oldest first")
	cmd.Flags().IntVarP(&limit, "limit", "n", limitDefault, "stop after N records (0: no limit)")
	return cmd
}

// history returns the listing of a key's records.
func (k *keyFlags) history(records iter.Seq2[client.KeyRecord, error], limit int) *listing[client.KeyRecord] {
	return &listing[client.KeyRecord]{
		all: records, limit: limit, json: k.asJSON, head: "TIME\tPARTITION\tOFFSET\tVALUE",
		row: func(w *bufio.Writer, r *client.KeyRecord) error {
			value := "(deleted)"
			if r.Value != nil {
				value = cell(r.Value)
			}
			_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", stamp(r.Timestamp), r.Partition, r.Offset, value)
			return err
		},
		object: func(w *bufio.Writer, r *client.KeyRecord) error { return writeJSONRecord(w, r.Partition, &r.Record) },
		more:   func(*client.KeyRecord) string { return "raise --limit" },
	}
}
