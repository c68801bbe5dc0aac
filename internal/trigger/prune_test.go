package trigger

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// deliver has all that is pending recorded as delivered.
func (s *stepped) deliver() {
	s.t.Helper()
	list, err := s.Firings(s.t.Context(), FiringQuery{Limit: LimitMax})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, x := range list {
		if x.State == rule.Pending {
			s.report(rule.Record{Kind: rule.Done, ID: x.ID.String(), State: rule.Delivered, Retraction: x.Retraction})
		}
	}
}

// trimmed trims all records of firings that are there, as retention would a day later.
func (s *stepped) trimmed() {
	s.t.Helper()
	s.b.advance(day + time.Second)
	p, _ := s.b.Position(topicID(s.t, s.b, "firings"))
	s.report(rule.Record{Kind: rule.Tick})
	s.b.trim("firings", 0, p.Topics[0][0].Next)
	s.settle()
}

// recorded is how many records say that something has fired, of each id.
func (s *stepped) recorded() map[string]int {
	s.t.Helper()
	all := map[string]int{}
	t, _ := s.b.Topic("firings")
	var r record.Reader
	for _, b := range s.b.topicLocked(t.ID).parts[0].batches {
		for r.Reset(b, 0); r.Next(); {
			if rec, _, err := rule.ParseRecord(r.Record().Value); err != nil {
				s.t.Fatal(err)
			} else if rec.Kind == rule.FiredEntry {
				all[rec.ID]++
			}
		}
	}
	return all
}

func onEdge(d *rule.Definition) { d.Fire = rule.OnEdge }

func TestFiringsGoWithTheirRecords(t *testing.T) {
	for _, page := range []int{1, 2, 3, 500} {
		t.Run(fmt.Sprint(page), func(t *testing.T) { firingsGo(t, page) })
	}
}

func firingsGo(t *testing.T, page int) {
	sizes := small
	sizes.Prune = page
	s := stepBy(t, newLog().broker(true), filepath.Join(t.TempDir(), "triggers.db"), &sizes)
	s.put(s.definition("t", "A THEN (NOT B)", onEdge))
	for range 5 {
		for _, name := range []string{"A", "B"} {
			s.b.post(ev("ann", name))
			s.b.advance(time.Second)
		}
	}
	s.b.post(ev("bob", "A"))
	s.settle()
	s.deliver()
	last, err := s.Firings(t.Context(), FiringQuery{Limit: LimitMax})
	if err != nil || len(last) != 6 {
		t.Fatal(last, err)
	}
	s.trimmed() // what says that it has fired for an entity stays
	same(t, s.fires(), []string{"t ann +8000 delivered", "t bob +10000 delivered"})
	if n := s.counted("firings_pruned_total"); n != 4 {
		t.Errorf("%d were pruned", n)
	}
	s.b.post(ev("ann", "A"))
	s.settle()
	s.deliver()
	s.trimmed()
	list := s.fires()
	same(t, list[:1], []string{"t bob +10000 delivered"})
	if len(list) != 2 || !slices.Contains(list, fmt.Sprintf("t ann +%d delivered", 2*(day+time.Second).Milliseconds()/2+10000)) {
		t.Errorf("%q", list)
	}
	if page, err := s.Firings(t.Context(), FiringQuery{After: last[5].Seq, Limit: 10}); err != nil || len(page) != 1 {
		t.Errorf("behind %d there is %+v, %v", last[5].Seq, page, err)
	}
	for range 2 {
		s.crashed()
		s.b.advance(time.Second)
		s.settle()
	}
	for id, n := range s.recorded() {
		if n != 1 {
			t.Errorf("%s was recorded %d times", id, n)
		}
	}
}

// TestAFiringStaysWhileSomethingDependsOnIt has firings whose records are trimmed.
func TestAFiringStaysWhileSomethingDependsOnIt(t *testing.T) {
	t.Run("pending", func(t *testing.T) {
		s := step(t, newLog().broker(true), "")
		s.put(s.definition("t", "A", onEdge))
		s.b.post(ev("ann", "A"))
		s.settle()
		s.trimmed()
		same(t, s.fires(), []string{"t ann +0 pending"})
	})
	t.Run("it may be taken back", func(t *testing.T) {
		s := step(t, newLog().broker(true), "")
		s.put(s.definition("t", "A THEN (NOT B)", func(d *rule.Definition) { d.OnRetract, d.CarryFired = rule.Notify, false }))
		s.b.post(ev("ann", "A"))
		s.settle()
		s.deliver()
		s.trimmed()
		s.b.post(ev("ann", "B"))
		s.settle()
		taken := s.b.now().UnixMilli() - start
		if got := s.fires(); len(got) != 1 || !slices.Contains(got, fmt.Sprintf("t ann +0 pending taken +%d", taken)) {
			t.Errorf("%q", got)
		}
	})
	t.Run("sent again", func(t *testing.T) {
		s := step(t, newLog().broker(true), "")
		s.put(s.definition("t", "A THEN B", func(d *rule.Definition) { d.Fire = rule.OnReset }))
		s.b.post(ev("ann", "A"), ev("ann", "B"))
		s.settle()
		s.deliver()
		s.b.advance(time.Second)
		p, _ := s.b.Position(topicID(t, s.b, "firings"))
		list, _ := s.Firings(t.Context(), FiringQuery{Limit: 1})
		s.report(rule.Record{Kind: rule.Resend, ID: list[0].ID.String()})
		s.deliver()
		s.b.post(ev("ann", "A"), ev("ann", "B"))
		s.settle()
		s.b.trim("firings", 0, p.Topics[0][0].Next)
		s.settle()
		same(t, s.fires(), []string{"t ann +0 delivered", "t ann +1000 pending"})
		s.deliver()
		s.trimmed()
		same(t, s.fires(), []string{"t ann +1000 delivered"})
	})
	t.Run("frequency cap", func(t *testing.T) {
		s := step(t, newLog().broker(true), "")
		s.counts = 3 * day
		s.put(s.definition("t", "A THEN (NOT B)", func(d *rule.Definition) { d.Fire, d.Deliver = rule.OnEdge, json.RawMessage(`{"topic":"x"}`) }))
		for range 2 {
			s.b.post(ev("ann", "A"))
			s.b.post(ev("ann", "B"))
		}
		s.settle()
		s.deliver()
		s.trimmed()
		if got := s.fires(); len(got) != 2 {
			t.Errorf("%q", got)
		}
		s.b.advance(2 * day)
		s.trimmed()
		if got := s.fires(); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

func TestAVersionKnowsWhatFiredLongAgo(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	d := s.put(s.definition("t", "A THEN (NOT B)", onEdge))
	for range 2 {
		s.b.post(ev("ann", "A"))
		s.b.post(ev("ann", "B"))
	}
	s.settle()
	s.deliver()
	s.trimmed()
	s.b.advance(time.Second)
	s.b.post(ev("zoe", "X"))
	e := s.definition("t", "A", func(d *rule.Definition) { d.Version, d.Backfill, d.Fire = 2, rule.Replay, rule.OnEdge })
	e.Created = d.Created
	s.put(e)
	s.put(s.definition("new", "A", func(d *rule.Definition) { d.Backfill = rule.Replay }))
	s.settle()
	same(t, s.fires(), []string{"new ann +0 pending", "t ann +0 delivered", "t ann +0 carried"})
	e = s.definition("t", "C", func(d *rule.Definition) { d.Version, d.Backfill, d.Fire = 3, rule.None, rule.Once })
	e.Created = d.Created
	s.put(e)
	s.b.post(ev("ann", "C"))
	s.settle()
	if got := s.fires(); len(got) != 4 || !slices.Contains(got, fmt.Sprintf("t ann +%d carried", s.b.now().UnixMilli()-start)) {
		t.Errorf("%q", got)
	}
}

func TestADeletedTriggersFiringsGo(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("t", "A", nil))
	for i := range 7 {
		s.b.post(ev(fmt.Sprint("user", i), "A"))
	}
	s.settle()
	s.trimmed()
	if got := s.fires(); len(got) != 7 {
		t.Fatalf("%q", got)
	}
	s.b.mu.Lock()
	s.b.appendLocked(s.b.topics[0].id, 0, []record.Record{{Key: []byte("t")}})
	s.b.mu.Unlock()
	s.settle()
	if got := s.fires(); len(got) != 1 || got[0][len(got[0])-9:] != "cancelled" {
		t.Errorf("%q", got)
	}
	d := rule.Definition{ID: "t"}
	if err := s.again(t.Context(), &d); err != nil || d.Version != 2 {
		t.Errorf("version %d, %v", d.Version, err)
	}
}
