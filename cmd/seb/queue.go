package main

import (
	"cmp"
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
	"github.com/sebbroker/seb/internal/operate/progress"
)

func newQueue() *cobra.Command {
	var r remote
	return r.parent(
		&cobra.Command{Use: "queue", Aliases: []string{"queues"}, Short: "List, create, show, change, fill, work off and empty queues"},
		newQueueList(&r), newQueueShow(&r), newQueueCreate(&r), newQueueUpdate(&r), newQueueSend(&r), newQueueWork(&r), newQueuePeek(&r),
		newQueueRedrive(&r), newQueueCancel(&r), newQueuePause(&r), newQueueResume(&r), newQueuePurge(&r), newQueueDelete(&r),
		newQueueSchedule(&r), newQueueSchedules(&r), newQueueUnschedule(&r),
	)
}

// queueNames completes the name of a queue.
func (r *remote) queueNames(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completer(r, (*client.Client).Queues, func(q *client.Queue) string { return q.Name })(cmd, args, toComplete)
}

func newQueueList(r *remote) *cobra.Command {
	return newList(r, "queues", (*client.Client).Queues, "NAME\tREADY\tLEASED\tDELAYED\tRETRY\tDEAD\tSENT\tOLDEST", func(q *client.Queue) []any {
		return []any{q.Name, q.Ready, q.Leased, q.Delayed, q.Retry, q.Dead, q.Sent, ageOf(q)}
	})
}

// ageOf is the age of the oldest message of a queue.
func ageOf(q *client.Queue) string {
	if q.OldestAt.IsZero() {
		return "-"
	}
	return time.Duration(q.OldestSeconds * float64(time.Second)).Round(time.Second).String()
}

func newQueueShow(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "show QUEUE", Aliases: []string{"describe"}, Short: "Show the messages of a queue by state, and its settings", Args: cobra.ExactArgs(1),
		ValidArgsFunction: r.queueNames,
	}, func(ctx context.Context, c *client.Client, args []string) (client.Queue, error) {
		return c.Queue(ctx, args[0])
	}, printQueue)
}

func printQueue(out io.Writer, q *client.Queue) error {
	w := aligned(out)
	fmt.Fprintf(w, "queue %s, id %s\n", q.Name, q.ID)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"ready", q.Ready},
		{"leased", q.Leased},
		{"delayed", q.Delayed},
		{"retry", q.Retry},
		{"dying", q.Dying},
		{"dead", q.Dead},
		{"sent", q.Sent},
		{"bytes", q.Bytes},
		{"oldest", ageOf(q)},
		{"priorities", q.Priorities},
	} {
		fmt.Fprintf(w, "%s\t%v\n", line.name, line.value)
	}
	if q.Full {
		fmt.Fprintln(w, "full\tit refuses messages: they take retention-bytes")
	}
	if q.LookAheadFull {
		fmt.Fprintln(w, "waits\tas many messages as it looks ahead wait for others of their keys")
	}
	fmt.Fprintln(w, "SETTING\tVALUE")
	for _, name := range slices.Sorted(maps.Keys(q.Effective)) {
		value := cmp.Or(q.Effective[name], "-")
		if _, given := q.Settings[name]; !given {
			value += " (default)"
		}
		fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
	return w.Flush()
}

func newQueueCreate(r *remote) *cobra.Command {
	var priorities int
	cmd := newQueuePut(r, &cobra.Command{
		Use:   "create QUEUE",
		Short: "Create a queue",
		Long: "Creates a queue, whose messages each go to one worker, and the queue QUEUE.dead for those that fail too often, unless the\nsetting " +
			"dead-letter names another one or none. Its settings, with their defaults:\n\n" + queueSettingsHelp(),
		Example: "  seb queue create mails\n  seb queue create jobs --priorities 2 --setting visibility=5m --setting max-deliveries=8",
	}, func(cmd *cobra.Command, c *client.Client, name string, settings map[string]string) (client.Queue, error) {
		return c.CreateQueue(cmd.Context(), name, client.QueueSpec{Priorities: priorities, Settings: settings})
	})
	cmd.Flags().IntVar(&priorities, "priorities", 1, "number of priorities, up to 10; it cannot change")
	return cmd
}

// queueSettingsHelp has a line for each setting of a queue.
func queueSettingsHelp() string {
	var b strings.Builder
	tw := aligned(&b)
	for _, d := range state.QueueSettingTable() {
		text := d.Meaning
		if len(d.Choices) > 0 {
			text += ": " + strings.Join(d.Choices, " | ")
		}
		fmt.Fprintf(tw, "  %s=%s\t%s\n", d.Name, d.Default, text)
	}
	_ = tw.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

func newQueueUpdate(r *remote) *cobra.Command {
	cmd := newQueuePut(r, &cobra.Command{
		Use: "update QUEUE", Short: "Change settings of a queue", Example: "  seb queue update mails --setting visibility=5m --setting backoff=",
	}, func(cmd *cobra.Command, c *client.Client, name string, settings map[string]string) (client.Queue, error) {
		return c.UpdateQueue(cmd.Context(), name, client.QueueSpec{Settings: settings})
	})
	cmd.ValidArgsFunction = r.queueNames
	return cmd
}

// newQueuePut sets the action of cmd: put a queue with its settings, and show it.
func newQueuePut(r *remote, cmd *cobra.Command, put func(*cobra.Command, *client.Client, string, map[string]string) (client.Queue, error)) *cobra.Command {
	s := specFlags{}
	cmd.Flags().StringArrayVarP(&s.settings, "setting", "s", nil, "a setting, such as visibility=5m; an empty value removes it")
	asJSON := jsonFlag(cmd)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := s.spec()
		if err != nil {
			return err
		}
		return r.with(cmd, func(c *client.Client) error {
			q, err := put(cmd, c, args[0], spec.Settings)
			if err != nil {
				return err
			}
			return printOr(cmd.OutOrStdout(), *asJSON, &q, printQueue)
		})
	}
	return cmd
}

func newQueuePause(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "pause QUEUE", Short: "Give no messages to workers, until seb queue resume", Args: cobra.ExactArgs(1), ValidArgsFunction: r.queueNames,
		RunE: r.pausing(true, "queue %s is paused\n"),
	}
}

func newQueueResume(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "Give messages to workers again", Args: cobra.ExactArgs(1), ValidArgsFunction: r.queueNames,
		RunE: r.pausing(false, "queue %s is not paused\n"),
	}
}

func (r *remote) pausing(paused bool, done string) func(*cobra.Command, []string) error {
	return r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		if _, err := c.PauseQueue(cmd.Context(), args[0], paused); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), done, args[0])
		return err
	})
}

func newQueueCancel(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "cancel QUEUE ID", Short: "End a message that no worker has", Args: cobra.ExactArgs(2), ValidArgsFunction: r.queueNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := c.CancelMessage(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return deleted(cmd, "message %s of queue %s is canceled", args[1], args[0])
		}),
	}
}

func newQueuePurge(r *remote) *cobra.Command {
	return r.emptying(&cobra.Command{Use: "purge QUEUE", Short: "End all messages of a queue, also those that workers have"},
		func(cmd *cobra.Command, c *client.Client, name string, _ int64) error {
			n, err := c.PurgeQueue(cmd.Context(), name)
			if err != nil {
				return err
			}
			return deleted(cmd, "queue %s is empty: %s ended", name, counted(n, "message"))
		})
}

func newQueueDelete(r *remote) *cobra.Command {
	return r.emptying(&cobra.Command{Use: "delete QUEUE", Aliases: []string{"rm"}, Short: "Delete a queue and all its messages"},
		func(cmd *cobra.Command, c *client.Client, name string, left int64) error {
			if err := c.DeleteQueue(cmd.Context(), name); err != nil {
				return err
			}
			return deleted(cmd, "queue %s is deleted, with %s that were not done", name, counted(left, "message"))
		})
}

// emptying sets the action of cmd: ask if the queue has messages that are not done, and do it. do gets their
// number.
func (r *remote) emptying(cmd *cobra.Command, do func(*cobra.Command, *client.Client, string, int64) error) *cobra.Command {
	yes := yesFlag(cmd)
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), r.queueNames
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
		q, err := c.Queue(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		left := q.Ready + q.Leased + q.Delayed + q.Retry + q.Dying
		if left > 0 {
			if err := confirm(cmd, *yes, false, "would permanently end "+counted(left, "message")); err != nil {
				return err
			}
		}
		return do(cmd, c, args[0], left)
	})
	return cmd
}

func newQueueRedrive(r *remote) *cobra.Command {
	var req client.RedriveRequest
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "redrive QUEUE",
		Short: "Move the messages of a dead-letter queue back",
		Long: `Moves the messages of a dead-letter queue to the queues from which they come, or to that of --to, the oldest first. Each message is
in one of both at any time. If the command is interrupted, repeat it. Messages that workers have stay.`,
		Example:           "  seb queue redrive mails.dead --dry-run\n  seb queue redrive mails.dead --reason 'mailbox full' --to mails.slow",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.queueNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if req.Max < 0 {
				return usageError{errors.New("--max: want 0 or more")}
			}
			all, err := redriveAll(cmd, c, args[0], req)
			if err != nil {
				return fmt.Errorf("after %s moved: %w", counted(int64(all.Moved), "message"), err)
			}
			return printOr(cmd.OutOrStdout(), *asJSON, &all, func(w io.Writer, all *client.Redriven) error {
				verb := "moved"
				if req.DryRun {
					verb = "would be moved"
				}
				_, err := fmt.Fprintf(w, "%s %s, %d skipped\n", counted(int64(all.Moved), "message"), verb, all.Skipped)
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.To, "to", "", "queue that gets the messages (default: for each the one from which it comes)")
	f.StringVar(&req.Reason, "reason", "", "only letters with this text in their reason")
	f.StringVar(&req.Text, "text", "", "only messages with this text in their value")
	f.IntVar(&req.Max, "max", 0, "maximum number of messages to move (0: all)")
	f.BoolVar(&req.DryRun, "dry-run", false, "only count what would be moved")
	asJSON = jsonFlag(cmd)
	return cmd
}

// redriveMax is the number of messages that one request moves.
const redriveMax = 1000

// redriveAll moves messages until there are no more, or req.Max are moved.
func redriveAll(cmd *cobra.Command, c *client.Client, queue string, req client.RedriveRequest) (all client.Redriven, err error) {
	q, err := c.Queue(cmd.Context(), queue)
	if err != nil {
		return all, err
	}
	bar := progress.New(cmd.ErrOrStderr(), "messages", q.Ready+q.Leased+q.Delayed+q.Retry, nil)
	defer bar.Clear()
	most := req.Max
	for {
		if req.Max = redriveMax; most > 0 {
			req.Max = min(redriveMax, most-all.Moved)
		}
		done, err := c.Redrive(cmd.Context(), queue, req)
		if err != nil {
			return all, err
		}
		all.Moved, all.Skipped = all.Moved+done.Moved, all.Skipped+done.Skipped
		bar.Set(int64(all.Moved + all.Skipped))
		if req.After = done.Next; req.After == "" || most > 0 && all.Moved >= most {
			all.Next = done.Next
			return all, nil
		}
	}
}
