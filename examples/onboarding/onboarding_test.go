package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnboarding runs a small month with real processes and real kills.
func TestOnboarding(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a month takes a quarter of a minute")
	}
	var out bytes.Buffer
	o := options{users: 300, seed: 1, day: 400 * time.Millisecond, dir: t.TempDir(), triggers: "triggers"}
	rep, err := run(t.Context(), &o, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	rep.print(&out)
	t.Log(out.String())
	if !rep.ok() {
		t.Error("mails differ from the definitions of the triggers")
	}
	for _, x := range rep.rows {
		if x.sent == 0 {
			t.Errorf("trigger %s sent no mail", x.trigger)
		}
	}
}

// TestComparisonFindsErrors: the comparison finds each kind of error in a mailbox.
func TestComparisonFindsErrors(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	one := sent{ID: "1", SentAt: at.Add(time.Second), Trigger: "a", State: "fired", Entity: "u", At: at}
	two := sent{ID: "2", SentAt: at.Add(time.Second), Trigger: "b", State: "fired", Entity: "u", At: at}
	back := sent{ID: "2-retracted", SentAt: at.Add(3 * time.Second), Trigger: "b", State: "retracted", Entity: "u", At: at.Add(2 * time.Second)}
	over := back.mail()
	want := map[mail]*mail{one.mail(): nil, two.mail(): &over}
	rules := []rule{{id: "a"}, {id: "b"}}
	nothing, undelivered := map[mail]bool{}, map[mail]bool{two.mail(): true}
	with := func(s sent, change func(*sent)) sent {
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		got         []sent
		undelivered map[mail]bool
		want        string // missing, extra, early
	}{
		"correct":                       {[]sent{one, two, back}, nothing, "ok"},
		"neither was sent":              {[]sent{one}, undelivered, "ok"},
		"none":                          {nil, nothing, "missing"},
		"one is missing":                {[]sent{two, back}, nothing, "missing"},
		"a pair is missing":             {[]sent{one}, nothing, "missing"},
		"not retracted":                 {[]sent{one, two}, nothing, "missing"},
		"retraction without its firing": {[]sent{one, back}, undelivered, "missing"},
		"the same again":                {[]sent{one, one, two, back}, nothing, "extra"},
		"twice":                         {[]sent{one, with(one, func(s *sent) { s.ID = "3" }), two, back}, nothing, "extra"},
		"of an unknown user":            {[]sent{one, two, back, with(one, func(s *sent) { s.ID, s.Entity = "3", "v" })}, nothing, "extra"},
		"of an unknown trigger":         {[]sent{one, two, back, with(one, func(s *sent) { s.ID, s.Trigger = "3", "c" })}, nothing, "extra"},
		"at another instant":            {[]sent{with(one, func(s *sent) { s.At = at.Add(time.Millisecond) }), two, back}, nothing, "missing"},
		"early":                         {[]sent{with(one, func(s *sent) { s.SentAt = at.Add(-time.Millisecond) }), two, back}, nothing, "early"},
	} {
		rep := compared(rules, want, c.got, c.undelivered, &processes{})
		all := rep.rows[len(rep.rows)-1]
		found := map[string]int{"missing": all.missing, "extra": all.extra, "early": all.early}
		if rep.ok() != (c.want == "ok") || c.want != "ok" && found[c.want] == 0 {
			t.Errorf("%s: %+v", name, *all)
		}
		var out strings.Builder
		rep.print(&out)
		if !rep.ok() && len(rep.notes) == 0 && all.sent > 0 {
			t.Errorf("%s: the report has no note\n%s", name, out.String())
		}
	}
}
