package delivery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	inner "github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

// TestDelivers: an absence fires once, not before its deadline, and arrives signed, with the
// matched event.
func TestDelivers(t *testing.T) {
	w := newFixture(t)
	r := receive(t, nil)
	w.put("quiet", "a THEN (NOT b WITHIN 300ms)", to(r.URL, ""), nil)
	for _, e := range []string{"kept", "ended"} {
		w.event(e, "a")
	}
	w.event("ended", "b")
	got := r.wait(1)[0]
	list := w.firings(all(1, rule.Delivered))
	x := list[0]
	if got.id != x.ID.String() || got.Type != webhook.TypeFired || got.Attempt != 1 || got.Data.Entity != "kept" || got.Data.Trigger != "quiet" ||
		len(got.Data.Witness) != 1 || string(got.Data.Witness[0].Data) != `{"for":"kept"}` {
		t.Errorf("message %+v of %+v", got, x)
	}
	if want := got.Data.Witness[0].Time.Add(300 * time.Millisecond); !got.Timestamp.Equal(want) || got.at.Before(want) || x.Recorded < x.At {
		t.Errorf("fired at %v, arrived at %v, recorded at %d, want %v", got.Timestamp, got.at, x.Recorded, want)
	}
	w.event("kept", "a") // fires once
	w.event("next", "a")
	w.firings(all(2, rule.Delivered))
	if list := r.list(); len(list) != 2 || list[1].Data.Entity != "next" {
		t.Errorf("%d messages: %+v", len(list), list)
	}
	for _, d := range r.list() {
		t.Logf("arrived %v after its time", d.at.Sub(d.Timestamp))
	}
	var outcome struct{ Delivered int64 }
	if err := json.Unmarshal(x.Outcome, &outcome); err != nil || outcome.Delivered < x.At {
		t.Errorf("outcome %s, %v", x.Outcome, err)
	}
}

// TestFailingReceiversDoNotBlockOthers: receivers that hang, fail, or do not speak HTTP do not
// delay other triggers; Close does not wait for them.
func TestFailingReceiversDoNotBlockOthers(t *testing.T) {
	w := newFixture(t)
	over := make(chan struct{})
	hanging := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(over) })
	failing := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	dying := receive(t, func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	good := receive(t, nil)
	for name, r := range map[string]*receiver{"a-hangs": hanging, "b-fails": failing, "c-dies": dying, "d-good": good} {
		w.put(name, "a", to(r.URL, `, "retries": ["1h"]`), nil)
	}
	const n = 40
	for i := range n {
		w.event(fmt.Sprintf("user-%d", i), "a")
	}
	good.wait(n)
	hanging.wait(4)
	failing.wait(n)
	dying.wait(n)
	w.firings(func(list []rules.Firing) bool {
		delivered, tried := 0, 0
		for i := range list {
			x := &list[i]
			switch {
			case x.State == rule.Delivered && x.Trigger == "d-good":
				delivered++
			case x.State == rule.Delivered:
				t.Errorf("delivered: %+v", x)
			case x.Tries == 1 && x.NextTry > x.Recorded:
				tried++
			}
		}
		return delivered == n && tried == 2*n
	})
	check.Equalf(t, len(hanging.list()), 4, "messages to the hanging receiver")
	w.close() // four are in flight, with a timeout of five minutes
}

// TestTakeover: a fenced broker stops at once, and its successor delivers the rest.
func TestTakeover(t *testing.T) {
	w := newFixture(t)
	first, ended := make(chan struct{}), make(chan struct{})
	r := receive(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n > 0 {
			return
		}
		close(first)
		<-r.Context().Done() // the attempt's own timeout is five minutes
		close(ended)
	})
	w.put("x", "a", to(r.URL, ""), nil)
	w.event("user", "a")
	<-first
	second := &fixture{t: t, dir: w.dir}
	o := second.options()
	o.DataDir = t.TempDir()
	old, disp := w.node, w.disp
	second.openWith(o)
	t.Cleanup(second.close)
	got := r.wait(2)
	if got[0].id != got[1].id {
		t.Errorf("ids %s and %s", got[0].id, got[1].id)
	}
	second.firings(all(1, rule.Delivered))
	topic, _ := old.EventLog().Topic("events")
	check.Error(t, check.Err(old.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte("k")}})), "the first broker still writes")
	<-old.Done()
	<-ended
	disp.Close()
}

// TestRestart: after restarts without the engine's file everything is delivered, and recorded once.
func TestRestart(t *testing.T) {
	w := newFixture(t)
	slow := receive(t, nil)
	w.put("x", "a THEN b", to(slow.URL, ""), nil)
	w.put("y", "a THEN (NOT c WITHIN 100ms)", to(slow.URL, ""), nil)
	n := sebtest.Runs(60, 40)
	for i := range n {
		e := fmt.Sprintf("user-%d", i)
		w.event(e, "a")
		w.event(e, "b")
		if i%20 == 10 {
			slow.wait(i / 2)
			w.close()
			w.forget()
			w.open()
		}
	}
	w.firings(all(2*n, rule.Delivered))
	ids := map[string]received{}
	for _, d := range slow.list() {
		if ids[d.id] = d; d.at.Before(d.Timestamp) {
			t.Errorf("%s arrived at %v, its time is %v", d.id, d.at, d.Timestamp)
		}
	}
	check.Equalf(t, len(ids), 2*n, "firings have arrived")
	for id, times := range w.recorded() {
		if times != 1 {
			t.Errorf("%s was recorded %d times", id, times)
		}
	}
	t.Logf("%d messages for %d firings", len(slow.list()), 2*n)
}

// recorded counts the records of firings by ID.
func (w *fixture) recorded() map[string]int {
	w.t.Helper()
	times := map[string]int{}
	for _, rec := range w.records("firings") {
		r, id := must.Get2(rule.ParseRecord(rec.Value))(w.t)
		if r.Kind == rule.FiredRecord {
			times[id.String()]++
			if r.At > rec.Timestamp {
				w.t.Errorf("%s of %d was recorded at %d", id, r.At, rec.Timestamp)
			}
		}
	}
	return times
}

// records reads partition 0 of a topic.
func (w *fixture) records(name string) (list []record.Record) {
	w.t.Helper()
	l := w.node.EventLog()
	topic, _ := l.Topic(name)
	p, _ := l.Position(topic.ID)
	for at := p.Topics[0][0].Start; at < p.Topics[0][0].Next; {
		b := must.Get(l.Read(w.t.Context(), topic.ID, 0, at, 1<<20))(w.t)
		var r record.Reader
		for _, part := range b.Parts {
			for r.Reset(part, at); r.Next(); {
				rec := *r.Record()
				rec.Key, rec.Value = []byte(string(rec.Key)), []byte(string(rec.Value))
				rec.Headers = append([]record.Header(nil), rec.Headers...)
				list, at = append(list, rec), rec.Offset+1
			}
		}
		b.Release()
	}
	return list
}

// TestUnreadEvents: events that arrive while no engine runs are read before deadlines that passed
// meanwhile.
func TestUnreadEvents(t *testing.T) {
	w := newFixture(t)
	r := receive(t, nil)
	const window = time.Second
	w.put("x", "a THEN (NOT b WITHIN 1s)", to(r.URL, ""), nil)
	for _, e := range []string{"ended", "kept"} {
		w.event(e, "a")
	}
	w.close()
	w.bare(func(l rules.Log) { appendEvent(t, l, "ended", "b") })
	for end := time.Now().Add(window); time.Now().Before(end); { // until both deadlines have passed
		<-time.NewTimer(10 * time.Millisecond).C
	}
	w.open()
	list := w.firings(func(list []rules.Firing) bool {
		for i := range list {
			if list[i].Entity == "kept" && list[i].State == rule.Delivered {
				return true
			}
		}
		return false
	})
	events := w.records("events")
	if late := events[2].Timestamp-events[0].Timestamp > window.Milliseconds(); len(list) != 1 && !late {
		t.Errorf("firings %+v", list)
	}
}

// TestFrequencyCap: a firing that the cap delays waits without an attempt, and a retraction cancels
// it.
func TestFrequencyCap(t *testing.T) {
	w := newFixture(t)
	r := receive(t, nil)
	w.put("x", "a THEN NOT b", to(r.URL, `, "frequency_cap": {"count": 1, "per": "1d"}`), func(d *rule.Definition) {
		d.Fire, d.OnRetract = rule.OnEdge, rule.Notify
	})
	w.event("user", "a")
	w.firings(all(1, rule.Delivered))
	w.event("user", "b")
	r.wait(2)
	w.event("user", "a")
	list := w.firings(func(list []rules.Firing) bool {
		return len(list) == 2 && list[0].State == rule.Delivered && list[0].Retraction && list[1].NextTry > list[1].Recorded
	})
	held := list[1]
	if day := 24 * time.Hour.Milliseconds(); held.State != rule.Pending || held.Tries != 0 || held.NextTry < list[0].Recorded+day || held.NextTry > held.Recorded+day {
		t.Errorf("delayed firing: %+v", held)
	}
	w.event("other", "a")
	r.wait(3)
	w.event("user", "b")
	w.firings(func(list []rules.Firing) bool { return len(list) == 3 && list[1].State == rule.Retracted })
	got := r.list()
	if len(got) != 3 || got[1].id != got[0].id+"-retracted" || got[1].ID != got[0].ID || got[1].Type != webhook.TypeRetracted || got[2].Data.Entity != "other" {
		t.Errorf("messages %+v", got)
	}
}

// TestQuietHours: nothing is sent in quiet hours, and a firing that is retracted meanwhile is never
// sent.
func TestQuietHours(t *testing.T) {
	w := newFixture(t)
	r := receive(t, nil)
	now := time.Now().UTC()
	hours := fmt.Sprintf(`, "quiet_hours": {"from": "%s", "to": "%s", "zone": "UTC"}`, now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04"))
	w.put("held", "a THEN NOT b", to(r.URL, hours), func(d *rule.Definition) { d.Fire, d.OnRetract = rule.OnEdge, rule.Notify })
	w.put("loud", "b", to(r.URL, ""), nil)
	w.event("user", "a")
	w.firings(func(list []rules.Firing) bool { return len(list) == 1 && list[0].Recorded != 0 })
	w.event("user", "b")
	list := w.firings(func(list []rules.Firing) bool { return len(list) == 2 && list[1].State == rule.Delivered })
	if list[0].State != rule.Retracted || list[0].Tries != 0 {
		t.Errorf("delayed firing: %+v", list[0])
	}
	if got := r.list(); len(got) != 1 || got[0].Data.Trigger != "loud" {
		t.Errorf("messages %+v", got)
	}
}

// TestAnswers: failures are retried by the trigger's schedule. A receiver that asks for a pause
// gets one from all triggers, and one that is gone pauses its trigger.
func TestAnswers(t *testing.T) {
	w := newFixture(t)
	again := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w.put("again", "a", to(again.URL, `, "retries": ["10ms", "10ms"]`), nil)
	w.event("user", "a")
	if list := w.firings(all(1, rule.Delivered)); list[0].Tries != 3 {
		t.Errorf("%+v", list[0])
	}
	if got := again.wait(3); got[0].id != got[2].id || got[2].Attempt != 3 {
		t.Errorf("messages %+v", got)
	}

	busy := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w.put("busy", "c", to(busy.URL, ""), nil)
	w.event("user", "c")
	w.firings(func(list []rules.Firing) bool {
		return len(list) == 2 && list[1].NextTry >= list[1].Recorded+600_000
	})
	w.put("same", "d", to(busy.URL, ""), nil)
	w.event("user", "d")

	gone := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	w.put("gone", "e", to(gone.URL, ""), nil)
	w.event("user", "e")
	w.firings(func(list []rules.Firing) bool { return len(list) == 4 && list[3].State == rule.Dead })
	if x, err := w.node.Triggers().Trigger(t.Context(), "gone"); err != nil || x.Status != rule.Paused {
		t.Errorf("the trigger of the receiver is %v, %v, want paused", x.Status, err)
	}
	list := w.firings(func([]rules.Firing) bool { return true })
	if len(busy.list()) != 1 || list[2].Tries != 0 || list[2].State != rule.Pending {
		t.Errorf("%d messages to a paused receiver; %+v", len(busy.list()), list[2])
	}
}

// TestTopics: a message may be appended to a topic, which is created. Firings of a trigger without
// a destination are delivered at once.
func TestTopics(t *testing.T) {
	w := newFixture(t)
	w.put("x", "a", `{"topic": "mails"}`, nil)
	w.put("y", "b", "", nil)
	w.event("user", "a")
	w.event("user", "b")
	list := w.firings(all(2, rule.Delivered))
	recs := w.records("mails")
	must.Equalf(t, len(recs), 1, "records")
	var f webhook.Firing
	must.NoError(t, json.Unmarshal(recs[0].Value, &f))
	if id := list[0].ID.String(); f.ID != id || string(recs[0].Key) != "user" || string(recs[0].Headers[0].Value) != id || recs[0].Timestamp != list[0].At {
		t.Errorf("record %+v of %+v", recs[0], list[0])
	}
	var b strings.Builder
	w.set.WritePrometheus(&b)
	if want := `seb_deliveries_attempts_total{outcome="delivered"} 2`; !strings.Contains(b.String(), want) {
		t.Errorf("missing %s in:\n%s", want, b.String())
	}
}

// TestFewSlots: with two slots, one per trigger, slow receivers do not block other triggers
// permanently.
func TestFewSlots(t *testing.T) {
	w := newFixture(t)
	w.disp.Close()
	w.hooks = inner.Options{Total: 2}
	w.deliver()
	next := make(chan struct{})
	r := receive(t, func(int, http.ResponseWriter, *http.Request) { <-next })
	const hooks, entities = 6, 3
	for i := range hooks {
		w.put(fmt.Sprintf("x%d", i), "a", to(r.URL, ""), nil)
	}
	for i := range entities {
		w.event(fmt.Sprintf("user-%d", i), "a")
	}
	for i := range hooks * entities {
		r.wait(i + 1)
		next <- struct{}{}
	}
	w.firings(all(hooks*entities, rule.Delivered))
	check.Equalf(t, len(r.list()), hooks*entities, "messages")
}

// TestSlotsInTurn: triggers with a backlog that have all slots leave the next one to another trigger.
func TestSlotsInTurn(t *testing.T) {
	w := newFixture(t)
	w.disp.Close()
	w.hooks = inner.Options{Total: 2}
	w.deliver()
	begin, late := make(chan struct{}), make(chan int, 1)
	const entities = 30
	r := receive(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		<-begin
		<-time.NewTimer(10 * time.Millisecond).C // a slow receiver
		if r.URL.Path == "/late" {
			late <- n
		}
	})
	for _, id := range []string{"x", "y"} {
		w.put(id, "a", to(r.URL, ""), nil)
	}
	for i := range entities {
		w.event(fmt.Sprintf("user-%d", i), "a")
	}
	r.wait(2)
	w.put("z", "b", to(r.URL+"/late", ""), nil)
	w.event("late", "b")
	w.firings(func(list []rules.Firing) bool { return len(list) == 2*entities+1 && list[2*entities].Recorded != 0 })
	close(begin)
	w.firings(all(2*entities+1, rule.Delivered))
	if n := <-late; n > entities {
		t.Errorf("the message of the third trigger was number %d of %d", n, 2*entities+1)
	}
}
