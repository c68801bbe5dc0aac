package trigger

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
	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/test/sebtest"

	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aLog is a log in memory: real batches of real partitions, in slots with append times.
type aLog struct {
	cluster record.ID

	mu     sync.Mutex // guards the fields below
	wall   int64      // µs
	slots  []aSlot
	topics []*aTopic
	leader *aBroker
	subs   []*aBroker
	epoch  record.ID
	bad    error                                               // of Read
	ill    func(topic string, part uint32, offset int64) error // of Read too, of each batch
}

func (l *aLog) setUnreadable(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = err
}

// aSlot is where all partitions end behind a slot.
type aSlot struct {
	time int64
	ends map[record.ID][]int64
}

type aTopic struct {
	id    record.ID
	name  string
	stamp bool
	parts []*aPartition
}

type aPartition struct {
	start, next int64
	batches     []record.Batch
	slots       []int // of batches
	origins     []record.ID
}

func newLog() *aLog {
	return &aLog{cluster: record.NewID(), epoch: record.NewID(), wall: 1_000_000_000}
}

// aBroker is a broker on the log, which knows it up to a slot.
type aBroker struct {
	*aLog
	changed chan struct{}
	seen    int                                // slots
	behind  bool                               // learns of slots only by catchUp
	fault   func(topic string) (kept, ok bool) // of the next appends: whether it is kept all the same, and whether it works
}

func (l *aLog) broker(leads bool) *aBroker {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &aBroker{aLog: l, changed: make(chan struct{}, 1), seen: len(l.slots)}
	if leads {
		l.leader, l.epoch = b, record.NewID()
	}
	l.subs = append(l.subs, b)
	return b
}

// takeOver makes b the leader, which knows all there is.
func (l *aLog) takeOver(b *aBroker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader, l.epoch, b.seen, b.behind = b, record.NewID(), len(l.slots), false
}

func (b *aBroker) catchUp(slots int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = min(len(b.slots), b.seen+slots)
}

func (l *aLog) commitLocked() {
	s := aSlot{time: l.wall, ends: map[record.ID][]int64{}}
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

// advance moves the clock.
func (l *aLog) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wall += d.Microseconds()
}

// until moves the clock to a time since its start.
func (l *aLog) until(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wall = start*1000 + d.Microseconds()
}

func (l *aLog) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.UnixMicro(l.wall)
}

func (l *aLog) topicLocked(id record.ID) *aTopic {
	i := slices.IndexFunc(l.topics, func(t *aTopic) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return l.topics[i]
}

func (l *aLog) Cluster() record.ID { return l.cluster }

func (l *aLog) Topic(name string) (Topic, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		if t.name == name {
			return Topic{ID: t.id, Partitions: len(t.parts), AppendTime: t.stamp}, true
		}
	}
	return Topic{}, false
}

func (l *aLog) Create(_ context.Context, name string, partitions int, settings map[string]string) error {
	if _, ok := l.Topic(name); ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &aTopic{id: record.NewID(), name: name, stamp: settings["timestamp-type"] == "append"}
	for range partitions {
		t.parts = append(t.parts, &aPartition{})
	}
	l.topics = append(l.topics, t)
	l.commitLocked()
	return nil
}

func (l *aLog) Stamp(_ context.Context, name string) error {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topicLocked(t.ID).stamp = true
	l.commitLocked()
	return nil
}

// remove deletes a topic.
func (l *aLog) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = slices.DeleteFunc(l.topics, func(t *aTopic) bool { return t.name == name })
	l.commitLocked()
}

func (b *aBroker) Position(topics ...record.ID) (p follow.Position, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Topics = make([][]follow.Span, len(topics))
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
			p.Topics[i] = append(p.Topics[i], follow.Span{Start: min(b.topicLocked(id).parts[part].start, end), Next: end})
		}
	}
	return p, true
}

func (l *aLog) Origin(id record.ID, part uint32, offset int64) record.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topicLocked(id); t != nil && offset >= 0 && offset < t.parts[part].next {
		return t.parts[part].origins[offset]
	}
	return record.ID{}
}

func (l *aLog) Read(_ context.Context, id record.ID, part uint32, offset int64, bytesMax int) (follow.Batches, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topicLocked(id)
	if t == nil || l.bad != nil {
		return follow.Batches{}, cmp.Or(l.bad, errors.New("unknown topic"))
	}
	p := t.parts[part]
	if offset < p.start {
		return follow.Batches{}, errors.New("below start")
	}
	i, _ := slices.BinarySearchFunc(p.batches, offset, func(b record.Batch, o int64) int {
		return cmp.Compare(b.BaseOffset()+b.Span()-1, o)
	})
	var out follow.Batches
	for size := 0; i < len(p.batches) && (size == 0 || size+p.batches[i].Len() <= bytesMax); i++ {
		if l.ill != nil {
			if err := l.ill(t.name, part, p.batches[i].BaseOffset()); err != nil {
				return follow.Batches{}, err
			}
		}
		out.Parts = append(out.Parts, p.batches[i])
		size += p.batches[i].Len()
	}
	return out, nil
}

var errFault = errors.New("a fault of the test")

func (b *aBroker) Append(_ context.Context, id record.ID, part uint32, recs []record.Record) (int64, error) {
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

func (l *aLog) appendLocked(id record.ID, part uint32, recs []record.Record) int64 {
	t := l.topicLocked(id)
	p := t.parts[part]
	data, _, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		panic(err)
	}
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
		p.origins = append(p.origins, l.epoch)
	}
	l.commitLocked()
	return base
}

func (b *aBroker) Leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leader == b
}

func (b *aBroker) Changed() <-chan struct{} { return b.changed }

// trim makes an offset the first one of a partition.
func (l *aLog) trim(name string, part uint32, to int64) {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topicLocked(t.ID).parts[part].start = to
	l.commitLocked()
}

// post appends events of one entity to the topic events.
func (l *aLog) post(list ...rule.Event) { l.postTo("events", list...) }

func (l *aLog) postTo(name string, list ...rule.Event) {
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

func (l *aLog) partOf(t Topic, entity string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(entity))
	return h.Sum32() % uint32(t.Partitions)
}

func ev(entity, name string) rule.Event { return rule.Event{EntityID: entity, Name: name} }

// small sizes make many transactions of few records.
var small = Sizes{
	ReadBytes: 300, Pieces: 1, Outbox: 3, Dues: 2, Work: 200, Sweep: 3, Prune: 2, TickEvery: time.Millisecond,
	Retry: follow.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}, Unsafe: true,
}

// stepped is an engine that goes on only when the test says so.
type stepped struct {
	*Engine
	w    *Stepped
	t    testing.TB
	b    *aBroker
	path string
	logs *sebtest.Log

	counts time.Duration // of a delivery (Options.CapSpan)
	park   func()        // runs while a caller waits; nil: the engine continues
}

func step(t testing.TB, b *aBroker, path string) *stepped {
	t.Helper()
	return stepBy(t, b, path, &small)
}

func stepBy(t testing.TB, b *aBroker, path string, sizes *Sizes, change ...func(o *Options)) *stepped {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "triggers.db")
	}
	s := &stepped{t: t, b: b, path: path, logs: &sebtest.Log{}}
	o := Options{
		Path: path, Log: b, Now: b.now, Logger: slog.New(slog.NewTextHandler(s.logs, nil)), Sizes: sizes, EventPartitions: 2,
		CapSpan: func(json.RawMessage) time.Duration { return s.counts },
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

// parked is what happens while a caller waits for the engine.
func (s *stepped) parked(ctx context.Context) {
	if s.park != nil {
		s.park()
	} else if wait := s.w.Step(ctx); wait > 0 {
		s.b.advance(min(wait, 20*time.Millisecond))
	}
}

// end closes the file, as after a crash: nothing more is done.
func (s *stepped) end() { s.w.Close() }

// settle lets the engine do all there is to do now, moving the clock as deadlines of the log's past need it.
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
	s.t.Fatalf("it does not settle\n%s", s.logs)
}

// counted is a counter of the engine.
func (s *stepped) counted(name string) uint64 {
	return s.opt.Metrics.GetOrCreateCounter("seb_triggers_" + name).Get()
}

// settled is whether all that has fired is recorded, where this broker leads.
func (s *stepped) settled() {
	s.t.Helper()
	var last int64
	err := s.w.follower.Query(func(q store.Queries) (err error) {
		last, err = q.LastOutbox(s.t.Context())
		return err
	})
	if err != nil || last != 0 && s.b.Leads() {
		s.t.Fatalf("not all is recorded (%d, %v)\n%s", last, err, s.logs)
	}
}

// definition is a trigger as Put would make it.
func (s *stepped) definition(id, expr string, change func(d *rule.Definition)) rule.Definition {
	s.t.Helper()
	e, err := driplang.Parse(expr)
	if err != nil {
		s.t.Fatal(err)
	}
	d := rule.Definition{ID: id, Text: expr, Expr: e, Version: 1, CarryFired: true}
	if change != nil {
		change(&d)
	}
	d = d.WithDefaults()
	if err := d.Validate(); err != nil {
		s.t.Fatal(err)
	}
	topic, err := s.ensureTopics(s.t.Context(), &d)
	if err != nil {
		s.t.Fatal(err)
	}
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
	value, err := d.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	s.append("triggers", record.Record{Key: []byte(d.ID), Value: value})
	return d
}

// sorted is the firings that the engine knows, in the order of their instants.
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

// fires shows the firings that the engine knows.
func (s *stepped) fires() []string {
	s.t.Helper()
	list := s.sorted()
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprintf("%s %s +%d %s", x.Trigger, x.Entity, x.At-start, x.State)
		if x.RetractedAt != 0 {
			out[i] += fmt.Sprintf(" taken +%d", x.RetractedAt-start)
		}
	}
	return out
}

// start is when the clock of a log begins, ms.
const start = 1_000_000

const day = 24 * time.Hour

func same(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%q\nwant\n%q", got, want)
	}
}

// seeded returns chance, and prints what repeats it.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}
