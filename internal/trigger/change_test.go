package trigger

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// TestWhatFiredBeforeAChangeInItsMillisecond: the log took an event, and in the same millisecond its trigger is changed. The
// event lies before the change, so that the old version fires for it, though the engine has not read it yet.
func TestWhatFiredBeforeAChangeInItsMillisecond(t *testing.T) {
	l := newLog()
	b := l.broker(true)
	var s *Stepped
	s, err := OpenStepped(Options{
		Path: filepath.Join(t.TempDir(), "triggers.db"), Log: b, Now: l.now, Sizes: &small, Logger: slog.New(slog.DiscardHandler),
	}, func(ctx context.Context) { s.Step(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(text string) {
		expr, err := driplang.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), rule.Definition{ID: "x", Expr: expr, Fire: rule.OnEdge}); err != nil {
			t.Fatal(err)
		}
	}
	put("A")
	l.advance(5 * time.Millisecond)
	l.post(ev("u", "D"))
	for s.Step(t.Context()) == 0 {
	}
	l.post(ev("u", "A"))
	put("A THEN B")
	for s.Step(t.Context()) == 0 {
	}
	list, err := s.Firings(t.Context(), FiringQuery{Limit: 10})
	if err != nil || len(list) != 1 || list[0].Version != 1 || list[0].Recorded == 0 {
		t.Errorf("fired %+v, %v", list, err)
	}
}

// TestATriggerMovesToAnotherTopic: its topic is changed to one with fewer events and back to one with more. Offsets of one topic
// say nothing about another: each change is made, fires for what came since, and not for what comes in the topic it has left.
func TestATriggerMovesToAnotherTopic(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	put := func(topic string) {
		t.Helper()
		expr, err := driplang.Parse("A")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := s.Put(ctx, rule.Definition{ID: "x", Expr: expr, Fire: rule.OnEdge, Topic: topic}); err != nil {
			t.Fatalf("to %s: %v", topic, err)
		}
		s.settle()
		l.advance(time.Second)
	}
	put("events")
	post := func(topic string, entities ...string) {
		for _, entity := range entities {
			l.postTo(topic, ev(entity, "A"))
		}
		l.advance(time.Second)
	}
	post("events", "a", "b", "c", "d", "e") // not read yet when the trigger leaves
	put("other")
	post("events", "too late")
	post("other", "f")
	s.settle()
	put("events")
	post("other", "too late")
	post("events", "g")
	s.settle()
	list, err := s.Firings(t.Context(), FiringQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, x := range list {
		got[x.Entity] += fmt.Sprintf("%d %s, ", x.Version, x.State)
	}
	for _, entity := range []string{"a", "b", "c", "d", "e"} {
		if got[entity] != "1 pending, 3 historic, " {
			t.Errorf("%s: %s", entity, got[entity])
		}
	}
	if got["f"] != "2 pending, " || got["g"] != "3 pending, " || got["too late"] != "3 historic, " {
		t.Errorf("fired %v", got)
	}
}
