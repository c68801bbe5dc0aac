package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// story returns the definition and the events that determine whether a firing is correct.
func (t *truth) story(rec *rule.Record) string {
	var b strings.Builder
	if v := t.version(rec.Trigger, rec.Version); v != nil {
		text, _ := json.Marshal(v.Definition)
		fmt.Fprintf(&b, "%s\n", text)
	}
	for _, h := range t.history[subject{rec.Partition, rec.Entity}] {
		fmt.Fprintf(&b, "  offset %d at %d %s %s\n", h.offset, h.At, h.Name, h.Data)
	}
	return b.String()
}

// End checks what must hold at the end: W1, all firings are recorded; W7, and delivered; W8, all
// engines know the same, with any file. leader is the broker that leads.
func (s *Sim) End(leader *Broker) {
	t := s.truth
	for _, id := range t.ids {
		for _, v := range t.versions[id] {
			for _, p := range t.subjects {
				s.recorded(v, t.evaluate(v, p))
			}
		}
	}
	for _, id := range t.order {
		s.delivered(t.firsts[id], id)
	}
	// Otherwise an engine that reads the log from the start knows less.
	if leader.engine != nil && len(t.removed) == 0 {
		s.same(leader)
	}
}

// recorded checks W1.
func (s *Sim) recorded(v *version, k *evaluation) {
	for _, c := range slices.Sorted(maps.Keys(k.found)) {
		x := k.found[c]
		if v.next != nil && v.next.At == v.At && slices.Equal(v.next.From, v.From) {
			continue // it was replaced before it had caught up
		}
		if x.state == rule.Historic || v.next != nil && (v.next.Cut().After(c, v.TopicID, x.at) || x.start && v.next.At <= v.At) {
			continue // it belongs to the next version; or no instant was complete between the two
		}
		f := s.truth.firsts[rule.MakeID(v.ID, v.Version, k.entity, c)]
		if f == nil {
			s.w.Fail("W1: %s v%d should have fired for %s at %d because of %s: %s", v.ID, v.Version, k.entity, x.at, c,
				s.truth.story(&rule.Record{Trigger: v.ID, Version: v.Version, Entity: k.entity, Partition: k.part}))
			return
		}
		if v.next == nil && f.State == rule.Pending && f.taken != x.taken {
			s.w.Fail("W1: %s v%d for %s because of %s should be retracted at %d, is at %d", v.ID, v.Version, k.entity, c, x.taken, f.taken)
		}
	}
}

// delivered checks W7, unless the firing was retracted, or its trigger is paused.
func (s *Sim) delivered(f *first, id rule.ID) {
	list := s.truth.versions[f.Trigger]
	if f.State != rule.Pending || f.taken != 0 || list[len(list)-1].Status == rule.Paused {
		return
	}
	if s.receiver.received[id.String()] == 0 {
		s.w.Fail("W7: %s of %s for %s was recorded at offset %d but never delivered", id, f.Trigger, f.Entity, f.offset)
	}
}

// turnsMost bounds the turns that an engine needs to read the whole log.
const turnsMost = 100_000

// same checks W8: the leader's engine has the same state as one that reads the log for the first
// time.
func (s *Sim) same(leader *Broker) {
	path := s.path("fresh")
	other := &Broker{s: s, host: leader.host, ctx: leader.ctx}
	other.log = &hostLog{b: other, silent: true}
	e, err := rules.OpenStepped(other.options(path, other.log), nil)
	if err != nil {
		s.w.Fail("simulator: %v", err)
		return
	}
	defer e.Close()
	for n := 0; e.Step(other.ctx) == 0; n++ {
		if n == turnsMost {
			s.w.Fail("W8: an engine does not reach the end of the log")
			return
		}
	}
	a, b := s.known(leader.ctx, leader.engine.Engine), s.known(leader.ctx, e.Engine)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			s.w.Fail("W8: the leader's engine has\n%s, a new one\n%s", a[i], b[i])
			return
		}
	}
	if len(a) != len(b) {
		s.w.Fail("W8: the leader's engine has %d firings, a new one %d", len(a), len(b))
	}
}

// known returns an engine's firings as texts: the recorded ones, and those of the newest versions.
func (s *Sim) known(ctx context.Context, e *rules.Engine) (list []string) {
	after := int64(0)
	for {
		page, err := e.Firings(ctx, rules.FiringQuery{After: after, Limit: rules.LimitMax})
		if err != nil {
			s.w.Fail("W8: firings: %v", err)
		}
		if len(page) == 0 {
			slices.SortFunc(list, cmp.Compare)
			return list
		}
		for _, x := range page {
			after = x.Seq
			versions := s.truth.versions[x.Trigger]
			if x.Recorded == 0 && (len(versions) == 0 || versions[len(versions)-1].Version != x.Version) {
				continue
			}
			x.Seq = 0
			list = append(list, fmt.Sprintf("%+v", x))
		}
	}
}
