package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a log in memory with one topic of real batches, in slots with append times.
type fakeLog struct {
	mu      sync.Mutex // guards the fields below
	cluster record.ID
	topic   record.ID // zero: deleted
	epoch   record.ID
	parts   []*fakePartition
	time    int64 // of the newest slot, µs
	leader  *fakeBroker
	brokers []*fakeBroker
	fault   func() (kept bool, err error) // of the next appends of brokers; nil: none
	before  func()                        // called before an append of a broker
}

type fakePartition struct {
	start, next int64
	batches     []record.Batch
	origins     []record.ID
}

func newLog(partitions int) *fakeLog {
	l := &fakeLog{cluster: record.NewID(), topic: record.NewID(), epoch: record.NewID()}
	for range partitions {
		l.parts = append(l.parts, &fakePartition{})
	}
	l.idle()
	return l
}

// fakeBroker is a broker on the log.
type fakeBroker struct {
	*fakeLog
	changed chan struct{}
}

func (l *fakeLog) broker() *fakeBroker {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &fakeBroker{l, make(chan struct{}, 1)}
	l.brokers = append(l.brokers, b)
	return b
}

// elect makes a broker the leader; nil: none.
func (l *fakeLog) elect(b *fakeBroker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader, l.epoch = b, record.NewID()
	l.commitLocked(l.nowLocked())
}

// nowLocked returns the append time of the next slot.
func (l *fakeLog) nowLocked() int64 { return max(time.Now().UnixMicro(), l.time+1) }

func (l *fakeLog) commitLocked(at int64) {
	l.time = at
	for _, b := range l.brokers {
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// idle commits a slot without records.
func (l *fakeLog) idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commitLocked(l.nowLocked())
}

func (l *fakeLog) Cluster() record.ID { return l.cluster }

func (l *fakeLog) Topic(string) (record.ID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic, !l.topic.IsZero()
}

func (l *fakeLog) Position(topics ...record.ID) (p views.Position, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Time, p.Topics = l.time, make([][]views.Span, len(topics))
	for i, id := range topics {
		for _, part := range l.parts {
			if id == l.topic {
				p.Topics[i] = append(p.Topics[i], views.Span{Start: part.start, Next: part.next})
			}
		}
	}
	return p, true
}

func (l *fakeLog) Origin(_ record.ID, part uint32, offset int64) record.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.parts[part]; offset >= 0 && offset < p.next {
		return p.origins[offset]
	}
	return record.ID{}
}

func (l *fakeLog) Read(_ context.Context, _ record.ID, part uint32, offset int64, bytesMax int) (out views.Batches, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	for _, b := range l.parts[part].batches {
		if b.BaseOffset()+b.Span() > offset && (size == 0 || size+b.Len() <= bytesMax) {
			out.Parts = append(out.Parts, b)
			size += b.Len()
		}
	}
	return out, nil
}

func (b *fakeBroker) Changed() <-chan struct{} { return b.changed }

func (b *fakeBroker) Queried() {}

func (b *fakeBroker) LeadingEpoch() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != b {
		return 0
	}
	return 1
}

func (b *fakeBroker) Append(_ context.Context, _ record.ID, part uint32, recs []record.Record, expected int64) error {
	b.mu.Lock()
	before, fault := b.before, b.fault
	b.mu.Unlock()
	if before != nil {
		before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.leader != b:
		return state.ErrFenced
	case expected >= 0 && expected != b.parts[part].next:
		return state.ErrOffsetMismatch
	case fault == nil:
		b.appendLocked(part, recs)
		return nil
	}
	kept, err := fault()
	if kept {
		b.appendLocked(part, recs)
	}
	return err
}

func (l *fakeLog) appendLocked(part uint32, recs []record.Record) {
	data, _ := recordtest.Encode(recs, record.EncodeOptions{})
	p, at := l.parts[part], l.nowLocked()
	p.next = record.Patch(data, p.next, 1)
	record.StampAppendTime(data, at/1000)
	for len(data) > 0 {
		one, rest, err := record.Split(data)
		if err != nil {
			panic(err)
		}
		p.batches, data = append(p.batches, one), rest
	}
	for range recs {
		p.origins = append(p.origins, l.epoch)
	}
	l.commitLocked(at)
}

// failing sets the results of the next appends of brokers; nil: they succeed.
func (l *fakeLog) failing(fault func() (kept bool, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// post appends events to a partition, each "host service data".
func (l *fakeLog) post(part uint32, events ...string) {
	var recs []record.Record
	for _, text := range events {
		host, rest, _ := strings.Cut(text, " ")
		service, data, _ := strings.Cut(rest, " ")
		value, err := json.Marshal(rule.Event{EntityID: host, Name: service, Data: json.RawMessage(data)})
		if err != nil {
			panic(err)
		}
		recs = append(recs, record.Record{Key: []byte(host), Value: value})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appendLocked(part, recs)
}

// expired returns the expired records of the log: "host service id time".
func (l *fakeLog) expired() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		for _, b := range p.batches {
			var r record.Reader
			for r.Reset(b, 0); r.Next(); {
				e, err := rule.ParseEvent(r.Record().Key, r.Record().Value)
				if err == nil && e.Name == expiredName && e.ID != "" {
					var data expiredData
					if err := json.Unmarshal(e.Data, &data); err != nil {
						panic(err)
					}
					list = append(list, fmt.Sprintf("%s %s %s %s", e.EntityID, data.Service, e.ID, e.OccurredAt.Format(time.TimeOnly)))
				}
			}
		}
	}
	return list
}

// open opens an index of a broker. path "": a new file.
func open(t testing.TB, b *fakeBroker, path string, change ...func(o *Options)) *Index {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "riemann.db")
	}
	logs := &sebtest.Log{}
	o := Options{Path: path, Log: b, Topic: "riemann", Logger: slog.New(slog.NewTextHandler(logs, nil))}
	for _, f := range change {
		f(&o)
	}
	x := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() {
		x.Close()
		if t.Failed() {
			t.Log(logs)
		}
	})
	return x
}

// WaitFor waits until the index contains the event at an offset.
func (x *Index) WaitFor(ctx context.Context, partition uint32, offset int64) error {
	return x.wait(ctx, func(p *progress) bool {
		return int(partition) < len(p.next) && p.next[partition] > offset
	})
}

func parse(t testing.TB, text string) *query.Query {
	t.Helper()
	q := must.Get(query.Parse(text))(t)
	return q
}

// show returns an event as "host service data".
func show(e *Event) string { return fmt.Sprintf("%s %s %s", e.host, e.service, e.data) }

// ask returns the events that match, sorted, once the index has caught up.
func ask(t *testing.T, x *Index, text string) (list []string) {
	t.Helper()
	must.NoError(t, x.CatchUp(t.Context()))
	err := x.Query(t.Context(), parse(t, text), 1<<20, func(e *Event) error {
		list = append(list, show(e))
		return nil
	})
	must.NoError(t, err)
	slices.Sort(list)
	return list
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	must.EqualSlicesf(t, got, want, "%s: got", what)
}

// timed runs a test with simulated time.
func timed(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

var errRefused = errors.New("refused")
