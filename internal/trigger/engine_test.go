package trigger

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
	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// running is an engine that goes on by itself. Its clock is the log's, which the test moves.
func running(t testing.TB, b *aBroker, path string) *Engine {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "triggers.db")
	}
	e, err := Open(t.Context(), Options{
		Path: path, Log: b, Now: b.now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Sizes: &small, EventPartitions: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func aDefinition(t testing.TB, id, expr string) rule.Definition {
	t.Helper()
	x, err := driplang.Parse(expr)
	if err != nil {
		t.Fatal(err)
	}
	return rule.Definition{ID: id, Text: expr, Expr: x, CarryFired: true}
}

func put(t testing.TB, e *Engine, d rule.Definition) Put {
	t.Helper()
	p, err := e.Put(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// until polls for what comes about in another goroutine.
func until(t testing.TB, e *Engine, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
		select {
		case <-e.Changed():
		case <-time.After(time.Millisecond):
		}
		e.fold.loop.Wake()
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

func TestPutAndItsVersions(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	if p := put(t, e, aDefinition(t, "t", "A THEN (NOT B)")); p.Version != 1 || len(p.Warnings) != 1 || !slices.Equal(p.Names, []string{"A", "B"}) {
		t.Fatalf("%+v", p)
	}
	b.post(ev("ann", "A"))
	until(t, e, func() bool { return slices.Equal(states(t, e), []string{"t 1 ann pending"}) })

	d := aDefinition(t, "t", "A THEN (NOT B)")
	d.Deliver = []byte(`{"topic":"x"}`)
	if p := put(t, e, d); p.Version != 1 {
		t.Fatalf("delivered otherwise, it is version %d", p.Version)
	}
	if g, err := e.Trigger(t.Context(), "t"); err != nil || string(g.Deliver) != `{"topic":"x"}` {
		t.Fatalf("%+v, %v", g, err)
	}
	p := put(t, e, aDefinition(t, "t", "A THEN (NOT userr)"))
	if p.Version != 2 || !strings.Contains(strings.Join(p.Warnings, " "), `"userr"`) {
		t.Fatalf("%+v", p)
	}
	b.post(ev("ann", "A"))
	b.post(ev("bob", "A"))
	until(t, e, func() bool {
		return slices.Equal(states(t, e), []string{"t 1 ann pending", "t 2 ann historic", "t 2 bob pending"})
	})
	if err := e.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := e.Delete(t.Context(), "t"); !errors.Is(err, ErrUnknownTrigger) {
		t.Fatal(err)
	}
	same(t, states(t, e), []string{"t 1 ann cancelled", "t 2 ann historic", "t 2 bob cancelled"})
	if p := put(t, e, aDefinition(t, "t", "A")); p.Version != 3 {
		t.Fatalf("made again it is version %d", p.Version)
	}
}

func TestWhatPutRefuses(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	if err := b.Create(t.Context(), "old", 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(d *rule.Definition)
	}{
		{"is true before anything has happened", func(d *rule.Definition) { d.Expr, _ = driplang.Parse("NOT A") }},
		{"expr: it is missing", func(d *rule.Definition) { d.Expr = driplang.Expr{} }},
		{"fire:", func(d *rule.Definition) { d.Fire = "twice" }},
		{"cooldown: a trigger that fires once", func(d *rule.Definition) { d.Cooldown = 1 }},
		{"cooldown: -1 ms", func(d *rule.Definition) { d.Cooldown, d.Fire = -1, rule.OnEdge }},
		{"backfill:", func(d *rule.Definition) { d.Backfill = "some" }},
		{"on_retract:", func(d *rule.Definition) { d.OnRetract = "forget" }},
		{"on_retract: a trigger that resets", func(d *rule.Definition) { d.OnRetract, d.Fire = rule.Notify, rule.OnReset }},
		{"status:", func(d *rule.Definition) { d.Status = "asleep" }},
		{"id:", func(d *rule.Definition) { d.ID = "a b" }},
		{"deliver is not JSON", func(d *rule.Definition) { d.Deliver = []byte("{") }},
		{"deliver: 300000 bytes", func(d *rule.Definition) { d.Deliver = make([]byte, 300_000) }},
		{"timestamp-type=append", func(d *rule.Definition) { d.Topic = "old" }},
		{"no topic of events", func(d *rule.Definition) { d.Topic = "firings" }},
	} {
		d := aDefinition(t, "t", "A")
		c.change(&d)
		if _, err := e.Put(t.Context(), d); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	b.takeOver(b.broker(false))
	if _, err := e.Put(t.Context(), aDefinition(t, "t", "A")); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
}

func TestPauseSuppresses(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	put(t, e, aDefinition(t, "t", "A"))
	b.post(ev("ann", "A"))
	until(t, e, func() bool { return slices.Equal(states(t, e), []string{"t 1 ann pending"}) })
	if err := e.Pause(t.Context(), "t", true); err != nil {
		t.Fatal(err)
	}
	if list, err := e.Pending(t.Context(), "t", b.now(), 10); err != nil || len(list) != 0 {
		t.Errorf("paused, and %+v is to be delivered, %v", list, err)
	}
	b.post(ev("bob", "A"))
	until(t, e, func() bool { return slices.Contains(states(t, e), "t 1 bob suppressed") })
	if err := e.Pause(t.Context(), "t", false); err != nil {
		t.Fatal(err)
	}
	b.post(ev("zoe", "A"))
	want := []string{"t 1 ann pending", "t 1 bob suppressed", "t 1 zoe pending"}
	until(t, e, func() bool { return slices.Equal(states(t, e), want) })

	again := running(t, b, "") // without the file
	until(t, again, func() bool { return slices.Equal(states(t, again), want) })
}

func TestDelivery(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	put(t, e, aDefinition(t, "t", "A THEN B"))
	b.post(ev("ann", "A"), ev("ann", "B"))
	var x Firing
	until(t, e, func() bool {
		list, err := e.Pending(t.Context(), "t", b.now(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			x = list[0]
		}
		return len(list) == 1
	})
	events, err := e.Witnesses(t.Context(), &x)
	if err != nil || len(events) != 2 || events[0].Name != "A" || events[1].Name != "B" || events[1].EntityID != "ann" {
		t.Fatalf("%+v, %v", events, err)
	}
	next := b.now().Add(time.Minute)
	err = e.Report(t.Context(), x.ID, Attempt{State: rule.Pending, NextTry: next, Outcome: []byte(`{"status":500}`)})
	if err != nil {
		t.Fatal(err)
	}
	if ids, at, err := e.Due(t.Context(), b.now()); err != nil || len(ids) != 0 || at.UnixMilli() != next.UnixMilli() {
		t.Errorf("%v %v %v", ids, at, err)
	}
	if ids, _, err := e.Due(t.Context(), next); err != nil || !slices.Equal(ids, []string{"t"}) {
		t.Errorf("%v %v", ids, err)
	}
	if err := e.Report(t.Context(), x.ID, Attempt{State: rule.Delivered}); err != nil {
		t.Fatal(err)
	}
	if x, err = e.Firing(t.Context(), x.ID); err != nil || x.State != rule.Delivered || x.Tries != 2 {
		t.Errorf("%+v, %v", x, err)
	}
	if err := e.Resend(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := e.Pending(t.Context(), "t", b.now(), 10); err != nil || len(list) != 1 || list[0].Tries != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := e.Resend(t.Context(), rule.ID{1}); !errors.Is(err, ErrUnknownFiring) {
		t.Error(err)
	}
	for _, a := range []Attempt{{State: "well"}, {State: rule.Dead, Outcome: []byte("{")}, {State: rule.Dead, Outcome: make([]byte, 20_000)}} {
		if err := e.Report(t.Context(), x.ID, a); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestExplainDryRunAndErase(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	put(t, e, aDefinition(t, "week", "signup THEN (NOT use WITHIN 7 days)"))
	b.post(ev("ann", "signup"))
	b.post(ev("bob", "signup"))
	b.post(ev("bob", "use"))
	explain := func(entity string) Explanation {
		x, err := e.Explain(t.Context(), "week", entity)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	until(t, e, func() bool { return explain("ann").Known && e.Lag() == 0 })
	week := (7 * day).Milliseconds()
	if x := explain("ann"); x.Next != start+week || x.True || x.Over || fmt.Sprint(x.MustCome, x.MustNotCome) != "[] [use]" ||
		x.Waits != "it becomes true at 1970-01-08T00:16:40Z unless use comes before" {
		t.Errorf("%+v", x)
	}
	if x := explain("bob"); x.Known { // he is as one of whom nothing has happened
		t.Errorf("%+v", x)
	}
	if x := explain("zoe"); x.Known || fmt.Sprint(x.MustCome, x.MustNotCome) != "[signup] []" ||
		x.Waits != "nothing that has happened matters now; it waits for signup" {
		t.Errorf("%+v", x)
	}
	if _, err := e.DryRun(t.Context(), aDefinition(t, "", "signup"), 100); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "than 100 bytes") {
		t.Error(err)
	}
	run, err := e.DryRun(t.Context(), aDefinition(t, "", "signup"), 1<<20)
	if err != nil || run.Firings != 2 || run.Events != 3 || run.Matched != 2 || run.Days["1970-01-01"] != 2 || len(run.Samples) != 2 {
		t.Errorf("%+v, %v", run, err)
	}
	if run, err = e.DryRun(t.Context(), aDefinition(t, "", "signup THEN (NOT use WITHIN 7 days)"), 1<<20); err != nil || run.Waiting != 1 || run.Next != start+week {
		t.Errorf("%+v, %v", run, err)
	}
	if err := e.Erase(t.Context(), "events", "ann"); err != nil {
		t.Fatal(err)
	}
	if x := explain("ann"); x.Known {
		t.Errorf("erased: %+v", x)
	}
	if run, err = e.DryRun(t.Context(), aDefinition(t, "", "signup THEN (NOT use WITHIN 7 days)"), 1<<20); err != nil || run.Waiting != 0 {
		t.Errorf("erased: %+v, %v", run, err)
	}
	b.advance(8 * day)
	b.post(ev("zoe", "signup"))
	until(t, e, func() bool { return explain("zoe").Known && e.Lag() == 0 })
	if list := states(t, e); len(list) != 0 {
		t.Errorf("erased, and %v", list)
	}
}

func TestADamagedFileIsMadeAnew(t *testing.T) {
	b := newLog().broker(true)
	path := filepath.Join(t.TempDir(), "triggers.db")
	e := running(t, b, path)
	put(t, e, aDefinition(t, "t", "A"))
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
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records := func() int64 { p, _ := b.Position(topicID(t, b, "firings")); return p.Topics[0][0].Next }
	before := records()
	for pos := 0; pos < len(file); pos += 1777 {
		bad := slices.Clone(file)
		bad[pos] ^= 0x5a
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		e := running(t, b, path)
		until(t, e, func() bool {
			got := states(t, e)
			slices.Sort(got)
			return slices.Equal(got, want)
		})
		e.Close()
	}
	if after := records(); after != before {
		t.Errorf("%d records more", after-before)
	}
}

func topicID(t testing.TB, b *aBroker, name string) record.ID {
	t.Helper()
	topic, ok := b.Topic(name)
	if !ok {
		t.Fatalf("no topic %s", name)
	}
	return topic.ID
}

func TestTrimmedFiringsAreNotSentAgain(t *testing.T) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("t", "A", nil))
	b.post(ev("ann", "A"))
	s.settle()
	b.advance(time.Second)
	b.post(ev("bob", "A"))
	s.settle()
	b.trim("firings", 0, 1)
	s.crashed()
	b.advance(time.Second)
	b.post(ev("zoe", "A"))
	s.settle()
	same(t, s.fires(), []string{"t ann +0 forgotten", "t bob +1000 pending", "t zoe +2000 pending"})
}

// TestALogThatCanNotBeRead keeps the file open, and goes on when it can.
func TestALogThatCanNotBeRead(t *testing.T) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("t", "A", nil))
	b.post(ev("ann", "A"))
	s.settle()
	b.setUnreadable(errFault)
	b.post(ev("bob", "A"))
	if wait := s.w.Step(t.Context()); wait == 0 {
		t.Errorf("waits %v", wait)
	}
	same(t, s.fires(), []string{"t ann +0 pending"})
	b.setUnreadable(nil)
	s.settle()
	same(t, s.fires(), []string{"t ann +0 pending", "t bob +0 pending"})
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	b := newLog().broker(true)
	e := running(t, b, "")
	done := make(chan error, 1)
	go func() { done <- e.fold.Wait(context.Background(), func(*Progress) bool { return false }) }()
	e.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := e.Firings(t.Context(), FiringQuery{Limit: 1}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
