package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestQueueCommands: an operator creates, fills, looks into, empties and deletes queues.
func TestQueueCommands(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	check.Containsf(t, p.must("queue", "create", "mails", "-s", "max-deliveries=1", "-s", "visibility=1m"), "mails.dead", "created")
	p.refused(1, "topic exists", "queue", "create", "mails")
	p.refused(1, "not between 1s and 12h", "queue", "create", "x", "-s", "visibility=1d")
	check.Equal(t, p.must("queue", "send", "mails", "--key", "k", "--header", "h=v", `{"to":"ada"}`), "0-0\n")
	check.Equal(t, p.mustWith("a\nb\n\xff\n", "queue", "send", "mails"), "0-1\n0-2\n0-3\n")
	check.Equal(t, p.must("queue", "send", "mails", "--dedup", "order-7", "once"), "0-4\n")
	check.Equal(t, p.must("queue", "send", "mails", "--dedup", "order-7", "once"), "0-4 duplicate\n")
	p.must("queue", "send", "mails", "--delay", "1d", "--quiet", "later")
	p.refused(1, "not between 0s and 365d", "queue", "send", "mails", "--delay", "366d", "x")
	p.refused(2, "--dedup", "queue", "send", "mails", "--dedup", "x")
	p.refused(2, "--header", "queue", "send", "mails", "--header", "x", "y")
	p.refused(1, "no queue", "queue", "show", p.topic(t, "plain"))
	list := p.must("queue", "list")
	check.Containsf(t, list, "mails       5      0       1        0      0     6", "list")
	check.Containsf(t, p.must("queue", "show", "mails"), "visibility      1m0s\n", "show")
	var q struct {
		Ready, Delayed int
		Settings       map[string]string
	}
	if err := json.Unmarshal([]byte(p.must("queue", "show", "mails", "--json")), &q); err != nil || q.Ready != 5 || q.Delayed != 1 || q.Settings["max-deliveries"] != "1" {
		t.Errorf("%+v, %v", q, err)
	}
	peeked := p.must("queue", "peek", "mails")
	if lines := strings.Split(peeked, "\n"); len(lines) != 8 || !strings.Contains(lines[1], "0-5  delayed") || !strings.HasSuffix(lines[1], "later") || !strings.Contains(peeked, "base64 /w==") {
		t.Errorf("peek:\n%s", peeked)
	}
	check.Containsf(t, p.must("queue", "peek", "mails", "--state", "ready", "--limit", "1", "--json"), `"id":"0-4"`, "peek by state")
	check.Containsf(t, p.must("queue", "peek", "mails", "--before", "0-1"), "0-0  ready", "the next page")
	p.refused(1, "is not ready, leased", "queue", "peek", "mails", "--state", "lost")
	p.must("queue", "cancel", "mails", "0-5")
	p.refused(1, "unknown message", "queue", "cancel", "mails", "0-5")
	p.must("queue", "pause", "mails")
	check.Containsf(t, p.must("queue", "show", "mails"), "paused          true\n", "a paused queue")
	p.must("queue", "resume", "mails")
	check.Containsf(t, p.must("queue", "update", "mails", "-s", "visibility="), "visibility      30s (default)", "update")

	check.Equal(t, p.must("queue", "redrive", "mails", "--to", "mails.dead", "--text", "a", "--dry-run"), "2 messages would be moved, 3 skipped\n")
	check.Equal(t, p.must("queue", "redrive", "mails", "--to", "mails.dead", "--max", "1"), "1 message moved, 0 skipped\n")
	check.Equal(t, p.must("queue", "redrive", "mails", "--to", "mails.dead", "--text", "a"), "1 message moved, 3 skipped\n")
	p.refused(1, "name the target", "queue", "redrive", "mails")
	p.refused(2, "would permanently end 3 messages; confirm with --yes", "queue", "purge", "mails")
	check.Equal(t, p.must("queue", "purge", "mails", "--yes"), "queue mails is empty: 3 messages ended\n")
	p.refused(1, "in use", "queue", "delete", "mails.dead", "--yes")
	check.Equal(t, p.must("queue", "delete", "mails"), "queue mails is deleted, with 0 messages that were not done\n")
	check.Equal(t, p.must("queue", "delete", "mails.dead", "-y"), "queue mails.dead is deleted, with 2 messages that were not done\n")
	check.Equal(t, len(strings.Split(p.must("queue", "list"), "\n")), 2)
}

// TestScheduleCommands: an operator sees the times of a schedule before it is made, and lists and removes it.
func TestScheduleCommands(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "mails")
	weekly := []string{"queue", "schedule", "mails", "weekly", "--cron", "0 9 * * MON", "--tz", "Europe/Copenhagen", "--key", "k"}
	times := p.must(append(weekly, "--dry-run")...)
	if lines := strings.Split(times, "\n"); len(lines) != 6 || !strings.HasPrefix(lines[0], "Mon 2") || !strings.Contains(lines[0], "T09:00:00+0") {
		t.Errorf("the next times:\n%s", times)
	}
	p.refused(1, "unknown schedule", "queue", "unschedule", "mails", "weekly")
	check.Equal(t, p.must(append(weekly, "--missed", "skip", `{"to":"ada"}`)...), times)
	list := p.must("queue", "schedules", "mails")
	check.Containsf(t, list, "weekly  0 9 * * MON  Europe/Copenhagen  skip    "+strings.Split(times, "\n")[0]+`  {"to":"ada"}`, "list")
	check.Containsf(t, p.must("queue", "schedules", "mails", "--json"), `"key": "k"`, "list in JSON")
	p.refused(1, "zone", "queue", "schedule", "mails", "x", "--cron", "@daily", "--tz", "Mars")
	p.refused(1, "unknown topic", "queue", "schedule", "none", "x", "--cron", "@daily")
	p.refused(2, "cron", "queue", "schedule", "mails", "x")
	check.Equal(t, p.must("queue", "unschedule", "mails", "weekly"), "schedule weekly of queue mails is removed\n")
}

// topic creates a topic that is no queue.
func (p *workDir) topic(t *testing.T, name string) string {
	t.Helper()
	must.Equalf(t, strings.Contains(p.must("topic", "create", name), name), true, "created")
	return name
}

func TestProduceAtomic(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("queue", "create", "invoices")
	order := `{"topic":"orders","key":"7","value":"paid"}
{"queue":"invoices","value":"print 7"}

{"event":"order_placed","entity_id":"7"}
`
	check.Equal(t, p.mustWith(order, "produce", "--atomic"), "topic orders partition 0 offset 0\nqueue invoices message 0-0\ntopic events partition 0 offset 0\n")
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "order"), []byte(order), 0o600))
	check.Equal(t, p.must("produce", "--atomic", "order", "-q"), "")
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "bad"), []byte(order+`{"queue":"others","value":"x"}`), 0o600))
	p.refused(1, `record 3: there is no topic "others"`, "produce", "--atomic", "bad")
	check.Equal(t, p.must("consume", "orders"), "paid\npaid\n")
	p.refused(2, "--partition: not with --atomic", "produce", "--atomic", "-p", "1")
	p.refused(2, "accepts at most 1 arg", "produce", "--atomic", "orders", "order")
}
