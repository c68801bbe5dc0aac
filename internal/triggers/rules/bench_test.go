package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// fill appends events of random entities.
func fill(b testing.TB, s *stepped, n, entities, names int) (total int) {
	r := rand.New(rand.NewPCG(1, 2))
	appendEvents(b, s, n, func(int) rule.Event {
		return ev(fmt.Sprintf("user-%07d", r.IntN(entities)), fmt.Sprintf("event-%d", r.IntN(names)))
	})
	return n
}

// appendEvents appends n events, a thousand per slot, one slot per millisecond.
func appendEvents(b testing.TB, s *stepped, n int, event func(i int) rule.Event) {
	t, _ := s.b.Topic("events")
	for from := 0; from < n; from += 1000 {
		var recs [2][]record.Record
		for i := range 1000 {
			e := event(from + i)
			part := s.b.partOf(t, e.EntityID)
			recs[part] = append(recs[part], record.Record{Key: []byte(e.EntityID), Value: must.Get(json.Marshal(e))(b)})
		}
		s.b.mu.Lock()
		for part := range recs {
			s.b.appendLocked(t.ID, uint32(part), recs[part])
		}
		s.b.mu.Unlock()
		s.b.advance(time.Millisecond)
	}
}

// inTurn are events of entities that follow each other in no order of their names.
func inTurn(name string, from int) func(i int) rule.Event {
	return func(i int) rule.Event { return ev(fmt.Sprintf("user-%07d", (from+i)*7919%1_000_000), name) }
}

func benchEngine(b testing.TB) *stepped {
	return stepBy(b, newLog().broker(true), filepath.Join(b.TempDir(), "triggers.db"), nil)
}

// BenchmarkEvents measures an event with 100 triggers, three of which mention it.
func BenchmarkEvents(b *testing.B) {
	for _, entities := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			s := benchEngine(b)
			const names = 66 // each trigger mentions two
			for i := range 100 {
				expr := fmt.Sprintf(`"event-%d" THEN (NOT "event-%d" WITHIN 7 days)`, i*2%names, (i*2+1)%names)
				s.put(s.definition(fmt.Sprint("t", i), expr, nil))
			}
			s.settle()
			for b.Loop() {
				b.StopTimer()
				n := fill(b, s, 100_000, entities, names)
				b.StartTimer()
				before, at := s.counted("steps_total"), time.Now()
				for s.w.Step(b.Context()) == 0 {
				}
				b.ReportMetric(float64(n)/time.Since(at).Seconds(), "events/s")
				b.ReportMetric(float64(s.counted("steps_total")-before)/float64(n), "steps/event")
			}
		})
	}
}

// BenchmarkManyTriggers measures an event that all triggers mention.
func BenchmarkManyTriggers(b *testing.B) {
	for _, triggers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("triggers=%d", triggers), func(b *testing.B) {
			s := benchEngine(b)
			for i := range triggers {
				s.put(s.definition(fmt.Sprint("t", i), fmt.Sprintf(`e0 THEN (NOT e1 WITHIN %d days)`, i+1), nil))
			}
			s.settle()
			const entities = 10_000
			total := 0
			for b.Loop() {
				b.StopTimer()
				appendEvents(b, s, entities, inTurn("e0", total))
				total += entities
				b.StartTimer()
				at := time.Now()
				s.settle()
				b.ReportMetric(float64(time.Since(at).Microseconds())/entities, "us/event")
			}
		})
	}
}

// BenchmarkInstances measures an instance on disk.
func BenchmarkInstances(b *testing.B) {
	const entities = 1_000_000
	for b.Loop() {
		s := benchEngine(b)
		s.put(s.definition("week", `signup THEN (NOT use WITHIN 7 days)`, func(d *rule.Definition) { d.Fire = rule.OnEdge }))
		s.settle()
		appendEvents(b, s, entities, inTurn("signup", 0))
		at := time.Now()
		s.settle()
		b.ReportMetric(entities/time.Since(at).Seconds(), "events/s")
		list, err := s.Triggers()
		must.NoError(b, err)
		var rows, due int64
		err = s.follower.Query(func(q store.Queries) (err error) {
			rows, due, err = q.Count(b.Context(), list[0].No)
			return err
		})
		if err != nil || rows != entities || due != entities {
			b.Fatalf("%d rows, %d due: %v", rows, due, err)
		}
		s.end()
		info, err := os.Stat(s.path)
		must.NoError(b, err)
		b.ReportMetric(float64(info.Size())/1e6, "MB")
		b.ReportMetric(float64(info.Size())/entities, "bytes/instance")
	}
}

// BenchmarkStorm measures firings at deadlines of one instant, until all are recorded and read back.
func BenchmarkStorm(b *testing.B) {
	const entities = 100_000
	for b.Loop() {
		b.StopTimer()
		s := benchEngine(b)
		s.put(s.definition("hour", `A THEN (NOT B WITHIN 1 hour)`, nil))
		s.settle()
		t, _ := s.b.Topic("events")
		var recs [2][]record.Record
		for i := range entities {
			e := ev(fmt.Sprintf("user-%07d", i*7919%entities), "A")
			part := s.b.partOf(t, e.EntityID)
			recs[part] = append(recs[part], record.Record{Key: []byte(e.EntityID), Value: must.Get(json.Marshal(e))(b)})
		}
		s.b.mu.Lock()
		for part := range recs {
			s.b.appendLocked(t.ID, uint32(part), recs[part])
		}
		s.b.mu.Unlock()
		s.settle()
		s.b.advance(time.Hour)
		b.StartTimer()
		before := machine.CPUTime()
		for s.counted("firings_recorded_total") < entities {
			s.b.advance(s.w.Step(b.Context()))
		}
		b.ReportMetric(float64((machine.CPUTime()-before).Microseconds())/entities, "cpu-µs/firing")
		b.StopTimer()
		s.settle()
		s.end()
		b.StartTimer()
	}
}

// BenchmarkDeadline measures the delay between a deadline and the record of its firing, on a log
// without latency.
func BenchmarkDeadline(b *testing.B) {
	log := newLog().broker(true)
	stop, done := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() { // the log uses the real clock
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				log.until(time.Since(began))
			}
		}
	}()
	e, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "triggers.db"), Log: log, Now: log.now})
	must.NoError(b, err)
	put(b, e, newDefinition(b, "t", "A THEN (NOT B WITHIN 50 ms)"))
	most, n := int64(0), 0
	for b.Loop() {
		n++
		log.post(ev(fmt.Sprint("user", n), "A"))
		for recorded := false; !recorded; { // without waking the engine
			changed := e.Changed()
			list, err := e.Firings(b.Context(), FiringQuery{After: int64(n - 1), Limit: 1})
			if recorded = err == nil && len(list) > 0 && list[0].Recorded != 0; recorded {
				most = max(most, list[0].Recorded-list[0].At)
				break
			}
			<-changed
		}
	}
	b.ReportMetric(float64(most), "ms-late-at-most")
	must.NoError(b, e.Close())
	close(stop)
	<-done
}
