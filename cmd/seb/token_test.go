package main_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

// tokens starts a broker with a topic orders.new, to which a shop has written "one", a report that may
// read it, and a topic secret.
func tokens(t *testing.T) (p *workDir, b *running, shop, report string) {
	p = newWorkDir(t)
	b = p.serve()
	p.must("topic", "create", "orders.new")
	p.must("topic", "create", "secret")
	shop = p.token("create", "shop", "--write", "orders.*", "--expires", "30d")
	report = p.token("create", "report", "--read", "orders.*", "--groups", "report-*")
	p.mustWith("one\n", as(shop, "produce", "orders.new")...)
	return p, b, shop, report
}

// token runs a command that prints a token.
func (p *workDir) token(args ...string) string {
	p.t.Helper()
	out := p.must(append([]string{"token"}, args...)...)
	if !strings.HasPrefix(out, "seb_") || strings.Count(out, "\n") != 1 {
		p.t.Fatalf("seb token %v prints %q", args, out)
	}
	return strings.TrimSpace(out)
}

// as adds a key to the arguments of a command.
func as(key string, args ...string) []string { return append(args, "--api-key", key) }

// TestTokens: rules act on a shop that writes and a report that reads.
func TestTokens(t *testing.T) {
	p, _, shop, report := tokens(t)
	check.Equalf(t, p.must(as(report, "consume", "orders.new", "--group", "report-1")...), "one\n", "the report reads")
	for _, args := range [][]string{
		as(shop, "consume", "orders.new"), as(report, "consume", "secret"), as(report, "topic", "delete", "orders.new", "--yes"),
		as(shop, "token", "create", "more"), as(report, "consume", "orders.new", "--group", "other"),
	} {
		p.refused(1, "forbidden", args...)
	}
	unknown, hidden := p.run(as(report, "consume", "missing")...), p.run(as(report, "consume", "secret")...)
	if strings.ReplaceAll(unknown.err, "missing", "secret") != hidden.err {
		t.Errorf("an unknown topic: %s\na hidden topic: %s", unknown.err, hidden.err)
	}
	if got := p.must(as(report, "topic", "list")...); strings.Contains(got, "secret") || !strings.Contains(got, "orders.new") {
		t.Errorf("topics of the report: %s", got)
	}
	p.refused(1, "check digits", as(shop[:len(shop)-1]+"!", "topic", "list")...)

	p.must("acl", "allow", "report", "read", "topic", "secret")
	p.must(as(report, "consume", "secret")...)
	p.must("acl", "deny", "*", "read", "topic", "secret")
	p.refused(1, "forbidden", as(report, "consume", "secret")...)
	if got := p.must("acl", "list", "--resource", "topic", "--pattern", "secret"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "deny read on topic secret") {
		t.Errorf("rules: %s", got)
	}
	p.must("acl", "remove", "--principal", "*", "--yes")
	p.must(as(report, "consume", "secret")...)
	viewer := p.token("create", "ann", "--preset", "viewer")
	p.must(as(viewer, "consume", "orders.new")...)
	p.refused(1, "forbidden", as(viewer, "topic", "delete", "orders.new", "--yes")...)
}

func TestTokenErrors(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("token", "create", "a", "--cluster", "--read", "x*", "--expires", "1h")
	for want, args := range map[string][]string{
		"exists":                          {"token", "create", "a"},
		"want 1 to 64 of a-z":             {"token", "create", "A_b"},
		"--expires":                       {"token", "create", "b", "--expires", "soon"},
		"unknown token":                   {"token", "revoke", "missing"},
		"a/b":                             {"token", "create", "b", "--read", "a/b"},
		"a beginning of names":            {"acl", "allow", "a", "read", "topic", "**"},
		"want one of":                     {"acl", "allow", "a", "fly", "topic", "t"},
		"resource type":                   {"acl", "allow", "a", "read", "planet", "t"},
		"did you mean \"seb token create": {"key", "create", "x"},
		"at least one flag":               {"acl", "remove", "--yes"},
		"want viewer or operator":         {"token", "create", "b", "--preset", "admin"},
	} {
		if got := p.run(args...); got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("seb %q: exit code %d, %s; want %q", args, got.code, got.err, want)
		}
	}
	if got := p.must("token", "list"); strings.Count(got, "\n") != 2 {
		t.Errorf("tokens: %s", got)
	}
}
