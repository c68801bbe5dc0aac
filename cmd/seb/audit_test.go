package main_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

// unstable are the parts of the output of `seb audit` that differ between runs.
var unstable = regexp.MustCompile(`(?m)^\S+|127\.0\.0\.1:[0-9]+`)

// audit prints the audit records without unstable parts.
func (p *workDir) audit(args ...string) string {
	p.t.Helper()
	return unstable.ReplaceAllStringFunc(p.must(append([]string{"audit"}, args...)...), func(s string) string {
		if strings.HasPrefix(s, "127.") {
			return "ADDRESS"
		}
		return "TIME"
	})
}

const auditLines = `
TIME  done          token.create principal shop  by seb (http ADDRESS)  rules="allow shop write on topic \"orders.\"*"
TIME  done          topic.create topic orders.new  by seb (http ADDRESS)  partitions=1  retention-time=24h0m0s
TIME  done          topic.alter topic orders.new  by seb (http ADDRESS)  retention-time=""
TIME  done          acl.deny acl shop  by seb (http ADDRESS)  rules="deny shop write on topic \"orders.old\""
TIME  done          topic.create topic triggers  by seb (http ADDRESS)  cleanup-policy=compact  partitions=1  timestamp-type=LogAppendTime
TIME  done          topic.create topic firings  by seb (http ADDRESS)  partitions=1  timestamp-type=LogAppendTime
TIME  done          topic.create topic events  by seb (http ADDRESS)  key-index=true  partitions=1  timestamp-type=LogAppendTime
TIME  done          trigger.put trigger paid  by seb (http ADDRESS)  topic=events  version=1
TIME  done          entity.erase topic events  by seb (http ADDRESS)
TIME  done          trigger.pause trigger paid  by seb (http ADDRESS)  topic=events  version=1
TIME  denied        topic.read topic orders.new  by shop (http ADDRESS)
TIME  failed-login  login network 127.0.0.0/24  by unauthenticated (http ADDRESS)
TIME  done          trigger.delete trigger paid  by seb (http ADDRESS)
TIME  done          topic.delete topic orders.new  by seb (http ADDRESS)
TIME  done          token.revoke principal shop  by seb (http ADDRESS)  removed-rules="allow shop write on topic \"orders.\"*; deny shop write on topic \"orders.old\""
`

// TestAudit records what an administrator does, and what a shop may not do.
func TestAudit(t *testing.T) {
	p := newWorkDir(t)
	p.serve("--audit-topic", "audit")
	p.refused(1, "--audit-topic", "audit")
	r := p.run("token", "create", "shop", "--write", "orders.*")
	if strings.Contains(r.err, "hint") {
		t.Errorf("with auditing: %s", r.err)
	}
	shop := strings.TrimSpace(r.out)
	p.must("topic", "create", "orders.new", "-s", "retention-time=1d")
	p.must("topic", "update", "orders.new", "-s", "retention-time=")
	p.must("acl", "deny", "shop", "write", "topic", "orders.old")
	p.mustWith(`{"id":"paid","expr":"paid","deliver":{"url":"https://example.com/secret-path","secrets":["whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"]}}`, "trigger", "apply", "-f", "-", "--yes")
	p.must("entity", "erase", "private-name")
	p.must("trigger", "pause", "paid")
	p.refused(1, "forbidden", as(shop, "consume", "orders.new")...)
	waitFor(t, func() bool { return strings.Contains(p.must("audit"), "denied") })
	for range 3 {
		p.run("topic", "list", "--api-key", "wrong-wrong-wrong-wrong")
	}
	waitFor(t, func() bool { return strings.Contains(p.must("audit"), "failed-login") })
	p.must("trigger", "delete", "paid")
	p.must("topic", "delete", "orders.new", "--yes")
	p.must("token", "revoke", "shop")
	all := p.audit()
	check.Equalf(t, all, strings.TrimPrefix(auditLines, "\n"), "seb audit prints")
	if strings.Contains(all, "secret-path") || strings.Contains(all, "whsec") || strings.Contains(all, "private-name") || strings.Contains(all, shop) {
		t.Error("a secret is in the audit topic")
	}
	if got := p.audit("--principal", "shop", "--since", "1h"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "denied") {
		t.Errorf("of the shop: %s", got)
	}
	if got := p.must("audit", "--action", "topic.delete", "--format", "json"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"resource":{"type":"topic","name":"orders.new"},"outcome":"done"`) {
		t.Errorf("as JSON: %s", got)
	}
	check.Equalf(t, p.audit("--since", "2100-01-01T00:00:00Z"), "", "of the future")
	p.refused(2, "--since", "audit", "--since", "soon")
	p.refused(2, "--format", "audit", "--format", "xml")
	p.refused(1, "only Seb writes", "produce", "audit")
	p.refused(1, "--audit-topic", "topic", "delete", "audit", "--yes", "--force")
}

// TestAuditFollows prints a record that comes later.
func TestAuditFollows(t *testing.T) {
	p := newWorkDir(t)
	p.serve("--audit-topic", "changes")
	p.must("topic", "create", "a")
	c := p.command("audit", "--topic", "changes", "--follow")
	f := &running{t: t, cmd: c, done: make(chan struct{})}
	c.Stdout, c.Stderr = &f.out, &f.err
	f.start()
	waitFor(t, func() bool { return strings.Contains(f.out.String(), "topic.create topic a ") })
	p.must("topic", "create", "b")
	waitFor(t, func() bool { return strings.Contains(f.out.String(), "topic.create topic b ") })
	if code := f.term(); code != 0 {
		t.Errorf("exit code %d: %s", code, f.err.String())
	}
}

// TestAuditHint is about auditing when the first token is made without it.
func TestAuditHint(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	for i, id := range []string{"first", "second"} {
		if r := p.run("token", "create", id); strings.Contains(r.err, "hint: ") != (i == 0) || !strings.HasPrefix(r.out, "seb_") {
			t.Errorf("%s token: %s%s", id, r.out, r.err)
		}
	}
	p.refused(1, "--audit-topic", "audit")
	for _, name := range []string{"events", "triggers", "a/b"} {
		if b := p.launch("--http-port", "0", "--data-dir", "other", "--audit-topic", name); b.wait() != 2 || !strings.Contains(b.err.String(), "--audit-topic") {
			t.Errorf("serve --audit-topic %s: %s", name, b.err.String())
		}
	}
}
