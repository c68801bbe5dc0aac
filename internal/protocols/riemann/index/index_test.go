package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestNewestEventByHostAndService(t *testing.T) {
	l := newLog(2)
	x := open(t, l.broker(), "")
	same(t, "an empty topic", ask(t, x, "true"))
	l.post(0, `a disk {"state":"ok","metric":1}`, `a load {"metric":0.5}`, `a disk {"state":"critical","metric":2}`)
	l.post(1, `b disk {"tags":["x","y z"]}`, `b gone {"state":"ok"}`, `b none`)
	same(t, "all", ask(t, x, "true"), `a disk {"state":"critical","metric":2}`, `a load {"metric":0.5}`, `b disk {"tags":["x","y z"]}`, `b gone {"state":"ok"}`, `b none {}`)
	same(t, "a key", ask(t, x, `host = "a" and service = "disk"`), `a disk {"state":"critical","metric":2}`)
	same(t, "a key and more", ask(t, x, `host = "a" and service = "disk" and state = "ok"`))
	same(t, "an unknown key", ask(t, x, `host = "c" and service = "disk"`))
	same(t, "tags", ask(t, x, `tagged "y z"`), `b disk {"tags":["x","y z"]}`)
	l.post(1, `b gone {"state":"expired"}`)
	same(t, "an event of a client that expires another", ask(t, x, `host = "b" and metric = nil`), `b disk {"tags":["x","y z"]}`, `b none {}`)
	if x.met.entries.Load() != 4 || x.met.bytes.Load() == 0 {
		t.Errorf("%d entries, %d bytes", x.met.entries.Load(), x.met.bytes.Load())
	}
}

func TestWaitForAnOffset(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		x := open(t, l.broker(), "")
		done := make(chan error, 1)
		go func() { done <- x.WaitFor(t.Context(), 0, 1) }()
		l.post(0, `a s {}`)
		synctest.Wait()
		if len(done) > 0 {
			t.Fatal("it did not wait for offset 1")
		}
		l.post(0, `a s {}`)
		must.NoError(t, <-done)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := x.WaitFor(ctx, 0, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitFor returns %v at its deadline", err)
		}
		go func() { done <- x.WaitFor(t.Context(), 0, 2) }()
		synctest.Wait()
		x.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("WaitFor returns %v after Close", err)
		}
		if err := x.Query(t.Context(), parse(t, "true"), 1<<20, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Query returns %v after Close", err)
		}
	})
}

func TestFieldsOfAnEvent(t *testing.T) {
	e := of(`{ "state" : "o\u006b" , "metric":-1.5, "ttl":"Infinity",
		"tags": [ "a\"b" , {"x":[1,"]"]}, "ü" ], "rack":"r1","room":[1], "b\u0061r":true, "n":null, "f":false}`, 1_600_000_000_000_000)
	for text, want := range map[string]bool{
		`host = "h" and service = "s"`:                         true,
		`state = "ok" and metric = -1.5 and time = 16e8`:       true,
		`ttl = Infinity and ttl > 1`:                           true,
		`rack = "r1" and bar = true and n = nil and f = false`: true,
		`tagged "a\"b" and tagged "ü"`:                         true,
		`tagged "x" or tagged "]" or room = nil`:               false,
		`room`:                                                 true,
		`nothing = nil and not nothing`:                        true,
	} {
		check.Equalf(t, parse(t, text).Match(e), want, "%s", text)
	}
	want := `{"host":"h","service":"s","time":"2020-09-13T12:26:40.000Z","state":"o\u006b","metric":-1.5,"ttl":"Infinity",` +
		`"tags":[ "a\"b" , {"x":[1,"]"]}, "ü" ],"rack":"r1","room":[1],"b\u0061r":true,"n":null,"f":false}`
	if got := string(e.AppendJSON(nil)); got != want || !json.Valid([]byte(got)) {
		t.Errorf("AppendJSON:\n%s, want\n%s", got, want)
	}
	e = of(`5`, noTime)
	check.Equalf(t, string(e.AppendJSON(nil)), `{"host":"h","service":"s","time":"2023-11-14T22:13:20.123Z"}`, "an event without data")
	if !parse(t, "time = 1700000000.123").Match(e) {
		t.Error("the append time is not the time of an event without one")
	}
	if e = of(`{"host":null,"service":"long","time":-5}`, noTime); !parse(t, `host = nil and service = "long" and time = -5`).Match(e) {
		t.Error("members of the data do not replace host and service")
	}
}

// of returns an event of host h and service s.
func of(data string, time int64) *Event {
	e := &Event{}
	e.set(&entry{key: keyOf(nil, "h", "s"), at: 1_700_000_000_123, time: time, data: []byte(data)})
	return e
}

func TestDeadline(t *testing.T) {
	for data, want := range map[string]int64{
		`{}`: 61_000, `{"ttl":3}`: 4_000, `{"ttl":0.25}`: 1_250, `{"ttl":0}`: 1_000, `{"ttl":-5}`: 1_000, `{"ttl":"3"}`: 61_000, `{"ttl":null}`: 61_000,
		`{"ttl":"NaN"}`: 61_000, `{"ttl":"Infinity"}`: never, `{"ttl":"-Infinity"}`: 1_000, `{"ttl":1e300}`: never, `{"ttl":1e400}`: never,
	} {
		e := of(data, noTime)
		if e.at = 1000; e.deadline(time.Minute) != want {
			t.Errorf("the deadline of %s is %d, want %d", data, e.deadline(time.Minute), want)
		}
	}
}

func TestBounds(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "", func(o *Options) { o.EntriesMax, o.BytesMax = 3, 3*(entryBytes+40) })
	l.post(0, `a s {}`, `b s {}`, `c s {}`)
	l.post(0, `d s {}`, `a s {"state":"new"}`)
	same(t, "a new key beyond the limit", ask(t, x, "true"), `a s {"state":"new"}`, `b s {}`, `c s {}`)
	l.post(0, `b s {"state":"expired"}`)
	l.post(0, `d s {}`)
	same(t, "after an expired event", ask(t, x, "true"), `a s {"state":"new"}`, `c s {}`, `d s {}`)
	l.post(0, `c s {"state":"`+strings.Repeat("x", 200)+`"}`)
	same(t, "beyond the bytes", ask(t, x, "true"), `a s {"state":"new"}`, `d s {}`)
	check.Equalf(t, x.met.refused.Get(), 2, "events refused")
}

func TestAnswerIsBoundedBeforeItIsBuilt(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "", func(o *Options) { o.AnswerBytes = 2 * (matchBytes + 10) })
	l.post(0, `a s {}`, `b s {}`, `c s {}`)
	same(t, "two events", ask(t, x, `not host = "c"`), `a s {}`, `b s {}`)
	var many *TooManyError
	err := x.Query(t.Context(), parse(t, "true"), 1<<20, func(*Event) error { t.Error("an event of an answer that is too large"); return nil })
	if !errors.As(err, &many) || many.Matches != 3 || err.Error() != "3 events match (495 bytes, the limit is 340), narrow the query" {
		t.Errorf("error %v", err)
	}
	if _, err := x.Subscribe(t.Context(), parse(t, "true"), nil); !errors.As(err, &many) {
		t.Errorf("Subscribe: error %v", err)
	}
	sebtest.Eventually(t, "a change of state", func() bool { return x.met.subscribers.Load() == 0 })
}

func TestRebuild(t *testing.T) {
	l := newLog(1)
	b := l.broker()
	path := filepath.Join(t.TempDir(), "riemann.db")
	x := open(t, b, path)
	l.post(0, `a s {"state":"one"}`, `b s {}`)
	same(t, "before", ask(t, x, "true"), `a s {"state":"one"}`, `b s {}`)
	x.Close()
	l.post(0, `a s {"state":"two"}`)
	x = open(t, b, path)
	same(t, "the file continues", ask(t, x, "true"), `a s {"state":"two"}`, `b s {}`)
	check.Equalf(t, x.met.records.Get(), 1, "records were read again")
	x.Close()

	must.NoError(t, os.WriteFile(path, []byte("no database"), 0o600))
	x = open(t, b, path)
	same(t, "a damaged file is rebuilt", ask(t, x, "true"), `a s {"state":"two"}`, `b s {}`)
	x.Close()
	forge(t, path)
	x = open(t, b, path)
	must.NoError(t, x.CatchUp(t.Context()))
	check.ErrorIsf(t, x.Query(t.Context(), parse(t, "true"), 1<<20, nil), ErrUnavailable, "the query of a changed event returns")
	sebtest.Eventually(t, "a change of state", func() bool { return x.met.rebuilds.Get() == 1 })
	same(t, "a changed event is rebuilt", ask(t, x, "true"), `a s {"state":"two"}`, `b s {}`)
	x.Close()

	l.mu.Lock()
	l.parts[0] = &fakePartition{}
	l.mu.Unlock()
	l.post(0, `c s {}`)
	x = open(t, b, path)
	same(t, "a log that was restored to an earlier state", ask(t, x, "true"), `c s {}`)

	l.elect(b)
	l.mu.Lock()
	l.topic, l.parts[0] = record.NewID(), &fakePartition{}
	l.mu.Unlock()
	l.post(0, `d s {}`)
	same(t, "a topic that was deleted and created", ask(t, x, "true"), `d s {}`)
	l.mu.Lock()
	l.topic = record.ID{}
	l.mu.Unlock()
	l.idle()
	sebtest.Eventually(t, "a change of state", func() bool { p, _, err := x.peek(); return err == nil && p.topic.IsZero() })
	same(t, "a deleted topic", ask(t, x, "true"))
}

// forge changes an event in the file without its checksum.
func forge(t *testing.T, path string) {
	db := must.Get(localdb.Open(path, 1, nil))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), `UPDATE entry SET data = CAST(replace(CAST(data AS TEXT), 'two', 'six') AS BLOB)`))(t)
}

func TestRecordsThatAreNoEventsAreSkipped(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "")
	l.mu.Lock()
	l.appendLocked(0, []record.Record{{Value: []byte("text")}, {Key: []byte("k"), Value: []byte(`{"entity_id":"other","event":"s"}`)}, {Key: []byte("k")}})
	l.mu.Unlock()
	l.post(0, `a s {}`)
	same(t, "the event", ask(t, x, "true"), `a s {}`)
	l.mu.Lock()
	l.appendLocked(0, []record.Record{{Key: []byte("a"), Value: []byte("{\"entity_id\":\"a\",\"event\":\"s\",\"data\":{\"x\":\"\xff\"}}")}})
	l.mu.Unlock()
	same(t, "bytes that are not UTF-8", ask(t, x, "true"), "a s {\"x\":\"\ufffd\"}")
	check.Equalf(t, x.met.skipped.Get(), 3, "records skipped")
}

func TestLargeBatchesAreAppliedInPieces(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "", func(o *Options) { o.ReadBytes = 500 })
	var events, want []string
	for i := range 100 {
		events = append(events, fmt.Sprintf(`h%02d s {"metric":%d}`, i%40, i))
	}
	for i := range 40 {
		last := i + 80
		if i >= 20 {
			last = i + 40
		}
		want = append(want, fmt.Sprintf(`h%02d s {"metric":%d}`, i, last))
	}
	l.post(0, events...)
	same(t, "all", ask(t, x, "true"), want...)
}

func TestManyEvents(t *testing.T) {
	l := newLog(1)
	x := open(t, l.broker(), "")
	var events []string
	n := sebtest.Runs(20_000, 2000)
	last := fmt.Sprint("h", n-1)
	newest := fmt.Sprintf(`%s s {"metric":%d,"state":"ok"}`, last, n-1)
	for i := range n {
		events = append(events, fmt.Sprintf(`h%d s {"metric":%d,"state":"ok"}`, i, i))
	}
	l.post(0, events...)
	same(t, "one of many", ask(t, x, `host = "`+last+`" and service = "s"`), newest)
	if n := rowsRead(t, x, `host = "`+last+`" and service = "s" and metric > 0`); n != 1 {
		t.Errorf("a query by host and service reads %d events, want 1", n)
	}
	if n := rowsRead(t, x, `host = "`+last+`"`); n != len(events) {
		t.Errorf("a query by host reads %d events, want %d", n, len(events))
	}
	same(t, "a search in many", ask(t, x, fmt.Sprint("metric > ", n-2)), newest)
	var many *TooManyError
	if err := x.Query(t.Context(), parse(t, "true"), int64(50*n), nil); !errors.As(err, &many) || many.Matches != n {
		t.Errorf("error %v", err)
	}
}

// rowsRead returns how many events a query reads.
func rowsRead(t *testing.T, x *Index, text string) (n int) {
	rows := must.Get(selected(t.Context(), x.file.Readers, parse(t, text)))(t)
	defer rows.Close()
	for rows.Next() {
		n++
	}
	must.NoError(t, rows.Err())
	return n
}
