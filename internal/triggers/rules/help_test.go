package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/sebtest"

	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a log in memory: real batches of real partitions, in slots with append times.
type fakeLog struct {
	cluster record.ID

	mu        sync.Mutex // guards the fields below
	wall      int64      // µs
	slots     []fakeSlot
	topics    []*fakeTopic
	leader    *fakeBroker
	subs      []*fakeBroker
	origin    record.ID
	epoch     uint32                                              // of the leader
	readErr   error                                               // error of Read
	readFault func(topic string, part uint32, offset int64) error // error of Read for a batch
}

func (l *fakeLog) setReadErr(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readErr = err
}

// fakeSlot is a committed slot: its time, and the ends of all partitions.
type fakeSlot struct {
	time int64
	ends map[record.ID][]int64
}

type fakeTopic struct {
	id    record.ID
	name  string
	stamp bool
	parts []*fakePartition
}

type fakePartition struct {
	start, next int64
	batches     []record.Batch
	slots       []int // of batches
	origins     []record.ID
}

func newLog() *fakeLog {
	return &fakeLog{cluster: record.NewID(), origin: record.NewID(), wall: 1_000_000_000}
}

// fakeBroker is a broker that knows the log up to a slot.
type fakeBroker struct {
	*fakeLog
	changed chan struct{}
	seen    int                                // slots
	behind  bool                               // learns of slots only by catchUp
	fault   func(topic string) (kept, ok bool) // of the next appends: stored, successful
}

func (l *fakeLog) broker(leads bool) *fakeBroker {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &fakeBroker{fakeLog: l, changed: make(chan struct{}, 1), seen: len(l.slots)}
	if leads {
		l.leader, l.origin = b, record.NewID()
		l.epoch++
	}
	l.subs = append(l.subs, b)
	return b
}

// takeOver makes b the leader, which knows the whole log.
func (l *fakeLog) takeOver(b *fakeBroker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader, l.origin, b.seen, b.behind = b, record.NewID(), len(l.slots), false
	l.epoch++
}

func (b *fakeBroker) catchUp(slots int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = min(len(b.slots), b.seen+slots)
}

func (l *fakeLog) commitLocked() {
	s := fakeSlot{time: l.wall, ends: map[record.ID][]int64{}}
	if n := len(l.slots); n > 0 {
		s.time = max(s.time, l.slots[n-1].time+1)
	}
	for _, t := range l.topics {
		for _, p := range t.parts {
			s.ends[t.id] = append(s.ends[t.id], p.next)
		}
	}
	l.slots = append(l.slots, s)
	for _, b := range l.subs {
		if !b.behind {
			b.seen = len(l.slots)
		}
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// advance moves the clock forward.
func (l *fakeLog) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wall += d.Microseconds()
}

// until sets the clock to a time since start.
func (l *fakeLog) until(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wall = start*1000 + d.Microseconds()
}

func (l *fakeLog) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.UnixMicro(l.wall)
}

func (l *fakeLog) topicLocked(id record.ID) *fakeTopic {
	i := slices.IndexFunc(l.topics, func(t *fakeTopic) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return l.topics[i]
}

func (l *fakeLog) Cluster() record.ID { return l.cluster }

func (l *fakeLog) Topic(name string) (Topic, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		if t.name == name {
			return Topic{ID: t.id, Partitions: len(t.parts), AppendTime: t.stamp}, true
		}
	}
	return Topic{}, false
}

func (l *fakeLog) Create(_ context.Context, name string, partitions int, settings map[string]string) error {
	if _, ok := l.Topic(name); ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &fakeTopic{id: record.NewID(), name: name, stamp: settings["timestamp-type"] == "append"}
	for range partitions {
		t.parts = append(t.parts, &fakePartition{})
	}
	l.topics = append(l.topics, t)
	l.commitLocked()
	return nil
}

func (l *fakeLog) Stamp(_ context.Context, name string) error {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topicLocked(t.ID).stamp = true
	l.commitLocked()
	return nil
}

// remove deletes a topic.
func (l *fakeLog) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = slices.DeleteFunc(l.topics, func(t *fakeTopic) bool { return t.name == name })
	l.commitLocked()
}

func (b *fakeBroker) Position(topics ...record.ID) (p views.Position, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Topics = make([][]views.Span, len(topics))
	if b.seen == 0 {
		return p, true
	}
	s := &b.slots[b.seen-1]
	p.Time = s.time
	for i, id := range topics {
		for part, end := range s.ends[id] {
			if b.topicLocked(id) == nil {
				continue // deleted since
			}
			p.Topics[i] = append(p.Topics[i], views.Span{Start: min(b.topicLocked(id).parts[part].start, end), Next: end})
		}
	}
	return p, true
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
	t := l.topicLocked(id)
	if t == nil || l.readErr != nil {
		return views.Batches{}, cmp.Or(l.readErr, errors.New("unknown topic"))
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
		if l.readFault != nil {
			if err := l.readFault(t.name, part, p.batches[i].BaseOffset()); err != nil {
				return views.Batches{}, err
			}
		}
		out.Parts = append(out.Parts, p.batches[i])
		size += p.batches[i].Len()
	}
	return out, nil
}

var errFault = errors.New("injected fault")

func (b *fakeBroker) Append(_ context.Context, id record.ID, part uint32, recs []record.Record) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != b {
		return 0, errors.New("fenced")
	}
	kept, ok := true, true
	if b.fault != nil {
		kept, ok = b.fault(b.topicLocked(id).name)
	}
	if !kept {
		return 0, errFault
	}
	base := b.appendLocked(id, part, recs)
	if !ok {
		return 0, errFault
	}
	return base, nil
}

func (l *fakeLog) appendLocked(id record.ID, part uint32, recs []record.Record) int64 {
	t := l.topicLocked(id)
	p := t.parts[part]
	data, _ := recordtest.Encode(recs, record.EncodeOptions{})
	base := p.next
	p.next = record.Patch(data, p.next, 1)
	at := l.wall
	if n := len(l.slots); n > 0 {
		at = max(at, l.slots[n-1].time+1)
	}
	if t.stamp {
		record.StampAppendTime(data, at/1000)
	}
	for len(data) > 0 {
		one, rest, err := record.Split(data)
		if err != nil {
			panic(err)
		}
		p.batches, p.slots, data = append(p.batches, one), append(p.slots, len(l.slots)), rest
	}
	for range recs {
		p.origins = append(p.origins, l.origin)
	}
	l.commitLocked()
	return base
}

func (b *fakeBroker) Leads() bool { return b.LeadingEpoch() != 0 }

func (b *fakeBroker) LeadingEpoch() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != b {
		return 0
	}
	return b.epoch
}

func (b *fakeBroker) Changed() <-chan struct{} { return b.changed }

// trim sets the first offset of a partition.
func (l *fakeLog) trim(name string, part uint32, to int64) {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topicLocked(t.ID).parts[part].start = to
	l.commitLocked()
}

// post appends events of one entity to the topic events.
func (l *fakeLog) post(list ...rule.Event) { l.postTo("events", list...) }

func (l *fakeLog) postTo(name string, list ...rule.Event) {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	var recs []record.Record
	for _, e := range list {
		value, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		recs = append(recs, record.Record{Key: []byte(e.EntityID), Value: value})
	}
	l.appendLocked(t.ID, l.partOf(t, list[0].EntityID), recs)
}

func (l *fakeLog) partOf(t Topic, entity string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(entity))
	return h.Sum32() % uint32(t.Partitions)
}

func ev(entity, name string) rule.Event { return rule.Event{EntityID: entity, Name: name} }

// small sizes make many transactions of few records.
var small = Sizes{
	ReadBytes: 300, Pieces: 1, Outbox: 3, Dues: 2, Work: 200, Sweep: 3, Prune: 2, TickEvery: time.Millisecond,
	Retry: pause.Growth{Min: time.Millisecond, Max: 10 * time.Millisecond}, Unsafe: true,
}

// stepped is an engine that runs only when the test calls it.
type stepped struct {
	*Engine
	w    *Stepped
	t    testing.TB
	b    *fakeBroker
	path string
	logs *sebtest.Log

	capSpan time.Duration // Options.CapSpan of every delivery
	park    func()        // called while a caller waits; nil: run the engine
}

func step(t testing.TB, b *fakeBroker, path string) *stepped {
	t.Helper()
	return stepBy(t, b, path, &small)
}

func stepBy(t testing.TB, b *fakeBroker, path string, sizes *Sizes, change ...func(o *Options)) *stepped {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "triggers.db")
	}
	s := &stepped{t: t, b: b, path: path, logs: &sebtest.Log{}}
	o := Options{
		Path: path, Log: b, Now: b.now, Logger: slog.New(slog.NewTextHandler(s.logs, nil)), Sizes: sizes, EventPartitions: 2,
		CapSpan: func(json.RawMessage) time.Duration { return s.capSpan },
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if s.w, err = OpenStepped(o, s.parked); err != nil {
		t.Fatal(err)
	}
	s.Engine = s.w.Engine
	t.Cleanup(s.end)
	return s
}

// parked runs while a caller waits for the engine.
func (s *stepped) parked(ctx context.Context) {
	if s.park != nil {
		s.park()
	} else if wait := s.w.Step(ctx); wait > 0 {
		s.b.advance(min(wait, 20*time.Millisecond))
	}
}

// end closes the file as after a crash.
func (s *stepped) end() { s.w.Close() }

// settle runs the engine until it has nothing to do. It moves the clock as retries and ticks need
// it.
func (s *stepped) settle() {
	s.t.Helper()
	for range 10_000 {
		if wait := s.w.Step(s.t.Context()); wait > 0 {
			if wait > 20*time.Millisecond {
				s.settled()
				return
			}
			s.b.advance(wait)
		}
	}
	s.t.Fatalf("the engine does not settle\n%s", s.logs)
}

// counted returns a counter of the engine.
func (s *stepped) counted(name string) uint64 {
	return s.opt.Metrics.GetOrCreateCounter("seb_triggers_" + name).Get()
}

// settled requires that the leader has recorded all firings.
func (s *stepped) settled() {
	s.t.Helper()
	var last int64
	err := s.w.follower.Query(func(q store.Queries) (err error) {
		last, err = q.LastOutbox(s.t.Context())
		return err
	})
	if err != nil || last != 0 && s.b.Leads() {
		s.t.Fatalf("unrecorded firings (%d, %v)\n%s", last, err, s.logs)
	}
}

// definition returns a trigger as Put would create it.
func (s *stepped) definition(id, expr string, change func(d *rule.Definition)) rule.Definition {
	s.t.Helper()
	e := must.Get(driplang.Parse(expr))(s.t)
	d := rule.Definition{ID: id, Text: expr, Expr: e, Version: 1, CarryFired: true}
	if change != nil {
		change(&d)
	}
	d = d.WithDefaults()
	must.NoError(s.t, d.Validate())
	topic := must.Get(s.ensureTopics(s.t.Context(), &d))(s.t)
	p, _ := s.b.Position(topic.ID)
	d.TopicID, d.At = topic.ID.String(), p.Complete()
	for _, span := range p.Topics[0] {
		d.From = append(d.From, span.Next)
	}
	d.Created = d.At
	return d
}

func (s *stepped) put(d rule.Definition) rule.Definition {
	s.t.Helper()
	value := must.Get(d.Encode())(s.t)
	s.append("triggers", record.Record{Key: []byte(d.ID), Value: value})
	return d
}

// sorted returns the firings of the engine in the order of their instants.
func (s *stepped) sorted() []Firing {
	s.t.Helper()
	list, err := s.Firings(s.t.Context(), FiringQuery{Limit: LimitMax})
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.logs)
	}
	slices.SortStableFunc(list, func(a, b Firing) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Version, b.Version))
	})
	return list
}

// append appends a record to partition 0 of a topic.
func (s *stepped) append(topic string, rec record.Record) {
	t, _ := s.b.Topic(topic)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.appendLocked(t.ID, 0, []record.Record{rec})
}

// fires shows the firings of the engine.
func (s *stepped) fires() []string {
	s.t.Helper()
	list := s.sorted()
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprintf("%s %s +%d %s", x.Trigger, x.Entity, x.At-start, x.State)
		if x.RetractedAt != 0 {
			out[i] += fmt.Sprintf(" retracted +%d", x.RetractedAt-start)
		}
	}
	return out
}

// start is the first time of a log's clock, ms.
const start = 1_000_000

const day = 24 * time.Hour

func same(t testing.TB, got, want []string) {
	t.Helper()
	must.EqualSlicesf(t, got, want, "got")
}

// seeded returns a random source, and logs its seed if the test fails.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}
