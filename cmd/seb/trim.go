package main

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

// trimFlags are the flags of `seb topic trim`.
type trimFlags struct {
	partition int32
	before    int64
	yes       bool
}

func newTopicTrim(r *remote) *cobra.Command {
	var f trimFlags
	cmd := &cobra.Command{
		Use:               "trim TOPIC --before OFFSET",
		Short:             "Delete the records of a partition below an offset",
		Example:           "  seb topic trim orders -p 2 --before 100000 --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.before < 0 || f.partition < 0 {
				return usageError{errors.New("--before and --partition: must be set and not negative")}
			}
			return r.with(cmd, func(c *client.Client) error { return f.run(cmd, c, args[0]) })
		},
	}
	cmd.Flags().Int64Var(&f.before, "before", -1, "first offset to keep; required")
	cmd.Flags().Int32VarP(&f.partition, "partition", "p", 0, "the partition")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "delete records without asking")
	return cmd
}

func (f *trimFlags) run(cmd *cobra.Command, c *client.Client, topic string) error {
	t, err := c.Topic(cmd.Context(), topic)
	if err != nil {
		return err
	}
	if int(f.partition) < len(t.Partitions) {
		now := &t.Partitions[f.partition]
		if n := min(f.before-now.Start, now.Records); n > 0 {
			if err := confirm(cmd, f.yes, false, "would permanently delete "+counted(n, "record")); err != nil {
				return err
			}
		}
	}
	p, err := c.Trim(cmd.Context(), topic, f.partition, f.before)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s partition %d begins at offset %d, next is %d\n", topic, p.Partition, p.Start, p.Next)
	return nil
}
