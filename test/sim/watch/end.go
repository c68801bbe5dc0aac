package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// story is the definition and the events because of which a firing is right or not.
func (t *truth) story(rec *rule.Record) string {
	var b strings.Builder
	if v := t.version(rec.Trigger, rec.Version); v != nil {
		text, _ := json.Marshal(v.Definition)
		fmt.Fprintf(&b, "%s\n", text)
	}
	for _, h := range t.history[place{rec.Partition, rec.Entity}] {
		fmt.Fprintf(&b, "  offset %d at %d %s %s\n", h.offset, h.At, h.Name, h.Data)
	}
	return b.String()
}

// End checks what must hold when all is quiet: W1 all that should have fired is recorded, W7 and delivered, W8 what engines
// know is the same with whatever file. leader is the broker that leads.
func (s *Sim) End(leader *Broker) {
	t := s.truth
	for _, id := range t.ids {
		for _, v := range t.versions[id] {
			for _, p := range t.places {
				s.recorded(v, t.walk(v, p))
			}
		}
	}
	for _, id := range t.order {
		s.delivered(t.firsts[id], id)
	}
	if leader.engine != nil && len(t.removed) == 0 { // else one that reads the log anew knows less
		s.same(leader)
	}
}

// recorded: W1.
func (s *Sim) recorded(v *version, k *walk) {
	for _, c := range slices.Sorted(maps.Keys(k.found)) {
		x := k.found[c]
		if v.next != nil && v.next.At == v.At && slices.Equal(v.next.From, v.From) {
			continue // it was replaced before it had caught up
		}
		if x.state == rule.Historic || v.next != nil && (v.next.Cut().Behind(c, v.TopicID, x.at) || x.start && v.next.At <= v.At) {
			continue // the next version's; or no instant was complete between the two
		}
		f := s.truth.firsts[rule.MakeID(v.ID, v.Version, k.entity, c)]
		if f == nil {
			s.w.Fail("W1: %s v%d should have fired for %s at %d because of %s: %s", v.ID, v.Version, k.entity, x.at, c,
				s.truth.story(&rule.Record{Trigger: v.ID, Version: v.Version, Entity: k.entity, Partition: k.part}))
			return
		}
		if v.next == nil && f.State == rule.Pending && f.taken != x.taken {
			s.w.Fail("W1: %s v%d for %s because of %s should be taken back at %d, is at %d", v.ID, v.Version, k.entity, c, x.taken, f.taken)
		}
	}
}

// delivered: W7, unless somebody has taken it back, or its trigger is paused.
func (s *Sim) delivered(f *first, id rule.ID) {
	list := s.truth.versions[f.Trigger]
	if f.State != rule.Pending || f.taken != 0 || list[len(list)-1].Status == rule.Paused {
		return
	}
	if s.receiver.taken[id.String()] == 0 {
		s.w.Fail("W7: %s of %s for %s was recorded at offset %d, and never delivered", id, f.Trigger, f.Entity, f.offset)
	}
}

// turnsMost is how many turns an engine may take to read the whole log.
const turnsMost = 100_000

// same: W8, the leader's engine knows what one knows that reads the log for the first time.
func (s *Sim) same(leader *Broker) {
	path := s.path("anew")
	other := &Broker{s: s, host: leader.host, ctx: leader.ctx}
	other.log = &hostLog{b: other, silent: true}
	e, err := trigger.OpenStepped(other.options(path, other.log), nil)
	if err != nil {
		s.w.Fail("simulator: %v", err)
		return
	}
	defer e.Close()
	for n := 0; e.Step(other.ctx) == 0; n++ {
		if n == turnsMost {
			s.w.Fail("W8: an engine does not come to the end of the log")
			return
		}
	}
	a, b := s.known(leader.ctx, leader.engine.Engine), s.known(leader.ctx, e.Engine)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			s.w.Fail("W8: the leader's engine knows\n%s, one that has read the log anew\n%s", a[i], b[i])
			return
		}
	}
	if len(a) != len(b) {
		s.w.Fail("W8: the leader's engine knows %d firings, one that has read the log anew %d", len(a), len(b))
	}
}

// known is what an engine knows of firings, each as a text: those that were recorded, and those of the newest versions.
func (s *Sim) known(ctx context.Context, e *trigger.Engine) (list []string) {
	after := int64(0)
	for {
		page, err := e.Firings(ctx, trigger.FiringQuery{After: after, Limit: trigger.LimitMax})
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
