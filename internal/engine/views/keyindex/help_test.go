package keyindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a log in memory: real batches of partitions, and the operations of a bucket.
type fakeLog struct {
	cluster record.ID
	changed chan struct{}

	mu     sync.Mutex // guards the fields below
	topics []*fakeTopic
	asked  int
	bad    record.ID // a topic whose Read fails with err
	err    error
	epoch  record.ID
}

type fakeTopic struct {
	id      record.ID
	indexed bool
	parts   []*fakePartition
}

type fakePartition struct {
	start, next, clean, swept int64
	batches                   []record.Batch
	origins                   []record.ID // origin of each offset
}

func newLog() *fakeLog {
	return &fakeLog{cluster: record.NewID(), epoch: record.NewID(), changed: make(chan struct{}, 1)}
}

func (l *fakeLog) lock() func() {
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

func (l *fakeLog) create(partitions int) record.ID {
	defer l.lock()()
	t := &fakeTopic{id: record.NewID(), indexed: true}
	for range partitions {
		t.parts = append(t.parts, &fakePartition{})
	}
	l.topics = append(l.topics, t)
	return t.id
}

func (l *fakeLog) delete(id record.ID) {
	defer l.lock()()
	l.topics = slices.DeleteFunc(l.topics, func(t *fakeTopic) bool { return t.id == id })
}

func (l *fakeLog) failing(id record.ID, err error) {
	defer l.lock()()
	l.bad, l.err = id, err
}

func (l *fakeLog) index(id record.ID, on bool) {
	defer l.lock()()
	l.topicLocked(id).indexed = on
}

func (l *fakeLog) topicLocked(id record.ID) *fakeTopic {
	i := slices.IndexFunc(l.topics, func(t *fakeTopic) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return l.topics[i]
}

// append appends one batch and returns the offset of its first record.
func (l *fakeLog) append(id record.ID, part int, recs ...record.Record) int64 {
	b, _ := recordtest.Encode(recs, record.EncodeOptions{})
	defer l.lock()()
	p := l.topicLocked(id).parts[part]
	first := p.next
	p.next = record.Patch(b, p.next, 1)
	for len(b) > 0 {
		one, rest, err := record.Split(b)
		if err != nil {
			panic(err)
		}
		p.batches = append(p.batches, one)
		b = rest
	}
	for range recs {
		p.origins = append(p.origins, l.epoch)
	}
	return first
}

func (l *fakeLog) trim(id record.ID, part int, to int64) {
	defer l.lock()()
	p := l.topicLocked(id).parts[part]
	p.start = max(p.start, to)
}

// rewind restores the log to an earlier state with at most to offsets. It returns their number.
func (l *fakeLog) rewind(id record.ID, part int, to int64) int64 {
	defer l.lock()()
	l.epoch = record.NewID()
	p := l.topicLocked(id).parts[part]
	p.batches = slices.DeleteFunc(p.batches, func(b record.Batch) bool { return b.BaseOffset()+b.Span() > to })
	p.next = 0
	if n := len(p.batches); n > 0 {
		p.next = p.batches[n-1].BaseOffset() + p.batches[n-1].Span()
	}
	p.origins = p.origins[:p.next]
	p.start, p.clean, p.swept = min(p.start, p.next), min(p.clean, p.next), min(p.swept, p.next)
	return p.next
}

// compact removes the records below to that compaction removes: all but the newest of each key, and
// tombstones below swept. With done false the log does not report the compaction, as if it was not
// finished.
func (l *fakeLog) compact(id record.ID, part int, to, swept int64, done bool) {
	defer l.lock()()
	p := l.topicLocked(id).parts[part]
	if len(p.batches) == 0 {
		return
	}
	newest := map[string]int64{}
	p.each(func(r *record.Record) {
		if r.Key != nil && r.Offset < to {
			newest[string(r.Key)] = r.Offset
		}
	})
	var c record.Compactor
	b, _, err := c.Append(nil, p.bytes(), func(e *record.CompactEntry) bool {
		if e.Offset >= to || e.Key == nil {
			return true
		}
		return newest[string(e.Key)] == e.Offset && (!e.Null || e.Offset >= swept)
	})
	if err != nil {
		panic(err)
	}
	p.batches = nil
	for len(b) > 0 {
		var one record.Batch
		if one, b, err = record.Split(b); err != nil {
			panic(err)
		}
		p.batches = append(p.batches, one)
	}
	if done {
		p.clean, p.swept = max(p.clean, to), max(p.swept, min(swept, to))
	}
}

func (p *fakePartition) bytes() (all []byte) {
	for _, b := range p.batches {
		all = append(all, b...)
	}
	return all
}

func (p *fakePartition) each(f func(*record.Record)) {
	var r record.Reader
	for r.Reset(p.bytes(), p.start); r.Next(); {
		f(r.Record())
	}
	if r.Err() != nil {
		panic(r.Err())
	}
}

func (l *fakeLog) Cluster() record.ID { return l.cluster }

func (l *fakeLog) Partitions() (list []views.Partition, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		list = append(list, t.list()...)
	}
	return list, true
}

func (l *fakeLog) Topic(id record.ID) []views.Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topicLocked(id); t != nil {
		return t.list()
	}
	return nil
}

func (t *fakeTopic) list() (list []views.Partition) {
	if !t.indexed {
		return nil
	}
	for i, p := range t.parts {
		list = append(list, views.Partition{
			Topic: t.id, Partition: uint32(i), Start: p.start, Next: p.next, Clean: p.clean, Swept: p.swept, Sweepable: p.swept,
		})
	}
	return list
}

func (l *fakeLog) Records() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		for _, p := range t.parts {
			for _, b := range p.batches {
				if b.BaseOffset() >= p.start {
					n += int64(b.Count())
				}
			}
		}
	}
	return n
}

func (l *fakeLog) Origin(id record.ID, part uint32, offset int64) record.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topicLocked(id); t != nil && offset >= 0 && offset < t.parts[part].next {
		return t.parts[part].origins[offset]
	}
	return record.ID{}
}

func (l *fakeLog) Read(_ context.Context, id record.ID, part uint32, offset int64, bytesMax int) (views.Batches, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == l.bad {
		return views.Batches{}, l.err
	}
	t := l.topicLocked(id)
	if t == nil {
		return views.Batches{}, errors.New("unknown topic")
	}
	p := t.parts[part]
	if offset < p.start {
		return views.Batches{}, errors.New("below start")
	}
	i, _ := slices.BinarySearchFunc(p.batches, offset, func(b record.Batch, o int64) int {
		return cmp.Compare(b.BaseOffset()+b.Span()-1, o)
	})
	var out views.Batches
	for size := 0; i < len(p.batches) && (size == 0 || size+p.batches[i].Len() <= bytesMax); i++ {
		out.Parts = append(out.Parts, p.batches[i])
		size += p.batches[i].Len()
	}
	return out, nil
}

func (l *fakeLog) Changed() <-chan struct{} { return l.changed }

func (l *fakeLog) Queried() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
}

// rec returns a record; value "" is a tombstone.
func rec(key, value string, time int64) record.Record {
	r := record.Record{Key: []byte(key), Timestamp: time}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

type testView struct {
	*View
	t    testing.TB
	path string
	set  *metrics.Set
	log  *sebtest.Log
}

// small sizes make many runs and merges of few records.
var small = sizes{
	batchEntries: 200, batchBytes: 10 << 10, recentEntries: 500, recentBytes: 20 << 10, mergeSlice: 100, sweepBlocks: 2,
	unusedEvery: time.Millisecond, unusedMin: 1000, rebuildWait: time.Minute, synchronous: "OFF",
	retry: pause.Growth{Min: time.Millisecond, Max: 10 * time.Millisecond},
}

func open(t testing.TB, path string, l Log) *testView {
	t.Helper()
	return openSized(t, path, l, nil)
}

func openSized(t testing.TB, path string, l Log, s *sizes) *testView {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "keys.db")
	}
	v := &testView{t: t, path: path, set: metrics.NewSet(), log: &sebtest.Log{}}
	cache := int64(0)
	if s != nil {
		cache = 256 << 10 // in memory, and of SQLite
	}
	v.View = must.Get(Open(t.Context(), Options{
		Path: path, Log: l, Metrics: v.set, Logger: slog.New(slog.NewTextHandler(v.log, nil)), sizes: s, CacheBytes: cache,
	}))(t)
	t.Cleanup(func() { v.Close() })
	return v
}

// rebuilds is the number of rebuilds.
func (v *testView) rebuilds() uint64 { return v.met.rebuilds.Get() }

// caughtUp waits until the view has indexed the whole log.
func (v *testView) caughtUp(l *fakeLog) {
	v.t.Helper()
	end := time.Now().Add(time.Minute)
	for parts, _ := l.Partitions(); v.lag(parts) > 0; parts, _ = l.Partitions() {
		if time.Now().After(end) {
			v.t.Fatalf("lags by %d: %+v, %v\n%s", v.lag(parts), parts, v.positions, v.log.String())
		}
		time.Sleep(time.Millisecond)
	}
}

// until waits for a condition that another goroutine fulfills.
func until(t testing.TB, f func() bool) {
	t.Helper()
	sebtest.Eventually(t, "the key index gets there", f)
}

// seeded returns a random generator and logs its seed.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func (v *testView) get(topic record.ID, key string, part int) string {
	v.t.Helper()
	e, ok := must.Get2(v.Get(v.t.Context(), topic, []byte(key), part))(v.t)
	if !ok {
		return "none"
	}
	return show(e)
}

func show(e Entry) string {
	s := fmt.Sprintf("%s@%d/%d", e.Key, e.Partition, e.Offset)
	if e.Deleted {
		s += "-"
	}
	return s
}

func showAll(list []Entry) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = show(e)
	}
	return out
}
