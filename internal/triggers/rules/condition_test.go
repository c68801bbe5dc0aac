package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func tagged(tag string) Condition { return func(h *Head) bool { return h != nil && h.Tag() == tag } }

func absent(h *Head) bool { return h == nil }

func tagOf(t *testing.T, e *Engine, id string) string {
	t.Helper()
	h := must.Get(e.Head(id))(t)
	_, stored, err := e.Stored(t.Context(), id)
	if err != nil || rule.Tag(stored.Version, stored.Offset) != h.Tag() {
		t.Fatalf("the tag is %s, that of the file %d.%d, %v", h.Tag(), stored.Version, stored.Offset, err)
	}
	return h.Tag()
}

// TestTags: every change that is stored has another tag. All brokers have the same, after a restart and
// with a new file too.
func TestTags(t *testing.T) {
	log := newLog()
	leader, path := log.broker(true), filepath.Join(t.TempDir(), "triggers.db")
	e := running(t, leader, path)
	put(t, e, newDefinition(t, "other", "A"))
	d := newDefinition(t, "t", "A THEN B")
	seen := map[string]bool{}
	for i, change := range []func(){
		func() {},
		func() { d.Text = "A  then B" },
		func() { d.Deliver = json.RawMessage(`{"url":"https://x.example"}`) },
		func() { d.Status = rule.Paused },
		func() { d = newDefinition(t, "t", "A THEN C") },
		func() { d.Text = "A then C" },
		func() {},
	} {
		change()
		p := put(t, e, d)
		if tag := tagOf(t, e, "t"); tag != p.Tag || seen[tag] {
			t.Errorf("change %d: the tag is %s, that of the put %s, after %v", i, tag, p.Tag, seen)
		}
		seen[p.Tag] = true
	}
	for _, paused := range []bool{true, false} {
		must.NoError(t, e.Pause(t.Context(), "t", paused))
		if tag := tagOf(t, e, "t"); seen[tag] {
			t.Errorf("a change of the status keeps the tag %s", tag)
		} else {
			seen[tag] = true
		}
	}
	want := tagOf(t, e, "t")
	_ = e.Close()
	for name, other := range map[string]*Engine{
		"restart": running(t, leader, path), "new file": running(t, log.broker(true), ""), "follower": running(t, log.broker(false), ""),
	} {
		sebtest.Eventually(t, name, func() bool { h, err := other.Head("t"); return err == nil && h.Tag() == want })
		check.Equalf(t, tagOf(t, other, "t"), want, "%s: the tag", name)
	}
}

// TestConditionalPut: a change whose condition does not hold changes nothing. If it is already stored, it
// succeeds, with encrypted secrets too.
func TestConditionalPut(t *testing.T) {
	log := newLog()
	b := log.broker(true)
	end := func() int64 {
		topic, ok := log.Topic("triggers")
		if !ok {
			return 0
		}
		p, _ := b.Position(topic.ID)
		return p.Topics[0][0].Next
	}
	e, _ := opened(t, b, sealing(ringOf(t, secrets.NewKey())))
	fails := func(what string, d rule.Definition, is Condition, stored string) {
		t.Helper()
		was := end()
		_, err := e.Put(t.Context(), d, is)
		fault, ok := errors.AsType[*ConditionError](err)
		if !ok || fault.ID != d.ID || (fault.Stored == nil) != (stored == "") || stored != "" && fault.Stored.Tag() != stored || end() != was {
			t.Errorf("%s: %v, and %d records", what, err, end()-was)
		}
	}
	succeeds := func(what string, d rule.Definition, is Condition, records int64) Put {
		t.Helper()
		was := end()
		p, err := e.Put(t.Context(), d, is)
		if err != nil || end() != was+records || p.Tag != tagOf(t, e, d.ID) {
			t.Errorf("%s: %+v, %v, and %d records", what, p, err, end()-was)
		}
		return p
	}
	d := secretive("t")
	fails("no trigger", d, tagged("1.0"), "")
	if _, ok := log.Topic("events"); ok {
		t.Error("a refused change created a topic")
	}
	first := succeeds("a new trigger", d, absent, 1)
	if again := succeeds("a repeated creation", d, absent, 0); again.Tag != first.Tag || again.Version != 1 || len(again.Names) != 1 || len(again.History) != 1 {
		t.Errorf("%+v, want %+v", again, first)
	}
	changed := secretive("t")
	changed.Deliver = json.RawMessage(`{"headers":{"A":"<other>"}, "url":"https://x.example?a&b","secrets":["` + canarySecret + `"]}`)
	fails("another trigger", changed, absent, first.Tag)
	second := succeeds("a change", changed, tagged(first.Tag), 1)
	succeeds("a repeated change", changed, tagged(first.Tag), 0)
	fails("an outdated change", d, tagged(first.Tag), second.Tag)
	changed.Status = rule.Paused
	fails("an outdated status", changed, tagged(first.Tag), second.Tag)
	changed.Text = "a"
	third := succeeds("another notation", changed, tagged(second.Tag), 1)
	if err := e.Delete(t.Context(), "t", tagged(second.Tag)); !errors.As(err, new(*ConditionError)) {
		t.Errorf("an outdated deletion: %v", err)
	}
	check.NoError(t, e.Delete(t.Context(), "t", tagged(third.Tag)))
	check.ErrorIsf(t, e.Delete(t.Context(), "t", tagged(third.Tag)), ErrUnknownTrigger, "a second deletion")
	fails("a deleted trigger", changed, tagged(third.Tag), "")
	if fourth := succeeds("a trigger with the old ID", d, absent, 1); fourth.Tag == first.Tag {
		t.Errorf("it has the tag of a deleted one, %s", first.Tag)
	}
	follower, _ := opened(t, log.broker(false))
	check.ErrorIsf(t, check.Err(follower.Put(t.Context(), d, absent)), ErrNotLeader, "a follower")
}

// TestConditionalPutConcurrently: of several changes of one stored trigger at once, one succeeds.
func TestConditionalPutConcurrently(t *testing.T) {
	const clients, rounds = 16, 10
	e := running(t, newLog().broker(true), "")
	tag := put(t, e, newDefinition(t, "t", "A")).Tag
	for round := range rounds {
		var wins atomic.Int32
		var winner atomic.Pointer[Put]
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				d := newDefinition(t, "t", fmt.Sprintf("A THEN B%d", i))
				if i%2 == 0 { // no new version
					d = newDefinition(t, "t", "A")
					d.Deliver = json.RawMessage(fmt.Sprintf(`{"url":"https://%d.example/%d"}`, i, round))
				}
				p, err := e.Put(t.Context(), d, tagged(tag))
				if fault, ok := errors.AsType[*ConditionError](err); err != nil && (!ok || fault.Stored.Tag() == tag) {
					t.Error(err)
				} else if err == nil {
					wins.Add(1)
					winner.Store(&p)
				}
			})
		}
		all.Wait()
		if wins.Load() != 1 || winner.Load().Tag != tagOf(t, e, "t") {
			t.Fatalf("round %d: %d changes succeeded, the last as %+v; %s is stored", round, wins.Load(), winner.Load(), tagOf(t, e, "t"))
		}
		tag = winner.Load().Tag
	}
}

// TestChangeAfterLateChange: an append of unknown outcome is stored after the engine has looked at the
// stored trigger, directly before the next change, as a new version. The next change does not report a
// success without an effect.
func TestChangeAfterLateChange(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(e *Engine, tag string) (Put, error)
		want   string // version, text and status that are stored
	}{
		{"put", func(e *Engine, _ string) (Put, error) { return e.Put(t.Context(), newDefinition(t, "t", "C"), nil) }, "3 C active"},
		{"conditional put", func(e *Engine, tag string) (Put, error) {
			return e.Put(t.Context(), newDefinition(t, "t", "C"), tagged(tag))
		}, "2 late active"},
		{"pause", func(e *Engine, _ string) (Put, error) { return Put{}, e.Pause(t.Context(), "t", true) }, "2 late paused"},
	} {
		b := newLog().broker(true)
		e := running(t, b, "")
		tag := put(t, e, newDefinition(t, "t", "A")).Tag
		storeLate(t, b, e, newDefinition(t, "t", "B").Expr)
		p, err := c.change(e, tag)
		now := must.Get(e.Trigger(t.Context(), "t"))(t)
		fault, refused := errors.AsType[*ConditionError](err)
		if got := fmt.Sprintf("%d %s %s", now.Version, now.Text, now.Status); got != c.want {
			t.Errorf("%s: %s is stored, want %s", c.what, got, c.want)
		}
		if refused != (c.what == "conditional put") || refused && fault.Stored.Version != 2 || !refused && err != nil || p.Tag != "" && p.Tag != tagOf(t, e, "t") {
			t.Errorf("%s: %+v, %v", c.what, p, err)
		}
	}
}

// storeLate stores version 2 of a trigger directly before the next definition.
func storeLate(t *testing.T, b *fakeBroker, e *Engine, expr driplang.Expr) {
	t.Helper()
	stored := must.Get(e.Trigger(t.Context(), "t"))(t)
	late := stored.Definition
	late.Version, late.Text, late.Expr = 2, "late", expr
	value := must.Get(late.Encode())(t)
	definitions, _ := b.Topic("triggers")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = func(topic string) (kept, ok bool) {
		if topic == "triggers" {
			b.fault = nil
			b.appendLocked(definitions.ID, 0, []record.Record{{Key: []byte("t"), Value: value}})
		}
		return true, true
	}
}
