package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
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
	return &cobra.Command{
		Use: "forget BROKER", Short: "Forget a broker that will not return", Args: cobra.ExactArgs(1),
		Long: `Deletes the registration of a broker whose machine is lost. Until then the leader writes one object per minute, because it cannot
know whether that broker still runs. BROKER is a name or the beginning of a run, as "seb cluster" shows them.`,
		ValidArgsFunction: completer(r, absent, func(m *client.ClusterMember) string { return m.Name }),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			m, err := findMember(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := c.Forget(cmd.Context(), m.Run); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (run %s) is forgotten\n", m.Name, shortRun(m.Run))
			return err
		}),
	}
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
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tROLE\tSTATE\tEPOCH\tLAG\tHTTP\tKAFKA\tVERSION\tRUN")
	for i := range c.Members {
		m := &c.Members[i]
		name, state, epoch, lag := m.Name, m.State, "-", "-"
		if m.Self {
			name += " *"
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
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(name, "-"), m.Role, state, epoch, lag,
			cmp.Or(m.URL, "-"), cmp.Or(m.Kafka, "-"), cmp.Or(m.Version, "-"), cmp.Or(shortRun(m.Run), "-"))
	}
	if err := tw.Flush(); err != nil {
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
