package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

func newQueueSchedule(r *remote) *cobra.Command {
	var f messageFlags
	var spec client.ScheduleSpec
	var dryRun bool
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "schedule QUEUE NAME --cron TIMES [VALUE]",
		Short: "Send VALUE at times, such as each Monday at 9",
		Long: `Makes the schedule NAME of QUEUE, or replaces it, and prints the next times at which it sends VALUE. At each time it sends one
message. Times are minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly.`,
		Example: "  seb queue schedule mails weekly --cron '0 9 * * MON' --tz Europe/Copenhagen '{\"report\":\"week\"}'\n" +
			"  seb queue schedule mails nightly --cron '30 2 * * *' --dry-run",
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: r.queueNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if spec.Cron == "" {
				return usageError{errors.New("--cron: missing")}
			}
			if err := f.complete(cmd); err != nil {
				return err
			}
			m := f.of([]byte(strings.Join(args[2:], "")))
			spec.Key, spec.Value, spec.ValueBase64, spec.Headers, spec.Priority = m.Key, m.Value, m.ValueBase64, m.Headers, m.Priority
			s, err := c.PutSchedule(cmd.Context(), args[0], args[1], spec, dryRun)
			if err != nil {
				return err
			}
			return printOr(cmd.OutOrStdout(), *asJSON, &s, printTimes)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Cron, "cron", "", "times, such as '0 9 * * MON'")
	flags.StringVar(&spec.Zone, "tz", "", "zone of the times, such as Europe/Copenhagen (default: UTC)")
	flags.StringVar(&spec.Missed, "missed", "", "what to send for times at which no broker ran: run-once, skip or run-all (default: run-once)")
	flags.BoolVar(&dryRun, "dry-run", false, "only print the next times")
	f.register(flags)
	asJSON = jsonFlag(cmd)
	return cmd
}

// printTimes prints the next times of a schedule in its zone.
func printTimes(w io.Writer, s *client.Schedule) error {
	for _, at := range s.Next {
		if _, err := fmt.Fprintln(w, inZone(at, s.Zone)); err != nil {
			return err
		}
	}
	return nil
}

// inZone returns a time in a zone that this machine may not know.
func inZone(at time.Time, zone string) string {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		loc = time.UTC
	}
	return at.In(loc).Format("Mon " + time.RFC3339)
}

func newQueueSchedules(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "schedules QUEUE", Short: "List the schedules of a queue, with their next times", Args: cobra.ExactArgs(1), ValidArgsFunction: r.queueNames,
	}, func(ctx context.Context, c *client.Client, args []string) ([]client.Schedule, error) {
		return c.Schedules(ctx, args[0])
	}, func(out io.Writer, list *[]client.Schedule) error {
		return printTable(out, "NAME\tTIMES\tZONE\tMISSED\tNEXT\tVALUE", *list, scheduleRow)
	})
}

func scheduleRow(s *client.Schedule) []any {
	next := "never"
	if len(s.Next) > 0 {
		next = inZone(s.Next[0], s.Zone)
	}
	return []any{s.Name, s.Cron, cmp.Or(s.Zone, "UTC"), cmp.Or(s.Missed, "run-once"), next, valueCell(s.Value, s.ValueBase64)}
}

func newQueueUnschedule(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "unschedule QUEUE NAME", Short: "Remove a schedule of a queue", Args: cobra.ExactArgs(2), ValidArgsFunction: r.queueNames,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := c.DeleteSchedule(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return deleted(cmd, "schedule %s of queue %s is removed", args[1], args[0])
		}),
	}
}
