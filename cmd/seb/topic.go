package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

func newTopic() *cobra.Command {
	var r remote
	return r.parent(
		&cobra.Command{Use: "topic", Aliases: []string{"topics"}, Short: "List, create, describe, change, trim and delete topics"},
		newTopicList(&r), newTopicDescribe(&r), newTopicSettings(&r), newTopicCreate(&r), newTopicUpdate(&r), newTopicTrim(&r), newTopicDelete(&r),
	)
}

func newTopicList(r *remote) *cobra.Command {
	return newList(r, "topics", (*client.Client).Topics, "NAME\tPARTITIONS\tRECORDS\tBYTES\tLATEST", func(t *client.Topic) []any {
		records, bytes, latest := totals(t)
		return []any{t.Name, len(t.Partitions), records, bytes, ago(latest)}
	})
}

func newTopicDescribe(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "describe TOPIC", Short: "Show a topic's settings and partitions", Args: cobra.ExactArgs(1), ValidArgsFunction: r.topicNames,
	}, func(ctx context.Context, c *client.Client, args []string) (client.Topic, error) {
		return c.Topic(ctx, args[0])
	}, printTopic)
}

// specFlags are the flags that describe a topic.
type specFlags struct {
	partitions int
	settings   []string
}

func (s *specFlags) spec() (client.TopicSpec, error) {
	out := client.TopicSpec{Partitions: s.partitions, Settings: map[string]string{}}
	for _, kv := range s.settings {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return out, usageError{fmt.Errorf("--setting: %q, want name=value", kv)}
		}
		out.Settings[k] = v
	}
	if s.partitions < 0 {
		return out, usageError{fmt.Errorf("--partitions: %d", s.partitions)}
	}
	return out, nil
}

func newTopicCreate(r *remote) *cobra.Command {
	create := func(cmd *cobra.Command, c *client.Client, name string, spec client.TopicSpec) (client.Topic, error) {
		return c.CreateTopic(cmd.Context(), name, spec)
	}
	return newTopicPut(r, create, &cobra.Command{
		Use:   "create TOPIC",
		Short: "Create a topic",
		Long: "Creates a topic. Its settings, with their defaults:\n\n" + settingsHelp() + `
A compacted topic keeps records without a key permanently, and its number of partitions cannot change.`,
		Example: "  seb topic create orders --partitions 4 --setting retention-time=7d\n  seb topic create users --setting cleanup-policy=compact",
	})
}

// settingsHelp has a line for each setting of a topic.
func settingsHelp() string {
	var b strings.Builder
	tw := aligned(&b)
	for _, d := range state.SettingTable() {
		text := d.Meaning
		if len(d.Choices) > 0 {
			text += ": " + strings.Join(d.Choices, " | ")
		}
		if d.DefaultCompacted != "" {
			text += "; " + d.DefaultCompacted + " with compact"
		}
		fmt.Fprintf(tw, "  %s=%s\t%s\n", d.Name, d.Default, text)
	}
	_ = tw.Flush() // into memory
	return b.String()
}

func newTopicSettings(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{Use: "settings", Short: "List the settings that topics have", Args: cobra.NoArgs},
		func(ctx context.Context, c *client.Client, _ []string) ([]client.Setting, error) {
			return c.Settings(ctx)
		},
		func(w io.Writer, list *[]client.Setting) error {
			return printTable(w, "SETTING\tDEFAULT\tVALUES\tMEANING", *list, func(d *client.Setting) []any {
				otherwise := d.Default
				if d.DefaultCompacted != "" {
					otherwise += " (compact: " + d.DefaultCompacted + ")"
				}
				return []any{d.Name, otherwise, acceptedValues(d), d.Meaning}
			})
		})
}

// acceptedValues describes the values that a setting accepts.
func acceptedValues(d *client.Setting) string {
	var values []string
	switch {
	case d.Max != "":
		values = append(values, d.Unit+" from "+d.Min+" to "+d.Max)
	case d.Unit != "":
		values = append(values, d.Unit+" from "+d.Min)
	}
	values = append(values, d.Choices...)
	if d.Unlimited {
		values = append(values, "unlimited")
	}
	return strings.Join(values, " | ")
}

func newTopicUpdate(r *remote) *cobra.Command {
	var yes *bool
	update := func(cmd *cobra.Command, c *client.Client, name string, spec client.TopicSpec) (client.Topic, error) {
		if !*yes && isTerminal(cmd.InOrStdin()) {
			t, err := c.Topic(cmd.Context(), name)
			if err != nil {
				return client.Topic{}, err
			}
			if less := keepsLess(t.Settings, spec.Settings); less != "" {
				if err := confirm(cmd, *yes, true, "would permanently delete records of "+name+": "+less); err != nil {
					return client.Topic{}, err
				}
			}
		}
		return c.UpdateTopic(cmd.Context(), name, spec)
	}
	cmd := newTopicPut(r, update, &cobra.Command{
		Use:   "update TOPIC",
		Short: "Change a topic's settings, or add partitions",
		Long: `Changes settings of a topic, or adds partitions. seb topic settings lists them. At a terminal the command asks before it
reduces retention.`,
		ValidArgsFunction: r.topicNames,
	})
	yes = yesFlag(cmd)
	return cmd
}

// keepsLess returns the changed settings that keep fewer records than before; "" if there are none.
func keepsLess(now, changes map[string]string) string {
	after := maps.Clone(now)
	if after == nil {
		after = map[string]string{}
	}
	maps.Copy(after, changes)
	canonical, err := state.CheckSettings(after)
	if err != nil {
		return "" // the broker reports the error
	}
	before, err := state.CheckSettings(now)
	if err != nil {
		return ""
	}
	was, is := state.Resolve(before), state.Resolve(canonical)
	switch {
	case is.RetentionTime != state.Unlimited && (was.RetentionTime == state.Unlimited || is.RetentionTime < was.RetentionTime):
		return "retention-time=" + is.RetentionTime.String()
	case is.RetentionBytes != state.Unlimited && (was.RetentionBytes == state.Unlimited || is.RetentionBytes < was.RetentionBytes):
		return fmt.Sprintf("retention-bytes=%d", is.RetentionBytes)
	case is.CleanupPolicy != was.CleanupPolicy && strings.Contains(is.CleanupPolicy, "compact") && !strings.Contains(was.CleanupPolicy, "compact"):
		return "cleanup-policy=" + is.CleanupPolicy
	}
	return ""
}

// newTopicPut sets the action of cmd: put a topic with its flags, and show the result.
func newTopicPut(r *remote, put func(*cobra.Command, *client.Client, string, client.TopicSpec) (client.Topic, error), cmd *cobra.Command) *cobra.Command {
	var s specFlags
	cmd.Flags().IntVar(&s.partitions, "partitions", 0, "number of partitions (0: one for a new topic, else unchanged)")
	cmd.Flags().StringArrayVarP(&s.settings, "setting", "s", nil, "a setting, such as retention-time=7d; an empty value removes it")
	asJSON := jsonFlag(cmd)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := s.spec()
		if err != nil {
			return err
		}
		return r.with(cmd, func(c *client.Client) error {
			t, err := put(cmd, c, args[0], spec)
			if err != nil {
				return err
			}
			return printOr(cmd.OutOrStdout(), *asJSON, &t, printTopic)
		})
	}
	return cmd
}

func newTopicDelete(r *remote) *cobra.Command {
	var yes *bool
	var force bool
	cmd := &cobra.Command{
		Use:               "delete TOPIC",
		Aliases:           []string{"rm"},
		Short:             "Delete a topic and all its records",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.topicNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			t, err := c.Topic(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			records, _, _ := totals(&t)
			if records > 0 {
				if err := confirm(cmd, *yes, false, "would permanently delete "+counted(records, "record")); err != nil {
					return err
				}
			}
			del := c.DeleteTopic
			if force {
				del = c.ForceDeleteTopic
			}
			if err := del(cmd.Context(), args[0]); err != nil {
				return err
			}
			return deleted(cmd, "topic %s is deleted, with %s", args[0], counted(records, "record"))
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "delete the topic even if triggers use it; they follow the next topic with this name")
	yes = yesFlag(cmd)
	return cmd
}

func printTopic(w io.Writer, t *client.Topic) error {
	fmt.Fprintf(w, "topic %s, id %s\n", t.Name, t.ID)
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		fmt.Fprintf(w, "  %s = %s\n", name, t.Settings[name])
	}
	err := printTable(w, "PARTITION\tSTART\tNEXT\tRECORDS\tBYTES\tLATEST", t.Partitions, func(p *client.Partition) []any {
		return []any{p.Partition, p.Start, p.Next, p.Records, p.Bytes, ago(p.LatestCommit)}
	})
	for i := range t.Partitions {
		if p := &t.Partitions[i]; p.LastStable < p.Next {
			fmt.Fprintf(w, "partition %d: readers wait at offset %d for an open transaction, see `seb transaction list`\n", p.Partition, p.LastStable)
		}
	}
	return err
}

func totals(t *client.Topic) (records, bytes int64, latest time.Time) {
	for _, p := range t.Partitions {
		records += p.Records
		bytes += p.Bytes
		if p.LatestCommit.After(latest) {
			latest = p.LatestCommit
		}
	}
	return records, bytes, latest
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// trimFlags are the flags of `seb topic trim`.
type trimFlags struct {
	partition int32
	before    int64
	yes       *bool
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
	f.yes = yesFlag(cmd)
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
			if err := confirm(cmd, *f.yes, false, "would permanently delete "+counted(n, "record")); err != nil {
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
