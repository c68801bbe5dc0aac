package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newGroup() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "group",
		Aliases: []string{"groups"},
		Short:   "List, describe, reset and delete consumer groups",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	r.register(cmd)
	cmd.AddCommand(newGroupList(&r), newGroupDescribe(&r), newGroupReset(&r), newGroupDelete(&r))
	return cmd
}

// groupNames completes the name of a group.
func (r *remote) groupNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return r.topicNames(cmd, args[1:], "")
	}
	var names []string
	err := r.with(cmd, func(c *client.Client) error {
		groups, err := c.Groups(cmd.Context())
		for _, g := range groups {
			names = append(names, g.Name)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newGroupList(r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all consumer groups",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.with(cmd, func(c *client.Client) error {
				groups, err := c.Groups(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), groups)
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "GROUP\tTOPICS\tPARTITIONS\tLAG")
				for _, g := range groups {
					topics := map[string]bool{}
					for _, o := range g.Offsets {
						topics[o.Topic] = true
					}
					fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", g.Name, len(topics), len(g.Offsets), g.Lag)
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newGroupDescribe(r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "describe GROUP",
		Short:             "Show the committed offsets and the lag of a group",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.groupNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.with(cmd, func(c *client.Client) error {
				g, err := c.Group(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return printGroup(cmd.OutOrStdout(), &g, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printGroup(w io.Writer, g *client.Group, asJSON bool) error {
	if asJSON {
		return writeJSON(w, g)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TOPIC\tPARTITION\tOFFSET\tSTART\tNEXT\tLAG\tCOMMITTED")
	for _, o := range g.Offsets {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", o.Topic, o.Partition, o.Offset, o.Start, o.Next, o.Lag, ago(o.Committed))
	}
	return tw.Flush()
}

// resetFlags are the flags of `seb group reset`.
type resetFlags struct {
	to         string
	partitions []int32
	asJSON     bool
}

func newGroupReset(r *remote) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset GROUP TOPIC --to OFFSET",
		Short: "Set the committed offsets of a group",
		Long: `Moves GROUP to an offset in all partitions of TOPIC, or in those given, and shows the result. Stop its consumers first,
because they are not notified: they continue and commit the records that they have read.`,
		Example: "  seb group reset billing orders --to earliest\n  seb group reset billing orders -p 3 --to 4711",
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return r.groupNames(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := parseOffset(f.to)
			if err != nil {
				return usageError{fmt.Errorf("--to: %q, want a number, earliest or latest", f.to)}
			}
			return r.with(cmd, func(c *client.Client) error {
				if err := f.reset(cmd.Context(), c, args[0], args[1], to); err != nil {
					return err
				}
				g, err := c.Group(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return printGroup(cmd.OutOrStdout(), &g, f.asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&f.to, "to", "", "target offset: a number, earliest or latest; required")
	cmd.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions (default all)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *resetFlags) reset(ctx context.Context, c *client.Client, group, topic string, to int64) error {
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return err
	}
	var commits []client.OffsetCommit
	for _, p := range t.Partitions {
		if len(f.partitions) > 0 && !slices.Contains(f.partitions, p.Partition) {
			continue
		}
		offset := to
		switch {
		case to == client.Earliest:
			offset = p.Start
		case to == client.Latest:
			offset = p.Next
		case to < p.Start || to > p.Next:
			return usageError{fmt.Errorf("--to: %d, but partition %d has offsets %d to %d", to, p.Partition, p.Start, p.Next)}
		}
		commits = append(commits, client.OffsetCommit{Topic: topic, Partition: p.Partition, Offset: offset})
	}
	if len(commits) == 0 || len(f.partitions) > len(commits) {
		return usageError{fmt.Errorf("--partition: topic %s has %d partitions, the first is 0", topic, len(t.Partitions))}
	}
	return c.CommitOffsets(ctx, group, commits...)
}

func newGroupDelete(r *remote) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "delete GROUP",
		Aliases:           []string{"rm"},
		Short:             "Delete a consumer group's committed offsets",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.groupNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.with(cmd, func(c *client.Client) error {
				if !yes {
					g, err := c.Group(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					if err := confirm(cmd, false, false, "would permanently delete "+counted(int64(len(g.Offsets)), "committed offset")); err != nil {
						return err
					}
				}
				return c.DeleteGroup(cmd.Context(), args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	return cmd
}
