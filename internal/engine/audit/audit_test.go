package audit_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// written is the events that a Sampler selects.
type written struct {
	events  []audit.Event
	times   []time.Time
	dropped int
}

// take calls Take when the Sampler asks for it, until it has nothing more to do.
func (w *written) take(s *audit.Sampler, wake, stop <-chan struct{}) {
	for {
		events, dropped, next := s.Take()
		w.dropped += dropped
		for _, e := range events {
			w.events, w.times = append(w.events, e), append(w.times, time.Now())
		}
		timer := time.NewTimer(time.Until(next))
		if next.IsZero() {
			timer.Reset(time.Hour)
		}
		select {
		case <-stop:
			return
		case <-wake:
		case <-timer.C:
		}
	}
}

// sampled runs load in virtual time, and returns what is written until minutes after it.
func sampled(t *testing.T, load func(s *audit.Sampler)) *written {
	t.Helper()
	w := &written{}
	synctest.Test(t, func(*testing.T) {
		wake, stop, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		s := audit.NewSampler(time.Now, wake)
		go func() {
			defer close(done)
			w.take(s, wake, stop)
		}()
		load(s)
		time.Sleep(10 * time.Minute) // virtual
		close(stop)
		<-done
	})
	return w
}

func denied(n int) audit.Event {
	return audit.Event{Change: audit.Change{Action: fmt.Sprint("topic.", n)}, Outcome: audit.Denied}
}

// counted returns how many events the records stand for, and the most records in a minute.
func (w *written) counted() (events, most int) {
	for i := range w.events {
		events += max(1, w.events[i].Count)
		n := 0
		for _, at := range w.times[i:] {
			if at.Sub(w.times[i]) < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return events, most
}

func TestSampler(t *testing.T) {
	t.Run("a guesser makes two records a minute at most", func(t *testing.T) {
		const total = 100 * 60 * 5
		w := sampled(t, func(s *audit.Sampler) {
			for range total {
				s.Add("192.0.2.0/24", denied(1))
				time.Sleep(10 * time.Millisecond)
			}
		})
		if events, most := w.counted(); events != total || most > 2 || len(w.events) > 7 || w.dropped != 0 {
			t.Errorf("%d records for %d events, %d in a minute, %d dropped", len(w.events), events, most, w.dropped)
		}
	})
	t.Run("the first of each source and kind is recorded at once", func(t *testing.T) {
		w := sampled(t, func(s *audit.Sampler) {
			for i := range 30 {
				s.Add(fmt.Sprint("u", i%3), denied(i%2))
			}
			synctest.Wait()
		})
		if events, _ := w.counted(); events != 30 || len(w.events) != 12 || w.times[5] != w.times[0] || w.times[6].Sub(w.times[0]) != time.Minute {
			t.Errorf("%d records for %d events at %v", len(w.events), events, w.times)
		}
	})
	t.Run("many sources make a bounded number of records", func(t *testing.T) {
		total := sebtest.Runs(100_000, 20_000)
		w := sampled(t, func(s *audit.Sampler) {
			for i := range total {
				s.Add(fmt.Sprint("n", i), denied(1))
				time.Sleep(100 * time.Second / time.Duration(total))
			}
		})
		if events, most := w.counted(); events+w.dropped != total || most > 60 {
			t.Errorf("%d events recorded, %d dropped of %d; %d records in a minute", events, w.dropped, total, most)
		}
	})
	t.Run("without events nothing is due", func(t *testing.T) {
		w := sampled(t, func(s *audit.Sampler) {
			s.Add("u", denied(1))
			time.Sleep(61 * time.Second)
			if _, _, next := s.Take(); !next.IsZero() {
				t.Errorf("Take is due at %v", next)
			}
		})
		check.Equalf(t, len(w.events), 1, "records")
	})
	t.Run("nil", func(*testing.T) { (*audit.Sampler)(nil).Add("u", denied(1)) })
}

func TestBatch(t *testing.T) {
	o := audit.Origin{Principal: "shop", Secret: 0xabc, From: "192.0.2.1:5", Protocol: "kafka", Request: strings.Repeat("r", 1000)}
	c := audit.Change{
		Action: "topic.create", Resource: audit.Resource{Type: "topic", Name: "orders"}, Details: map[string]string{"rules": strings.Repeat("x", 1<<20)},
	}
	now := time.UnixMilli(1_700_000_000_123)
	data, sum, err := audit.Batch(&o, &c, audit.Done, 0, now)
	if err != nil || sum.Records != 1 || len(data) > 20<<10 {
		t.Fatalf("%d bytes, %+v, %v", len(data), sum, err)
	}
	var r record.Reader
	if r.Reset(data, 0); !r.Next() {
		t.Fatal(r.Err())
	}
	var got api.AuditRecord
	must.NoError(t, json.Unmarshal(r.Record().Value, &got))
	if string(r.Record().Key) != "topic/orders" || r.Record().Timestamp != now.UnixMilli() || got.Actor != (api.AuditActor{Principal: "shop", Secret: "abc"}) ||
		got.From != o.From || got.Protocol != "kafka" || len(got.Request) > 300 || got.Action != c.Action || got.Resource != api.AuditResource(c.Resource) || got.Outcome != "done" {
		t.Errorf("key %q, time %d, %+v", r.Record().Key, r.Record().Timestamp, got)
	}
}

// TestSamplerHoldsNoRequests: events that point into large requests do not keep them.
func TestSamplerHoldsNoRequests(t *testing.T) {
	s := audit.NewSampler(time.Now, make(chan struct{}, 1))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1500 {
		request := strings.Repeat("r", 64<<10)
		e := denied(i)
		e.Request, e.Resource.Name, e.From = request, request[:200], request[200:220]
		s.Add("u", e)
		s.Add("u", e)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 3<<20 {
		t.Errorf("%d bytes held", held)
	}
	if events, dropped, _ := s.Take(); len(events) != 60 || len(events[0].Request) > 300 || dropped == 0 {
		t.Errorf("%d events, %d dropped", len(events), dropped)
	}
}
