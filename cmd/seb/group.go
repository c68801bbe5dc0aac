package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sebbroker/seb/client"
	"github.com/spf13/cobra"
)

func newGroup() *cobra.Command {
	var r remote
	return r.parent(
		&cobra.Command{Use: "group", Aliases: []string{"groups"}, Short: "List, describe, reset and delete consumer groups"},
		newGroupList(&r), newGroupDescribe(&r), newGroupReset(&r), newGroupDelete(&r),
	)
}

// groupNames completes the name of a group.
func (r *remote) groupNames(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return r.topicNames(cmd, args[1:], toComplete)
	}
	return completer(r, (*client.Client).Groups, func(g *client.Group) string { return g.Name })(cmd, args, toComplete)
}

func newGroupList(r *remote) *cobra.Command {
	return newList(r, "consumer groups", (*client.Client).Groups, "GROUP\tTOPICS\tPARTITIONS\tLAG", func(g *client.Group) []any {
		topics := map[string]bool{}
		for _, o := range g.Offsets {
			topics[o.Topic] = true
		}
		return []any{g.Name, len(topics), len(g.Offsets), g.Lag}
	})
}

func newGroupDescribe(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "describe GROUP", Short: "Show the committed offsets, the lag and the members of a group", Args: cobra.ExactArgs(1), ValidArgsFunction: r.groupNames,
	}, func(ctx context.Context, c *client.Client, args []string) (client.Group, error) {
		g, err := c.GroupWithMembers(ctx, args[0])
		if errors.Is(err, client.ErrReadOnly) {
			return c.Group(ctx, args[0])
		}
		return g, err
	}, printMembers)
}

// printMembers prints a group with its state and members, which a read-only broker does not know.
func printMembers(w io.Writer, g *client.Group) error {
	if err := printGroup(w, g); err != nil || g.State == "" {
		return err
	}
	fmt.Fprintf(w, "\n%s, %s\n", g.State, counted(int64(len(g.Members)), "member"))
	if len(g.Members) == 0 {
		return nil
	}
	return printTable(w, "MEMBER\tCLIENT\tHOST\tPARTITIONS", g.Members, func(m *client.GroupMember) []any {
		var assigned []string
		for _, t := range m.Assigned {
			for _, p := range t.Partitions {
				assigned = append(assigned, fmt.Sprintf("%s/%d", t.Topic, p))
			}
		}
		return []any{printable(m.ID), printable(m.ClientID), m.Host, cmp.Or(strings.Join(assigned, " "), "-")}
	})
}

func printGroup(w io.Writer, g *client.Group) error {
	return printTable(w, "TOPIC\tPARTITION\tOFFSET\tSTART\tNEXT\tLAG\tCOMMITTED", g.Offsets, func(o *client.GroupOffset) []any {
		return []any{o.Topic, o.Partition, o.Offset, o.Start, o.Next, o.Lag, ago(o.Committed)}
	})
}

// resetFlags are the flags of `seb group reset`.
type resetFlags struct {
	to         string
	offset     int64 // parsed to
	partitions []int32
}

func newGroupReset(r *remote) *cobra.Command {
	var f resetFlags
	cmd := newShow(r, &cobra.Command{
		Use:   "reset GROUP TOPIC --to OFFSET",
		Short: "Set the committed offsets of a group",
		Long: `Moves GROUP to an offset in all partitions of TOPIC, or in those given, and shows the result. Stop its consumers first,
because they are not notified: they continue and commit the records that they have read.`,
		Example:           "  seb group reset billing orders --to earliest\n  seb group reset billing orders -p 3 --to 4711",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: r.groupNames,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if f.offset, err = parseOffset(f.to); err != nil {
				return usageError{fmt.Errorf("--to: %q, want a number, earliest or latest", f.to)}
			}
			return nil
		},
	}, func(ctx context.Context, c *client.Client, args []string) (g client.Group, err error) {
		if err := f.reset(ctx, c, args[0], args[1]); err != nil {
			return g, err
		}
		return c.Group(ctx, args[0])
	}, printGroup)
	cmd.Flags().StringVar(&f.to, "to", "", "target offset: a number, earliest or latest; required")
	cmd.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions (default all)")
	return cmd
}

func (f *resetFlags) reset(ctx context.Context, c *client.Client, group, topic string) error {
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return err
	}
	var commits []client.OffsetCommit
	for _, p := range t.Partitions {
		if len(f.partitions) > 0 && !slices.Contains(f.partitions, p.Partition) {
			continue
		}
		offset := f.offset
		switch {
		case offset == client.Earliest:
			offset = p.Start
		case offset == client.Latest:
			offset = p.Next
		case offset < p.Start || offset > p.Next:
			return usageError{fmt.Errorf("--to: %d, but partition %d has offsets %d to %d", offset, p.Partition, p.Start, p.Next)}
		}
		commits = append(commits, client.OffsetCommit{Topic: topic, Partition: p.Partition, Offset: offset})
	}
	if len(commits) == 0 || len(f.partitions) > len(commits) {
		return usageError{fmt.Errorf("--partition: topic %s has %d partitions, the first is 0", topic, len(t.Partitions))}
	}
	return c.CommitOffsets(ctx, group, commits...)
}

func newGroupDelete(r *remote) *cobra.Command {
	var yes *bool
	cmd := &cobra.Command{
		Use:               "delete GROUP",
		Aliases:           []string{"rm"},
		Short:             "Delete a consumer group's committed offsets",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.groupNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if !*yes {
				g, err := c.Group(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := confirm(cmd, false, false, "would permanently delete "+counted(int64(len(g.Offsets)), "committed offset")); err != nil {
					return err
				}
			}
			if err := c.DeleteGroup(cmd.Context(), args[0]); err != nil {
				return err
			}
			return deleted(cmd, "group %s is deleted", args[0])
		}),
	}
	yes = yesFlag(cmd)
	return cmd
}
