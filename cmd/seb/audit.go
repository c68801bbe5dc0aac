package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/record"
)

// auditFlags are the flags of `seb audit`.
type auditFlags struct {
	remote                          remote
	topic, principal, action, since string
	follow                          bool
	format                          string
	from                            time.Time
}

func newAudit() *cobra.Command {
	var a auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who changed what, and which requests were denied",
		Long: `Prints the audit records of a broker with --audit-topic: changes of tokens, rules, topics, groups and triggers, and samples of
denied requests and failed logins, which are counted per minute. The key needs read on the topic by its exact name.`,
		Example: "  seb audit --since 24h\n  seb audit --principal shop --follow\n  seb audit --action topic.delete --format json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	a.remote.register(cmd)
	f := cmd.Flags()
	f.StringVar(&a.topic, "topic", "audit", "topic of the audit records, the broker's --audit-topic")
	f.StringVar(&a.since, "since", "", "only records from then on: an age (e.g. 24h, 7d) or a time (2027-01-31T00:00:00Z)")
	f.StringVar(&a.principal, "principal", "", "only records of this token or user; seb is the root key")
	f.StringVar(&a.action, "action", "", "only records of this action (e.g. topic.delete)")
	f.BoolVarP(&a.follow, "follow", "f", false, "continue with new records")
	f.StringVar(&a.format, "format", "text", "text or json (one object per line)")
	return cmd
}

func (a *auditFlags) run(cmd *cobra.Command) (err error) {
	if a.from, err = parseSince(a.since, time.Now()); err != nil {
		return usageError{fmt.Errorf("--since: %w", err)}
	}
	if a.format != "text" && a.format != "json" {
		return usageError{fmt.Errorf("--format: %q, want text or json", a.format)}
	}
	c, err := a.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	begin := start{offset: client.Earliest, since: a.from, partitions: []int32{0}}
	if err := begin.find(cmd.Context(), c, a.topic); err != nil {
		return a.explain(err)
	}
	out := &printer{w: bufio.NewWriter(cmd.OutOrStdout()), write: a.write}
	read := func(ctx context.Context, partition int32) error {
		for r, err := range c.Records(ctx, a.topic, client.ReadOptions{Partition: partition, Offset: begin.at(partition), Follow: a.follow}) {
			if err != nil {
				return err
			}
			if err := out.print(partition, r); err != nil {
				return err
			}
		}
		return nil
	}
	if a.follow {
		err = out.follow(cmd.Context(), []int32{0}, read)
	} else {
		err = out.end(read(cmd.Context(), 0))
	}
	return a.explain(err)
}

// explain adds the usual reason to the error of a topic that does not exist.
func (a *auditFlags) explain(err error) error {
	if errors.Is(err, client.ErrUnknownTopic) {
		return fmt.Errorf("%w: the broker records nothing without --audit-topic, and creates the topic with the first record", err)
	}
	return err
}

// parseSince parses an age or a time; "" is the zero time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if t, err := input.Time(text); err == nil {
		return t, nil
	}
	end, err := parseEnd(text, now)
	if err != nil || end.IsZero() {
		return end, err
	}
	return now.Add(now.Sub(end)), nil
}

// write prints a record that the flags select. Records of other programs are left out.
func (a *auditFlags) write(w *bufio.Writer, _ int32, r *record.Record) error {
	var of api.AuditRecord
	at := time.UnixMilli(r.Timestamp)
	if json.Unmarshal(r.Value, &of) != nil || of.Action == "" || at.Before(a.from) {
		return nil
	}
	if a.principal != "" && of.Actor.Principal != a.principal || a.action != "" && of.Action != a.action {
		return nil
	}
	if a.format == "json" {
		return json.NewEncoder(w).Encode(struct {
			Time   time.Time `json:"time"`
			Offset int64     `json:"offset"`
			*api.AuditRecord
		}{at.UTC(), r.Offset, &of})
	}
	_, err := fmt.Fprintf(w, "%s  %s\n", rfc3339(at), auditText(&of))
	return err
}

// auditText describes a record in a line.
func auditText(r *api.AuditRecord) string {
	who := r.Actor.Principal
	switch {
	case who == "" && r.Protocol == "":
		who = "broker"
	case who == "":
		who = "unauthenticated"
	}
	text := fmt.Sprintf("%-12s  %s %s %s  by %s", r.Outcome, r.Action, r.Resource.Type, printable(r.Resource.Name), printable(who))
	if r.Protocol != "" {
		text += " (" + r.Protocol
		if r.From != "" {
			text += " " + r.From
		}
		text += ")"
	}
	if r.Count > 0 {
		text += fmt.Sprintf("  %d times", r.Count)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Details)) {
		text += fmt.Sprintf("  %s=%s", printable(k), printable(r.Details[k]))
	}
	return text
}

// printable quotes a text that is empty, or has spaces or control characters.
func printable(s string) string {
	if q := strconv.Quote(s); s == "" || len(q) != len(s)+2 || slices.Contains([]byte(s), ' ') {
		return q
	}
	return s
}
