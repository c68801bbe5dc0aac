package index

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// pass lets time pass, and the index work.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestExpiryAtTheDeadline(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		l.post(0, `a s {"ttl":3,"state":"ok"}`, `b s {}`, `c s {"ttl":"Infinity"}`)
		pass(2999 * time.Millisecond)
		l.idle()
		synctest.Wait()
		same(t, "before the deadline", l.expired())
		same(t, "events before the deadline", ask(t, x, "true"), `a s {"ttl":3,"state":"ok"}`, `b s {}`, `c s {"ttl":"Infinity"}`)
		pass(5 * time.Millisecond)
		same(t, "after it", l.expired(), `a s riemann-expired-0 00:00:03`)
		same(t, "events after it", ask(t, x, "true"), `b s {}`, `c s {"ttl":"Infinity"}`)
		pass(time.Hour)
		same(t, "later", l.expired(), `a s riemann-expired-0 00:00:03`, `b s riemann-expired-1 00:01:00`)
		same(t, "events later", ask(t, x, "true"), `c s {"ttl":"Infinity"}`)
		check.Equalf(t, x.met.expired.Get(), 2, "events expired")
	})
}

// TestTurnsWithoutQueries: a turn after a commit of other topics queries the file only if a deadline may
// have passed. A query with a canceled context fails.
func TestTurnsWithoutQueries(t *testing.T) {
	timed(t, func(t *testing.T) {
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := newIndex(Options{Path: filepath.Join(t.TempDir(), "riemann.db"), Log: b, Topic: "riemann"})
		defer x.Close()
		turn := func(ctx context.Context, what string, ok bool) {
			t.Helper()
			if _, err := x.worker.Work(ctx); (err == nil) != ok {
				t.Fatalf("%s: %v", what, err)
			}
		}
		turn(t.Context(), "the first turn", true)
		l.idle()
		turn(canceled, "a commit while there are no events", true)
		for _, event := range []string{`a s {"ttl":60}`, `b s {"ttl":"Infinity"}`, `a s {"ttl":90}`} {
			l.post(0, event)
			turn(t.Context(), "an event", true)
			l.idle()
			turn(canceled, "a commit without events", true)
		}
		time.Sleep(70 * time.Second)
		turn(canceled, "after the first deadline, which was replaced", false)
		turn(t.Context(), "after the first deadline, which was replaced", true)
		l.idle()
		turn(canceled, "before the next deadline", true)
		same(t, "expired", l.expired())
		time.Sleep(30 * time.Second)
		turn(t.Context(), "after the deadline", true)
		same(t, "expired", l.expired(), "a s riemann-expired-2 00:01:30")
	})
}

func TestRefreshInTime(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		for range 10 {
			l.post(0, `a s {"ttl":3}`)
			pass(2 * time.Second)
		}
		l.post(0, `a s {"ttl":3}`)
		pass(3 * time.Second) // the next event is in the millisecond of the deadline
		l.post(0, `a s {"ttl":60}`)
		pass(59 * time.Second)
		same(t, "refreshed events", l.expired())
		same(t, "the event", ask(t, x, "true"), `a s {"ttl":60}`)
	})
}

// TestRefreshWhileTheExpiredRecordIsAppended: the append of an idle log is refused if an event comes
// before it.
func TestRefreshWhileTheExpiredRecordIsAppended(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		l.post(0, `a s {"ttl":3}`)
		l.mu.Lock()
		l.before = func() {
			l.mu.Lock()
			l.before = nil
			l.mu.Unlock()
			l.post(0, `a s {"ttl":50}`)
		}
		l.mu.Unlock()
		pass(40 * time.Second)
		same(t, "expired", l.expired())
		same(t, "the event", ask(t, x, "true"), `a s {"ttl":50}`)
		pass(20 * time.Second)
		same(t, "expired later", l.expired(), `a s riemann-expired-1 00:00:53`)
	})
}

// TestEventsBeforeEachAppend: a topic that always has an event before the append does not hold up
// the expired records, because its slots prove that the deadline has passed.
func TestEventsBeforeEachAppend(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		l.post(0, `a s {"ttl":3}`)
		l.mu.Lock()
		l.before = func() { l.post(0, `b s {"ttl":100}`) }
		l.mu.Unlock()
		pass(5 * time.Second)
		same(t, "expired", l.expired(), `a s riemann-expired-0 00:00:03`)
		same(t, "the events", ask(t, x, "true"), `b s {"ttl":100}`)
	})
}

// TestLateExpiredRecord: an expired record deletes only the event that it names.
func TestLateExpiredRecord(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "")
	l.post(0, `a s {"ttl":3}`)
	l.post(0, `a s {"ttl":60}`)
	key := keyOf(nil, "a", "s")
	l.mu.Lock()
	l.appendLocked(0, []record.Record{(&entry{key: key, offset: 0}).expiredRecord()})
	l.mu.Unlock()
	same(t, "the newer event", ask(t, x, "true"), `a s {"ttl":60}`)
	l.mu.Lock()
	l.appendLocked(0, []record.Record{(&entry{key: key, offset: 1}).expiredRecord()})
	l.mu.Unlock()
	same(t, "its own record", ask(t, x, "true"))
}

// TestExpiredRecord: an expired record is no event of its service. A client's service "expired" has
// events and expired records of its own.
func TestExpiredRecord(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		l.post(0, `a s {"ttl":0.5,"state":"ok"}`, `a expired {"ttl":3}`)
		pass(time.Second)
		got := must.Get(l.Read(t.Context(), l.topic, 0, 2, 1<<20))(t)
		var r record.Reader
		r.Reset(got.Parts[0], 2)
		if !r.Next() {
			t.Fatal(r.Err())
		}
		same(t, "the record", []string{string(r.Record().Key), string(r.Record().Value)}, "a",
			`{"event":"expired","entity_id":"a","data":{"service":"s","state":"expired","ttl":0.5},"id":"riemann-expired-0","occurred_at":"2000-01-01T00:00:00.5Z"}`)
		same(t, "the other service", ask(t, x, "true"), `a expired {"ttl":3}`)
		pass(time.Minute)
		same(t, "the expired records", l.expired(), `a s riemann-expired-0 00:00:00`, `a expired riemann-expired-1 00:00:03`)
		same(t, "the events in the end", ask(t, x, "true"))
	})
}

// TestExpiredRecordNamedLikeItsService: the event name of an expired record was its service.
func TestExpiredRecordNamedLikeItsService(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "")
	l.post(0, `a s {}`, `a expired {}`, `b s {}`)
	for i, service := range []string{"s", expiredName} {
		value := fmt.Sprintf(`{"event":%q,"entity_id":"a","id":"riemann-expired-%d","data":{"state":"expired"}}`, service, i)
		l.mu.Lock()
		l.appendLocked(0, []record.Record{{Key: []byte("a"), Value: []byte(value)}})
		l.mu.Unlock()
	}
	same(t, "events", ask(t, x, "true"), `b s {}`)
}

func TestBrokerThatWasDown(t *testing.T) {
	timed(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "riemann.db")
		l := newLog(2)
		b := l.broker()
		l.elect(b)
		x := open(t, b, path)
		l.post(0, `a s {"ttl":3}`)
		l.post(1, `b s {"ttl":3}`, `c s {"ttl":9999}`)
		same(t, "the events", ask(t, x, "true"), `a s {"ttl":3}`, `b s {"ttl":3}`, `c s {"ttl":9999}`)
		x.Close()
		pass(time.Hour)
		want := []string{`a s riemann-expired-0 00:00:03`, `b s riemann-expired-0 00:00:03`}
		for i := range 4 {
			l.elect(b)
			x = open(t, b, path)
			pass(time.Minute)
			same(t, "after the start", l.expired(), want...)
			same(t, "events after the start", ask(t, x, "true"), `c s {"ttl":9999}`)
			x.Close()
			if i == 1 {
				path = filepath.Join(t.TempDir(), "rebuilt.db")
			}
		}
	})
}

func TestOnlyTheLeaderExpires(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		one, two := l.broker(), l.broker()
		x, y := open(t, one, ""), open(t, two, "")
		l.post(0, `a s {"ttl":3}`)
		pass(time.Minute)
		same(t, "without a leader", l.expired())
		same(t, "the event without a leader", ask(t, x, "true"), `a s {"ttl":3}`)
		l.elect(two)
		synctest.Wait()
		want := `a s riemann-expired-0 00:00:03`
		same(t, "with a leader", l.expired(), want)
		l.elect(one)
		pass(time.Minute)
		same(t, "after a takeover", l.expired(), want)
		same(t, "the events of the first", ask(t, x, "true"))
		same(t, "the events of the second", ask(t, y, "true"))
	})
}

// TestTakeoverDuringAnAppend: whether the append of an unknown outcome is in the log or not, there
// is one expired record.
func TestTakeoverDuringAnAppend(t *testing.T) {
	for _, kept := range []bool{true, false} {
		timed(t, func(t *testing.T) {
			l := newLog(1)
			one, two := l.broker(), l.broker()
			l.elect(one)
			x, y := open(t, one, ""), open(t, two, "")
			l.post(0, `a s {"ttl":3}`)
			l.failing(func() (bool, error) { return kept, state.ErrOutcomeUnknown })
			pass(time.Minute)
			if n := len(l.expired()); n > 1 || n == 1 != kept {
				t.Fatalf("%d expired records before the takeover", n)
			}
			l.failing(nil)
			l.elect(two)
			pass(time.Minute)
			same(t, "after the takeover", l.expired(), `a s riemann-expired-0 00:00:03`)
			same(t, "events of the first", ask(t, x, "true"))
			same(t, "events of the second", ask(t, y, "true"))
		})
	}
}

func TestRefusedAppendsAreRepeated(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		open(t, b, "")
		l.post(0, `a s {"ttl":3}`)
		tries := 0
		l.failing(func() (bool, error) { tries++; return tries > 5, map[bool]error{false: errRefused}[tries > 5] })
		pass(time.Minute)
		same(t, "after refusals", l.expired(), `a s riemann-expired-0 00:00:03`)
		check.Equalf(t, tries, 6, "appends")
	})
}

// TestManyEventsExpireAtOnce: the expired records of many events are appended in pieces. During each
// append queries are answered, and events that come in between are in the index before the next one.
func TestManyEventsExpireAtOnce(t *testing.T) {
	timed(t, func(t *testing.T) {
		const batch = 100
		events := sebtest.Runs(3000, 600)
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "", func(o *Options) { o.expireBatch = batch })
		list := []string{`live s {"metric":0,"ttl":9999}`}
		for i := range events {
			list = append(list, fmt.Sprintf(`h%d s {"ttl":3}`, i))
		}
		l.post(0, list...)
		ask(t, x, `host = "live"`)
		appends, before, live := 0, 0, 0
		l.mu.Lock()
		l.before = func() {
			appends++
			if n := len(l.expired()); n-before > batch {
				t.Errorf("append %d has %d records, want at most %d", appends-1, n-before, batch)
			} else {
				before = n
			}
			var got []string
			err := x.Query(t.Context(), parse(t, `host = "live" and service = "s"`), 1<<20, func(e *Event) error {
				got = append(got, show(e))
				return nil
			})
			check.NoErrorf(t, err, "during append %d", appends)
			check.EqualSlicesf(t, got, []string{fmt.Sprintf(`live s {"metric":%d,"ttl":9999}`, live)}, "during append %d", appends)
			if appends%5 == 0 {
				live = appends
				l.post(0, fmt.Sprintf(`live s {"metric":%d,"ttl":9999}`, live))
			}
		}
		l.mu.Unlock()
		pass(time.Minute)
		l.mu.Lock()
		l.before = nil
		l.mu.Unlock()
		records := l.expired()
		if slices.Sort(records); len(records) != events || len(slices.Compact(records)) != events {
			t.Errorf("%d expired records, want one for each of %d events", len(records), events)
		}
		if appends < events/batch {
			t.Errorf("%d appends", appends)
		}
		same(t, "the event that is alive", ask(t, x, "true"), fmt.Sprintf(`live s {"metric":%d,"ttl":9999}`, live))
	})
}
