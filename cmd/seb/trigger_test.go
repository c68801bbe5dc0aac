package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

func triggered(t *testing.T, b *testBroker, in string, args ...string) ran {
	t.Helper()
	return b.execute(t, newTrigger(), in, args...)
}

// mustTrigger runs a command that must succeed, and returns its output.
func mustTrigger(t *testing.T, c *testBroker, args ...string) string {
	t.Helper()
	r := triggered(t, c, "", args...)
	if r.fault != nil {
		t.Fatalf("%q: %v\n%s", args, r.fault, r.err)
	}
	return r.out
}

// apply stores a trigger of the members after its ID, in YAML.
func apply(t *testing.T, c *testBroker, members string) ran {
	t.Helper()
	r := triggered(t, c, members, "apply", "-f", "-", "--yes")
	if r.fault != nil {
		t.Fatalf("%s: %v\n%s", members, r.fault, r.err)
	}
	return r
}

func happen(t *testing.T, c *testBroker, list ...string) {
	t.Helper()
	for _, e := range list {
		name, entity, _ := strings.Cut(e, " ")
		must.Get(c.ProduceEvent(t.Context(), client.Event{Name: name, EntityID: entity}, client.EventOptions{}))(t)
	}
}

// dryRuns makes dry runs of expressions; u1 has an a, then a b.
func dryRuns(t *testing.T, c *testBroker) {
	t.Helper()
	for text, args := range map[string][]string{
		"firings    1\n":               {"a THEN b"},
		" 1 ########################":  {"a"},
		"u1  a at 2":                   {"a"},
		`"firings": 1`:                 {"b", "--json"},
		"firings    0 from 2100-":      {"a", "--since", "2100-01-01T00:00:00Z"},
		"fired      1 of 1 entities (": {"a", "--since", "1d"},
		"Z\nfired      0 of 0 entit":   {"a", "--until", "1d"},
		"not fired                u1":  {"a THEN b THEN a", "--since", "1d"},
	} {
		if out := mustTrigger(t, c, append([]string{"dry-run"}, args...)...); !strings.Contains(out, text) {
			t.Errorf("%q: %q is missing in\n%s", args, text, out)
		}
	}
	if r := triggered(t, c, "", "dry-run", "a", "--sample", "0"); r.fault == nil || !strings.Contains(r.fault.Error(), "--sample: want a number from 1 on, given 0") {
		t.Errorf("%+v", r)
	}
}

func TestCommandsOfATrigger(t *testing.T) {
	c := newTestBroker(t)
	if r := apply(t, c, "{id: ab, expr: a THEN b, fire: edge, cooldown: 2 h, deliver: {topic: mails}}"); r.err != "trigger ab stored as version 1\n" {
		t.Fatalf("%+v", r)
	}
	if r := apply(t, c, `{"id":"open","expr":{"then":[{"event":"a"},{"not":{"event":"c"}}]}}`); !strings.Contains(r.err, "warning: NOT without WITHIN") {
		t.Errorf("%+v", r)
	}
	const brackets = "warning: AND binds more strongly than THEN: this is read as a THEN ((NOT (a WITHIN 3d)) AND b); if that is not meant, " +
		"write (a THEN (NOT (a WITHIN 3d))) AND b\n"
	if r := apply(t, c, "{id: read, expr: a THEN (NOT a WITHIN 3d) AND b}"); !strings.Contains(r.err, brackets) {
		t.Errorf("%+v", r)
	}
	if r := triggered(t, c, "", "dry-run", "read"); r.fault != nil || !strings.Contains(r.out, brackets) {
		t.Errorf("%+v", r)
	}
	apply(t, c, "{id: often, expr: count(a) >= 3}")
	apply(t, c, "{id: absent, expr: a THEN (NOT c WITHIN 5 days)}")
	happen(t, c, "a u1", "b u1")
	fires := ""
	sebtest.Eventually(t, "u1 is listed", func() bool {
		fires = mustTrigger(t, c, "fires", "ab")
		return strings.Contains(fires, "u1")
	})
	list, _, err := c.Firings(t.Context(), client.FiringQuery{Trigger: "ab"})
	if err != nil || len(list) != 1 || !strings.Contains(fires, list[0].ID) || !strings.HasPrefix(fires, "SEQ  AT ") {
		t.Fatalf("%s, %+v, %v", fires, list, err)
	}
	for text, args := range map[string][]string{
		"a THEN b":                                     {"list"},
		" 2h\nbackfill ":                               {"show", "ab"},
		"1 in 24 hours, 1 in 7 days":                   {"show", "ab"},
		"24H  7D  PENDING":                             {"list", "--counts"},
		`"text": "a THEN b"`:                           {"show", "ab", "--json"},
		`{"topic":"mails"}`:                            {"show", "ab"},
		"value  true":                                  {"explain", "ab", "u1"},
		"fired  2":                                     {"explain", "ab", "u1"},
		"  b  true   makes it true\n":                  {"explain", "ab", "u1"},
		"why            a at 2":                        {"explain", "absent", "u1"},
		"other events  b (1), not in":                  {"explain", "often", "u1"},
		"must not come  c, until 2":                    {"explain", "absent", "u1"},
		"must come     count(a) >= 3, 1 of 3 so far\n": {"explain", "often", "u1"},
		`"known": false`:                               {"explain", "ab", "u2", "--json"},
		`"event": "b"`:                                 {"firing", list[0].ID},
		`"trigger":"ab"`:                               {"fires", "--json", "--limit", "2000"},
		list[0].ID + "\n":                              {"fires", "ab", "--newest", "--entity", "u1", "--before", "9"},
		`"trigger": "ab"`:                              {"firing", list[0].ID},
		"sample     one of 2 entities":                 {"dry-run", "a", "--sample", "2"},
		"":                                             {"pause", "ab"},
	} {
		if out := mustTrigger(t, c, args...); !strings.Contains(out, text) {
			t.Errorf("%q: %q is missing in\n%s", args, text, out)
		}
	}
	dryRuns(t, c)
	for _, args := range [][]string{{"--state", "dead"}, {"--entity", "u2"}, {"--newest", "--before", "1"}} {
		if out := mustTrigger(t, c, append([]string{"fires", "ab"}, args...)...); strings.Contains(out, list[0].ID) {
			t.Errorf("%q: %s", args, out)
		}
	}
	check.Contains(t, mustTrigger(t, c, "list"), "paused")
	mustTrigger(t, c, "resume", "ab")
	mustTrigger(t, c, "resend", list[0].ID)
	mustTrigger(t, c, "delete", "ab")
	if r := triggered(t, c, "", "show", "ab"); !errors.Is(r.fault, client.ErrUnknownTrigger) {
		t.Errorf("%+v", r)
	}
}

// TestDryRunOfATrigger: an ID runs the trigger; the same name in quotes is an event.
func TestDryRunOfATrigger(t *testing.T) {
	c := newTestBroker(t)
	apply(t, c, "{id: no-x, expr: a THEN b, fire: edge}")
	apply(t, c, `{"id":"form","expr":{"then":[{"event":"a"},{"event":"b"}]},"fire":"edge"}`)
	happen(t, c, "a u1", "b u1", "a u1", "b u1")
	const unknown = "no trigger has the id %s: evaluated as the name of an event\n"
	for arg, want := range map[string]ran{
		"no-x":   {out: "of which 4 matter", err: "trigger no-x, version 1: a THEN b\n"},
		"form":   {out: "of which 4 matter", err: "trigger form, version 1: "},
		`"no-x"`: {out: "of which 0 matter"},
		"a":      {out: "of which 2 matter", err: fmt.Sprintf(unknown, "a")},
		"no-y":   {out: "of which 0 matter", err: fmt.Sprintf(unknown, "no-y")},
	} {
		r := triggered(t, c, "", "dry-run", arg)
		if r.fault != nil || !strings.Contains(r.out, want.out) || !strings.HasPrefix(r.err, want.err) || want.err == "" && r.err != "" {
			t.Errorf("%s: %+v, want %+v", arg, r, want)
		}
	}
}

// TestFiringsThatAreHeldSayUntilWhen: a held firing shows the end of quiet hours, or the pause.
func TestFiringsThatAreHeldSayUntilWhen(t *testing.T) {
	c := newTestBroker(t)
	now := time.Now().UTC()
	end := now.Add(2 * time.Hour).Truncate(time.Minute)
	quiet := fmt.Sprintf(`{"id":"night","expr":"a","deliver":{"topic":"mails","quiet_hours":{"from":%q,"to":%q,"zone":"UTC"}}}`, now.Add(-2*time.Hour).Format("15:04"), end.Format("15:04"))
	apply(t, c, quiet)
	happen(t, c, "a u1")
	var list []client.Firing
	sebtest.Eventually(t, "a firing is pending", func() bool {
		var err error
		if list, _, err = c.Firings(t.Context(), client.FiringQuery{}); err != nil {
			t.Fatal(err)
		}
		return len(list) > 0 && list[0].State == "pending"
	})
	one := must.Get(c.Firing(t.Context(), list[0].ID))(t)
	x, err := c.Explain(t.Context(), "night", "u1")
	if err != nil || len(x.Firings) != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	for _, f := range []client.Firing{list[0], one, x.Firings[0]} {
		if !f.NextAttempt.Equal(end) || f.Held != "quiet_hours" {
			t.Errorf("held until %v (%s), want %v", f.NextAttempt, f.Held, end)
		}
	}
	if out, want := mustTrigger(t, c, "explain", "night", "u1"), "pending, after quiet hours at "+end.Format("2006-01-02T15:04:05Z"); !strings.Contains(out, want) {
		t.Errorf("%q is missing in\n%s", want, out)
	}
	mustTrigger(t, c, "pause", "night")
	if one, err = c.Firing(t.Context(), list[0].ID); err != nil || one.Held != "paused" || !one.NextAttempt.IsZero() {
		t.Errorf("%+v, %v", one, err)
	}
	check.Contains(t, mustTrigger(t, c, "fires"), "pending, until the trigger is resumed")
}

func TestApplyKeepsADelivery(t *testing.T) {
	c := newTestBroker(t)
	apply(t, c, "{id: t, expr: a, deliver: {topic: mails}}")
	const changed = "~ t\n    - expr: a\n    + expr: a THEN b\n"
	if r := apply(t, c, "{id: t, expr: a THEN b, keep_deliver: true}"); r.out != changed {
		t.Errorf("%s, want %s", r.out, changed)
	}
	if got, err := c.Trigger(t.Context(), "t"); err != nil || got.Text != "a THEN b" || string(got.Deliver) != `{"topic":"mails"}` {
		t.Errorf("%+v, %v", got, err)
	}
	r := triggered(t, c, "{id: new, expr: a, keep_deliver: true}", "apply", "-f", "-", "--yes")
	if r.fault == nil || !strings.Contains(r.fault.Error(), `keep_deliver: no trigger "new"`) {
		t.Errorf("%+v", r)
	}
}

// TestApplyKeepsTheChangeOfAnother: what another client stores after the differences were shown stays.
func TestApplyKeepsTheChangeOfAnother(t *testing.T) {
	c := newTestBroker(t)
	apply(t, c, "{id: t, expr: a}")
	dir := t.TempDir()
	writeFile(t, dir, "t.yaml", "expr: b\n")
	cmd := newTrigger()
	cmd.SetContext(t.Context())
	p := planOf(must.Get(readTriggers(cmd, []string{dir}))(t), must.Get(c.Triggers(t.Context()))(t), false)
	must.Get(c.PutTrigger(t.Context(), "t", client.TriggerSpec{Expr: "c"}))(t)
	err := p.do(cmd, c.Client)
	if got := must.Get(c.Trigger(t.Context(), "t"))(t); got.Text != "c" || !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFaultyExpressionsShowTheCaret(t *testing.T) {
	c := newTestBroker(t)
	dir := t.TempDir()
	writeFile(t, dir, "bad.yaml", "expr: |\n  a\n  THEN (b WITHIN 2 parsecs)\n")
	const shown = "THEN (b WITHIN 2 parsecs)\n               ^\n"
	for _, args := range [][]string{
		{"dry-run", "a\nTHEN (b WITHIN 2 parsecs)"},
		{"dry-run", "-f", filepath.Join(dir, "bad.yaml")},
		{"apply", "-f", dir, "--yes"},
	} {
		if r := triggered(t, c, "", args...); r.fault == nil || r.err != shown || !strings.Contains(r.fault.Error(), "unknown unit 'parsecs'") {
			t.Errorf("%q: %v\n%s", args, r.fault, r.err)
		}
	}
	for text, args := range map[string][]string{
		"give an expression, or a file": {"dry-run"},
		"not both":                      {"dry-run", "a", "-f", "x"},
		"--fire: cannot be combined":    {"dry-run", "-f", "x", "--fire", "edge"},
		"stdin cannot confirm":          {"apply", "-f", "-"},
		"--limit: 0, want 1 or more":    {"fires", "--limit", "0"},
		"--after: -1, want 0 or more":   {"fires", "--after", "-1"},
		"--before: -1, want 0 or more":  {"fires", "--before", "-1"},
		"ENTITY: must not be empty":     {"explain", "x", ""},
		"ENTITY: .. cannot be part":     {"explain", "x", ".."},
		"-f is required":                {"apply"},
	} {
		r := triggered(t, c, "", args...)
		if _, ok := errors.AsType[usageError](r.fault); !ok || !strings.Contains(r.fault.Error(), text) {
			t.Errorf("%q: %v", args, r.fault)
		}
	}
}

func TestApply(t *testing.T) {
	c := newTestBroker(t)
	t.Setenv("HOOK_SECRET", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0")
	dir := t.TempDir()
	writeFile(t, dir, "one.yaml", "expr: a THEN b\n")
	writeFile(t, dir, "two.yml", "# with a secret\nid: second\nexpr:\n  then: [{event: a}, {not: {within: {event: b}, for: 7 days}}]\nfire: edge\ncooldown: 24h\ndeliver:\n  url: https://example.com/hook\n  secrets: [\"${HOOK_SECRET}\"]\n")
	writeFile(t, dir, "three.json", `{"expr":"c","carry_fired":false}`)
	writeFile(t, dir, "README.md", "no trigger")
	apply(t, c, "{id: other, expr: x}")

	if r := triggered(t, c, "", "apply", "-f", dir); r.fault == nil || r.fault.Error() != "canceled: nothing was changed" || !strings.Contains(r.err, "[y/N]") {
		t.Errorf("%+v", r)
	}
	const first = `+ one: new
    + expr: a THEN b
? other: no file; --prune deletes it
+ second: new
    + expr: a THEN (NOT (b WITHIN 7d))
    + fire: edge
    + cooldown: 1d
    + deliver.secrets: ["whsec_***"]
    + deliver.url: https://example.com/hook
+ three: new
    + expr: c
    + carry_fired: false
`
	check.Equal(t, mustTrigger(t, c, "apply", "-f", dir, "--diff"), first)
	if r := triggered(t, c, "y\n", "apply", "-f", dir); r.fault != nil || r.out != first || !strings.Contains(r.err, "trigger three stored as version 1\n") {
		t.Errorf("%+v", r)
	}
	// Now only the secrets may differ, because the broker does not reveal them.
	if out := mustTrigger(t, c, "apply", "-f", dir, "--yes"); !strings.Contains(out, "= one: unchanged\n") ||
		!strings.Contains(out, "= second: unchanged, except possibly") || !strings.Contains(out, "= three: unchanged\n") {
		t.Error(out)
	}
	mustTrigger(t, c, "pause", "one")
	writeFile(t, dir, "one.yaml", "expr: b THEN a\nbackfill: none\n")
	must.NoError(t, os.Remove(filepath.Join(dir, "three.json")))
	r := triggered(t, c, "", "apply", "-f", dir, "--yes", "--prune")
	for _, text := range []string{
		"~ one\n    - expr: a THEN b\n    + expr: b THEN a\n    - backfill: silent\n    + backfill: none\n", "- other: deleted\n", "- three: deleted\n",
	} {
		if r.fault != nil || !strings.Contains(r.out, text) {
			t.Errorf("%q is not in %s, %v", text, r.out, r.fault)
		}
	}
	list, err := c.Triggers(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "one" || list[0].Version != 2 || list[0].Status != "paused" || list[1].ID != "second" || list[1].Version != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestInvalidTriggerFiles(t *testing.T) {
	c := newTestBroker(t)
	for name, text := range map[string]string{
		"unknown.yaml": "expr: a\ncolour: red\n", "two.yaml": "expr: a\n---\nexpr: b\n", "none.json": "{}", "list.yaml": "- a\n", "type.json": `{"expr":"a","fire":1}`,
		"pointer.yaml": "expr: {then: [{event: a}, {x: 1}]}\n", "secret.yaml": "expr: a\ndeliver: {url: https://e.com, secrets: [\"${NO_SUCH_SECRET}\"]}\n",
		"deliver.yaml": "expr: a\ndeliver: x\n", "large.json": strings.Repeat(" ", 1<<20+1),
		"empty.yaml": "", "twice.yaml": "expr: a\nexpr: b\n", "id.yaml": "id: a/b\nexpr: a\n", "fires.yaml": "expr: a\nfire: twice\n", "true.yaml": "expr: NOT a\n",
		"cooldown.yaml": "expr: a\nfire: edge\ncooldown: soon\n", "topic.yaml": "expr: a\ntopic: a b\n",
		"both.yaml": "expr: a\ndeliver: {url: 'ftp://e.com', secrets: [swordfish]}\n", "member.yaml": "expr: a\ndeliver: {topic: t, colour: red}\n",
	} {
		dir := t.TempDir()
		writeFile(t, dir, name, text)
		want := map[string]string{
			"unknown.yaml": "colour: unknown member", "two.yaml": "more than one document", "none.json": "expr: missing", "list.yaml": "cannot unmarshal !!seq",
			"type.json": "fire: want a string, given a JSON number", "pointer.yaml": "expr: /then/1/x: ", "secret.yaml": "not set in the environment: ${NO_SUCH_SECRET}", "deliver.yaml": "want an object",
			"large.json": "more than 1048576 bytes", "empty.yaml": "the file has no trigger", "twice.yaml": `mapping key "expr" already defined`,
			"id.yaml": `id: "a/b" must have`, "fires.yaml": `fire: invalid mode "twice"`, "true.yaml": "is true before anything has happened",
			"cooldown.yaml": "cooldown: expected a duration", "topic.yaml": `topic: topic name "a b"`, "member.yaml": "deliver: colour: unknown member",
			"both.yaml": "deliver: url: want https:// or http://; secrets: number 1 does not begin",
		}[name]
		writeFile(t, dir, "0.yaml", "expr: a\n")
		r := triggered(t, c, "", "apply", "-f", dir, "--yes")
		if r.fault == nil || !strings.Contains(r.fault.Error(), name) || !strings.Contains(r.fault.Error(), want) || r.out != "" || strings.Contains(r.fault.Error(), "swordfish") {
			t.Errorf("%s: %v", name, r.fault)
		}
		if list, err := c.Triggers(t.Context()); err != nil || len(list) != 0 {
			t.Fatalf("%s: the others were stored: %+v, %v", name, list, err)
		}
	}
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", "expr: a\n")
	writeFile(t, dir, "b.yaml", "id: a\nexpr: b\n")
	if r := triggered(t, c, "", "apply", "-f", dir, "--yes"); r.fault == nil || !strings.Contains(r.fault.Error(), "b.yaml: id a is also that of") {
		t.Errorf("%v", r.fault)
	}
	if r := triggered(t, c, "", "apply", "-f", t.TempDir()); r.fault == nil || !strings.Contains(r.fault.Error(), "no .yaml, .yml or .json files") {
		t.Errorf("%v", r.fault)
	}
	// An error that only the broker finds stops the remaining changes; the message has the
	// progress.
	writeFile(t, dir, "b.yaml", "id: b\nexpr: b\ntopic: triggers\n")
	r := triggered(t, c, "", "apply", "-f", dir, "--yes")
	if r.fault == nil || !strings.HasPrefix(r.fault.Error(), "trigger b, after 1 of 2: bad request: topic: topic \"triggers\" does not hold") {
		t.Errorf("%v", r.fault)
	}
	if list, err := c.Triggers(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestUnknownTriggersAndFirings(t *testing.T) {
	c := newTestBroker(t)
	for _, args := range [][]string{
		{"show", "nope"},
		{"delete", "nope"},
		{"pause", "nope"},
		{"resume", "nope"},
		{"explain", "nope", "u1"},
		{"fires", "nope"},
		{"fires", "nope", "--json"},
	} {
		r := triggered(t, c, "", args...)
		if !errors.Is(r.fault, client.ErrUnknownTrigger) || r.out != "" || strings.Count(r.fault.Error(), "unknown trigger") != 1 || !strings.Contains(r.fault.Error(), `"nope"`) {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, id := range []string{"nope", strings.Repeat("0", 32)} {
		for _, command := range []string{"firing", "resend"} {
			if r := triggered(t, c, "", command, id); !errors.Is(r.fault, client.ErrUnknownFiring) {
				t.Errorf("%s %s: %+v", command, id, r)
			}
		}
	}
	if r := triggered(t, c, "", "dry-run", "a"); r.fault == nil || !strings.Contains(r.fault.Error(), "topic \"events\" does not exist yet: the first event creates it") {
		t.Errorf("%+v", r)
	}
	// A trigger without firings is valid, and so are firings of a deleted trigger.
	apply(t, c, "{id: a, expr: a}")
	if out := mustTrigger(t, c, "fires", "a"); !strings.HasPrefix(out, "SEQ ") {
		t.Error(out)
	}
	if r := triggered(t, c, "", "fires", "nope", "--after", "7"); r.fault != nil {
		t.Errorf("%+v", r)
	}
}

func TestSecret(t *testing.T) {
	one, other := execute(t, newTrigger(), "", "secret"), execute(t, newTrigger(), "", "secret")
	if _, err := webhook.ParseSecret(strings.TrimSpace(one.out)); err != nil || one.out == other.out {
		t.Errorf("%v, %+v, %+v", err, one, other)
	}
}

func TestApplyShowsDeliveriesByMember(t *testing.T) {
	c := newTestBroker(t)
	t.Setenv("HOOK_SECRET", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0")
	dir := t.TempDir()
	const file = "expr: a\ndeliver:\n  url: https://example.com/hook\n  secrets: [\"${HOOK_SECRET}\"]\n  content_type: text/plain\n  template: |\n    Hello {{.Entity}},\n    %s\n"
	writeFile(t, dir, "m.yaml", fmt.Sprintf(file, "welcome."))
	const first = `+ m: new
    + expr: a
    + deliver.content_type: text/plain
    + deliver.secrets: ["whsec_***"]
    + deliver.template:
    +   Hello {{.Entity}},
    +   welcome.
    + deliver.url: https://example.com/hook
`
	check.Equal(t, mustTrigger(t, c, "apply", "-f", dir, "--yes"), first)
	writeFile(t, dir, "m.yaml", fmt.Sprintf(file, "goodbye."))
	const second = `~ m
    - deliver.template:
    -   Hello {{.Entity}},
    -   welcome.
    + deliver.template:
    +   Hello {{.Entity}},
    +   goodbye.
`
	check.Equal(t, mustTrigger(t, c, "apply", "-f", dir, "--yes"), second)
	if out := mustTrigger(t, c, "apply", "-f", dir, "--yes"); !strings.HasPrefix(out, "= m: unchanged, except possibly its secrets") {
		t.Error(out)
	}
	writeFile(t, dir, "m.yaml", "expr: a\n")
	const third = `~ m
    - deliver.content_type: text/plain
    - deliver.secrets: ["whsec_***"]
    - deliver.template:
    -   Hello {{.Entity}},
    -   goodbye.
    - deliver.url: https://example.com/hook
`
	check.Equal(t, mustTrigger(t, c, "apply", "-f", dir, "--yes"), third)
}

func TestYAMLKeepsNumbersAndDates(t *testing.T) {
	const numbers = "expr: {event: a, where: {or: [{property: id, is: =, value: %s}, {property: id, is: =, value: &same %s}, {property: b, is: <, value: *same}]}}\n"
	for _, n := range []string{"12345678901234567891", "123456789012345678901234567891", "-123456789012345678901", "0.12345678901234567891", "1e+400", "12"} {
		var spec trigger
		must.NoError(t, spec.parse(fmt.Appendf(nil, numbers, n, n), false))
		want := fmt.Sprintf("a[id = %s OR id = %s OR b < %s]", n, n, n)
		if e := must.Get(driplang.ParseJSON(spec.Expr))(t); e.String() != want {
			t.Errorf("the expression is %s, want %s", e, want)
		}
	}
	var spec trigger
	must.NoError(t, spec.parse([]byte("expr: {event: a, where: {property: day, is: <, value: 2024-05-31}}\n"), false))
	check.Equalf(t, string(spec.Expr), `{"event":"a","where":{"is":"\u003c","property":"day","value":"2024-05-31"}}`, "a date in YAML")
}

// TestFoldersWithOtherFiles: the locks, copies and drafts of editors and operating systems are no
// triggers, and files of Windows editors are read.
func TestFoldersWithOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"one.yaml": "\ufeffexpr: a THEN b\r\nfire: edge\r\n", "two.json": "\ufeff{\"expr\":\"a THEN b\"}", "three.yml": "expr: a THEN b",
		"._one.yaml": "\x00\x05\x16\x07", ".one.yaml.swp": "b0VIM", "#one.yaml#": "expr: (", "one.yaml~": "expr: (", "~$two.json": "x", ".hidden.yaml": "expr: (",
		"notes.txt": "x",
	} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.NoError(t, os.Symlink("user@host.1234:1", filepath.Join(dir, ".#one.yaml"))) // a lock of Emacs
	must.NoError(t, os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700))
	list := must.Get(readTriggers(newTrigger(), []string{dir}))(t)
	var ids []string
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	check.Equalf(t, strings.Join(ids, " "), "one three two", "triggers")

	for name, want := range map[string]string{
		"utf16.yaml\xff\xfee\x00x\x00": "the text is UTF-16: convert it to UTF-8", "utf16.json\x00{\x00}": "the text is UTF-16: convert it to UTF-8",
		"latin.yaml\xe9": "not valid UTF-8", "twice.yaml" + "expr: a\nfire: once\nfire: edge\n": `mapping key "fire" already defined`,
		"deep.yaml" + "expr: a\ndeliver: {topic: x, topic: y}\n": `mapping key "topic" already defined`,
		"twice.json" + `{"expr":"a","expr":"b"}`:                 "expr: given twice", "deep.json" + `{"expr":"a","deliver":{"topic":"x","topic":"y"}}`: "deliver.topic: given twice",
		"case.yaml" + "Expr: a\n": "Expr: unknown member; want expr", "case.json" + `{"expr":"a","deliver":{"Topic":"x"}}`: "deliver: Topic: unknown member; want topic",
		"yaml.json" + "expr: a\n": "line 1, column 1: invalid character 'e'", "two.json" + `{"expr":"a"}{}`: "more than one JSON value",
		"half.json" + `{"expr":"\ud800"}`: "expr: half of a surrogate pair", "large.yaml" + strings.Repeat("#", triggerFileMax+1): "more than 1048576 bytes",
	} {
		cut := strings.IndexByte(name, '.') + len(".yaml")
		name, text := name[:cut], name[cut:]
		file := filepath.Join(t.TempDir(), name)
		must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := readTrigger(nil, file)
		if spec, err2 := readTrigger(nil, file); err2 == nil {
			err = spec.check()
		}
		if err == nil || !strings.Contains(err.Error(), want) || name != "case.json" && !strings.HasPrefix(strings.TrimPrefix(err.Error(), "--file: "), file+": ") {
			t.Errorf("%s %.40q: %v, want %q", name, text, err, want)
		}
	}
}
