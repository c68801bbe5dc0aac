package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
)

func newCluster() *cobra.Command {
	var r remote
	cmd := newShow(&r, &cobra.Command{
		Use: "cluster", Short: "Show the brokers of the bucket, hand over the lead, forget a lost broker", Args: cobra.NoArgs,
		Long: `Shows the brokers that are registered in the bucket, as one of them sees them: which one leads, which ones answer, how far each is
behind, and what is wrong.`,
		Example: "  seb cluster\n  seb cluster hand-over\n  seb cluster forget db2",
	}, func(ctx context.Context, c *client.Client, _ []string) (client.Cluster, error) { return c.Cluster(ctx) }, printCluster)
	r.register(cmd)
	cmd.AddCommand(newHandOver(&r), newForget(&r))
	return cmd
}

func newHandOver(r *remote) *cobra.Command {
	return newShow(r, &cobra.Command{
		Use: "hand-over", Short: "Let a standby lead", Args: cobra.NoArgs,
		Long: "The leader hands over to a standby that has applied the log. Writes wait meanwhile; none is lost. Use it before maintenance of the leader.",
	}, func(ctx context.Context, c *client.Client, _ []string) (client.Cluster, error) {
		return c.HandOver(ctx)
	}, printCluster)
}

func newForget(r *remote) *cobra.Command {
	var yes *bool
	cmd := &cobra.Command{
		Use: "forget BROKER", Short: "Forget a broker that will not return", Args: cobra.ExactArgs(1),
		Long: `Deletes the registration of a broker whose machine is lost. Until then the leader writes one object per minute, because it cannot
know whether that broker still runs. BROKER is a name or the beginning of a run, as "seb cluster" shows them.`,
		ValidArgsFunction: completer(r, absent, func(m *client.ClusterMember) string { return m.Name }),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			m, err := findMember(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := confirm(cmd, *yes, true, fmt.Sprintf("would forget %s (run %s), which must not run any more", m.Name, shortRun(m.Run))); err != nil {
				return err
			}
			if err := c.Forget(cmd.Context(), m.Run); err != nil {
				return err
			}
			return deleted(cmd, "%s (run %s) is forgotten", m.Name, shortRun(m.Run))
		}),
	}
	yes = yesFlag(cmd)
	return cmd
}

// absent lists the brokers that do not answer.
func absent(c *client.Client, ctx context.Context) (list []client.ClusterMember, err error) {
	all, err := c.Cluster(ctx)
	for _, m := range all.Members {
		if m.State != "up" {
			list = append(list, m)
		}
	}
	return list, err
}

// findMember returns the one broker that a name or the beginning of a run means. A broker that does
// not answer precedes one of the same name that does.
func findMember(ctx context.Context, c *client.Client, text string) (*client.ClusterMember, error) {
	all, err := c.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	var found []*client.ClusterMember
	for _, up := range []bool{false, true} {
		for i := range all.Members {
			m := &all.Members[i]
			if (m.State == "up") == up && (m.Name == text || strings.HasPrefix(m.Run, text) || strings.HasPrefix(runPart(m.Run), text)) {
				found = append(found, m)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, usageError{fmt.Errorf("%q: %d brokers match; give the run of one, as `seb cluster` shows it", text, len(found))}
		}
	}
	return nil, fmt.Errorf("%q: no broker of this bucket has this name or run", text)
}

// runPart returns the part of a run that differs at each start.
func runPart(run string) string {
	_, id, _ := strings.Cut(run, "-")
	return id
}

// shortRun shortens a run for people.
func shortRun(run string) string {
	id := cmp.Or(runPart(run), run)
	return id[:min(len(id), 8)]
}

func printCluster(w io.Writer, c *client.Cluster) error {
	err := printTable(w, "NAME\tROLE\tSTATE\tEPOCH\tLAG\tHTTP\tKAFKA\tVERSION\tRUN", c.Members, func(m *client.ClusterMember) []any {
		name, state, epoch, lag := m.Name, m.State, "-", "-"
		if m.Self {
			name += " *"
		}
		if m.Apart {
			state = "not reached"
		}
		if m.SilentSeconds > 0 {
			state += " " + seconds(m.SilentSeconds)
		}
		if m.Epoch > 0 {
			epoch = strconv.FormatUint(uint64(m.Epoch), 10)
		}
		if m.LagSeconds != nil {
			lag = seconds(*m.LagSeconds)
		}
		return []any{
			cmp.Or(name, "-"), m.Role, state, epoch, lag, cmp.Or(m.URL, "-"), cmp.Or(m.Kafka, "-"), cmp.Or(m.Version, "-"), cmp.Or(shortRun(m.Run), "-"),
		}
	})
	if err != nil {
		return err
	}
	for i := range c.Members {
		if m := &c.Members[i]; m.Why != "" && m.State == "up" {
			fmt.Fprintf(w, "%s (run %s) cannot lead: %s\n", m.Name, shortRun(m.Run), m.Why)
		}
	}
	for _, text := range c.Wrong {
		fmt.Fprintln(w, "warning:", text)
	}
	return nil
}

// seconds formats a duration for people.
func seconds(v float64) string {
	d := time.Duration(v * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func newUpgrade() *cobra.Command {
	var r remote
	var finalize bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show or raise the format level of the broker's bucket",
		Long: `Shows the format level of the bucket, the highest level that the broker knows, and when the bucket will be raised to it.

A broker of a newer program keeps the level of an existing bucket, so that the older program can lead it again. The first write
10 minutes or more after the start raises the level, unless the broker was started with --hold-upgrade. --finalize raises it at
once. Programs that do not know the level then refuse the bucket.`,
		Example: "  seb upgrade\n  seb upgrade --finalize",
		Args:    cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			u, err := c.Upgrade(cmd.Context())
			if err != nil {
				return err
			}
			if finalize {
				return finalizeUpgrade(cmd, c, u)
			}
			printUpgrade(cmd.OutOrStdout(), &u, time.Now())
			return nil
		}),
	}
	r.register(cmd)
	cmd.Flags().BoolVar(&finalize, "finalize", false, "raise the bucket to the highest level that the broker knows")
	return cmd
}

func finalizeUpgrade(cmd *cobra.Command, c *client.Client, was client.Upgrade) error {
	now, err := c.FinalizeUpgrade(cmd.Context())
	if err != nil {
		return err
	}
	if was.Level >= now.Level {
		fmt.Fprintf(cmd.OutOrStdout(), "the bucket is already at format level %d\n", now.Level)
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the bucket is now at format level %d; it was at %d\n", now.Level, was.Level)
	return nil
}

func printUpgrade(w io.Writer, u *client.Upgrade, now time.Time) {
	if u.Level >= u.HighestLevel {
		fmt.Fprintf(w, "the bucket is at format level %d, the highest that the broker knows\n", u.Level)
		return
	}
	fmt.Fprintf(w, "the bucket is at format level %d; the broker knows levels up to %d\n", u.Level, u.HighestLevel)
	switch {
	case u.RaiseAt.IsZero():
		fmt.Fprintln(w, "no write raises it; run \"seb upgrade --finalize\" at the broker that leads")
	case now.Before(u.RaiseAt):
		fmt.Fprintf(w, "an older program can lead it until the first write at or after %s raises it; \"seb upgrade --finalize\" does so now\n",
			u.RaiseAt.Local().Format(time.RFC3339))
	default:
		fmt.Fprintln(w, "the next write raises it; \"seb upgrade --finalize\" does so now")
	}
}

func newTime() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "time",
		Short:   "Show the log time, or set it back",
		Long:    "Shows the time of the last commit, the broker's clock, and the reason if writes wait.",
		Example: "  seb time\n  seb time reset",
		Args:    cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			t, err := c.LogTime(cmd.Context())
			if err == nil {
				printTime(cmd.OutOrStdout(), &t)
			}
			return err
		}),
	}
	r.register(cmd)
	cmd.AddCommand(newTimeReset())
	return cmd
}

func newTimeReset() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Set the log time back to the clock of the broker's machine",
		Long: `Corrects a log time that a wrong clock has moved into the future. It trusts the clock of the broker's machine: correct that
first.

The next commits then have earlier times than those before; offsets and order do not change. Records keep their times, so
retention by time keeps records of the false future until then. Triggers continue at the correct time; an entity with events
from the false future waits until then.`,
		Args: cobra.NoArgs,
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			was, err := c.LogTime(cmd.Context())
			if err != nil {
				return err
			}
			now, err := c.ResetTime(cmd.Context())
			if err != nil {
				return err
			}
			if !now.Last.Before(was.Last) {
				fmt.Fprintf(cmd.OutOrStdout(), "the log time is not ahead of the broker's clock, %s\n", rfc3339(now.Now))
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the log time is %s now; it was %s\n", rfc3339(now.Last), rfc3339(was.Last))
			return nil
		}),
	}
	r.register(cmd)
	return cmd
}

func printTime(w io.Writer, t *client.LogTime) {
	if t.Last.IsZero() {
		fmt.Fprintln(w, "last commit   none")
	} else {
		fmt.Fprintf(w, "last commit   %s\n", rfc3339(t.Last))
	}
	fmt.Fprintf(w, "clock         %s\n", rfc3339(t.Now))
	if t.Error != "" {
		fmt.Fprintf(w, "writes wait   %s\n", t.Error)
	}
}

func rfc3339(t time.Time) string { return t.Local().Format(time.RFC3339) }
