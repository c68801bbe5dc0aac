package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// running returns an engine with its own goroutine. Its clock is the log's, which the test moves.
func running(t testing.TB, b *fakeBroker, path string) *Engine {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "triggers.db")
	}
	e := must.Get(Open(t.Context(), Options{
		Path: path, Log: b, Now: b.now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Sizes: &small, EventPartitions: 2,
	}))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

func newDefinition(t testing.TB, id, expr string) rule.Definition {
	t.Helper()
	x := must.Get(driplang.Parse(expr))(t)
	return rule.Definition{ID: id, Text: expr, Expr: x, CarryFired: true}
}

func put(t testing.TB, e *Engine, d rule.Definition) Put {
	t.Helper()
	p := must.Get(e.Put(t.Context(), d, nil))(t)
	return p
}

// until polls for a condition that another goroutine meets.
func until(t testing.TB, e *Engine, f func() bool) {
	t.Helper()
	for end := time.Now().Add(sebtest.Limit); !f(); {
		if time.Now().After(end) {
			t.Fatal("timeout")
		}
		select {
		case <-e.Changed():
		case <-time.After(time.Millisecond):
		}
		e.follower.loop.Wake()
	}
}

func states(t testing.TB, e *Engine) (list []string) {
	t.Helper()
	all, err := e.Firings(t.Context(), FiringQuery{Limit: LimitMax})
	if err != nil && !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	for _, x := range all {
		list = append(list, fmt.Sprintf("%s %d %s %s", x.Trigger, x.Version, x.Entity, x.State))
	}
	return list
}

func TestInvalidArguments(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	must.NoError(t, b.Create(t.Context(), "old", 1, nil))
	for _, c := range []struct {
		want   string
		change func(d *rule.Definition)
	}{
		{"is true before anything has happened", func(d *rule.Definition) { d.Expr, _ = driplang.Parse("NOT A") }},
		{"expr: missing", func(d *rule.Definition) { d.Expr = driplang.Expr{} }},
		{"fire:", func(d *rule.Definition) { d.Fire = "twice" }},
		{"cooldown: requires fire", func(d *rule.Definition) { d.Cooldown = 1 }},
		{"cooldown: -1 ms", func(d *rule.Definition) { d.Cooldown, d.Fire = -1, rule.OnEdge }},
		{"backfill:", func(d *rule.Definition) { d.Backfill = "some" }},
		{"on_retract:", func(d *rule.Definition) { d.OnRetract = "forget" }},
		{"on_retract: excludes fire reset", func(d *rule.Definition) { d.OnRetract, d.Fire = rule.Notify, rule.OnReset }},
		{"status:", func(d *rule.Definition) { d.Status = "asleep" }},
		{"id:", func(d *rule.Definition) { d.ID = "a b" }},
		{"deliver is not JSON", func(d *rule.Definition) { d.Deliver = []byte("{") }},
		{"deliver: 300000 bytes", func(d *rule.Definition) { d.Deliver = make([]byte, 300_000) }},
		{"timestamp-type=append", func(d *rule.Definition) { d.Topic = "old" }},
		{"does not hold events", func(d *rule.Definition) { d.Topic = "firings" }},
	} {
		d := newDefinition(t, "t", "A")
		c.change(&d)
		if _, err := e.Put(t.Context(), d, nil); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	for _, a := range []Attempt{{State: "well"}, {State: rule.Dead, Outcome: []byte("{")}, {State: rule.Dead, Outcome: make([]byte, 20_000)}} {
		check.ErrorIsf(t, e.Report(t.Context(), rule.ID{1}, a), ErrInvalid, "outcome of %d bytes, state %s", len(a.Outcome), a.State)
	}
	put(t, e, newDefinition(t, "t", "A")) // creates the topics
	check.ErrorIs(t, e.Resend(t.Context(), rule.ID{1}), ErrUnknownFiring)
	b.takeOver(b.broker(false))
	check.ErrorIs(t, check.Err(e.Put(t.Context(), newDefinition(t, "t", "A"), nil)), ErrNotLeader)
}

func TestExplainDryRunAndErase(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	put(t, e, newDefinition(t, "week", "signup THEN (NOT use WITHIN 7 days)"))
	b.post(ev("bob", "signup"), ev("bob", "use")) // in one batch: without a state between them
	b.post(ev("ann", "signup"))
	explain := func(entity string) Explanation {
		x := must.Get(e.Explain(t.Context(), "week", entity))(t)
		return x
	}
	until(t, e, func() bool { return explain("ann").Known && e.Lag() == 0 })
	week := (7 * day).Milliseconds()
	if x := explain("ann"); x.Next != start+week || x.True || x.Completed || fmt.Sprint(x.MustCome, x.MustNotCome) != "[] [use]" ||
		x.Waits != "it becomes true at 1970-01-08T00:16:40Z unless use comes before" {
		t.Errorf("%+v", x)
	}
	if x := explain("bob"); x.Known { // no state is left
		t.Errorf("%+v", x)
	}
	if x := explain("zoe"); x.Known || fmt.Sprint(x.MustCome, x.MustNotCome) != "[signup] []" ||
		x.Waits != "it waits for signup" {
		t.Errorf("%+v", x)
	}
	if _, err := e.DryRun(t.Context(), newDefinition(t, "", "signup"), dryLimit(100)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "than 100 bytes") {
		t.Error(err)
	}
	run, err := e.DryRun(t.Context(), newDefinition(t, "", "signup"), dryLimit(1<<20))
	if err != nil || run.Firings != 2 || run.Events != 3 || run.Matched != 2 || run.Days["1970-01-01"] != 2 || len(run.Samples) != 2 {
		t.Errorf("%+v, %v", run, err)
	}
	if run, err = e.DryRun(t.Context(), newDefinition(t, "", "signup THEN (NOT use WITHIN 7 days)"), dryLimit(1<<20)); err != nil || run.Waiting != 1 || run.Next != start+week {
		t.Errorf("%+v, %v", run, err)
	}
	must.NoError(t, e.Erase(t.Context(), "events", "ann"))
	if x := explain("ann"); x.Known {
		t.Errorf("erased: %+v", x)
	}
	if run, err = e.DryRun(t.Context(), newDefinition(t, "", "signup THEN (NOT use WITHIN 7 days)"), dryLimit(1<<20)); err != nil || run.Waiting != 0 {
		t.Errorf("erased: %+v, %v", run, err)
	}
	b.advance(8 * day)
	b.post(ev("zoe", "signup"))
	until(t, e, func() bool { return explain("zoe").Known && e.Lag() == 0 })
	if list := states(t, e); len(list) != 0 {
		t.Errorf("firings after the erasure: %v", list)
	}
}

func TestDamagedFileIsRebuilt(t *testing.T) {
	b := newLog().broker(true)
	path := filepath.Join(t.TempDir(), "triggers.db")
	e := running(t, b, path)
	put(t, e, newDefinition(t, "t", "A"))
	for i := range 50 {
		b.post(ev(fmt.Sprint("user", i), "A"))
	}
	until(t, e, func() bool {
		l := states(t, e)
		return len(l) == 50 && !slices.ContainsFunc(l, func(s string) bool { return strings.HasSuffix(s, "computed") })
	})
	want := states(t, e)
	slices.Sort(want)
	e.Close()
	file := must.Get(os.ReadFile(path))(t)
	records := func() int64 { p, _ := b.Position(topicID(t, b, "firings")); return p.Topics[0][0].Next }
	before := records()
	for pos := 0; pos < len(file); pos += sebtest.Runs(1777, 5407) {
		bad := slices.Clone(file)
		bad[pos] ^= 0x5a
		must.NoError(t, os.WriteFile(path, bad, 0o600))
		e := running(t, b, path)
		until(t, e, func() bool {
			got := states(t, e)
			slices.Sort(got)
			return slices.Equal(got, want)
		})
		e.Close()
	}
	if after := records(); after != before {
		t.Errorf("%d new records, want 0", after-before)
	}
}

func topicID(t testing.TB, b *fakeBroker, name string) record.ID {
	t.Helper()
	topic, ok := b.Topic(name)
	if !ok {
		t.Fatalf("no topic %s", name)
	}
	return topic.ID
}

// TestUnreadableLog: the file stays open while the log cannot be read.
func TestUnreadableLog(t *testing.T) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("t", "A", nil))
	b.post(ev("ann", "A"))
	s.settle()
	b.setReadErr(errFault)
	b.post(ev("bob", "A"))
	if wait := s.w.Step(t.Context()); wait == 0 {
		t.Errorf("wait %v, want more than 0", wait)
	}
	same(t, s.fires(), []string{"t ann +0 pending"})
	b.setReadErr(nil)
	s.settle()
	same(t, s.fires(), []string{"t ann +0 pending", "t bob +0 pending"})
}

func TestCloseEndsWait(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	done := make(chan error, 1)
	go func() { done <- e.follower.Wait(context.Background(), func(*Progress) bool { return false }) }()
	e.Close()
	check.ErrorIs(t, <-done, ErrClosed)
	check.ErrorIs(t, check.Err(e.Firings(t.Context(), FiringQuery{Limit: 1})), ErrClosed)
}

func dryLimit(bytes int64) DryRunOptions {
	return DryRunOptions{TrialOptions: rule.TrialOptions{Limit: bytes}}
}
