package compact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// lifeTopic is the model of a topic: acknowledged records, and the settings that decide which may
// be removed.
type lifeTopic struct {
	name   string
	policy string
	lag    bool // min-compaction-lag prevents compaction
	trims  bool // retention may have trimmed it
	stays  bool // delete-retention-time keeps tombstones
	parts  [2]lifePart
}

type lifePart struct {
	records []keyedRecord
	start   int64 // trimmed by hand up to here
	// exposed is the end offset when the topic was last compactable without a lag. A record at or
	// above it cannot have been compacted, nor have caused the removal of another.
	exposed int64
}

func (l *lifeTopic) compacts() bool { return strings.HasPrefix(l.policy, "compact") && !l.lag }

func (l *lifeTopic) expose() {
	for i := range l.parts {
		if l.compacts() {
			l.parts[i].exposed = int64(len(l.parts[i].records))
		}
	}
}

// life is a broker under random operations, and a model of its topics.
type life struct {
	t       *testing.T
	rng     *rand.Rand
	store   objstore.Store
	b       *broker.Broker
	topics  []*lifeTopic
	created int // number of created topics
	dead    bool
	events  map[string]int // counts of events by name
	met     *metrics.Set   // metrics of mergers
}

// dropped is the number of records that compaction has removed.
func (l *life) dropped() int {
	return int(l.met.GetOrCreateCounter("seb_compaction_records_dropped_total").Get())
}

// seedOf returns a random seed, or SEB_TEST_SEED.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEB_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat: SEB_TEST_SEED=%d go test ./internal/engine/log/compact -run '%s'", seed, t.Name())
	return seed
}

func newLife(t *testing.T, store objstore.Store) *life {
	seed := seedOf(t)
	l := &life{t: t, rng: rand.New(rand.NewPCG(seed, 2)), store: store, events: map[string]int{}, met: metrics.NewSet()}
	l.b = l.open(store)
	for range 3 {
		l.topics = append(l.topics, l.create(l.b))
	}
	return l
}

func (l *life) open(store objstore.Store) *broker.Broker {
	l.t.Helper()
	b := must.Get(broker.Open(l.t.Context(), broker.Options{
		Options:        log.Options{Store: store, Core: core.Config{SnapshotSlots: 20}, Batch: log.Config{Wait: time.Microsecond}, Logger: slog.New(slog.DiscardHandler)},
		RetentionEvery: 2 * time.Millisecond,
	}))(l.t)
	l.t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func (l *life) create(b *broker.Broker) *lifeTopic {
	l.t.Helper()
	l.created++
	topic := &lifeTopic{name: fmt.Sprint("topic", l.created%7), policy: "delete", stays: l.rng.IntN(3) == 0}
	set := map[string]string{"delete-retention-time": "1ms"}
	if topic.stays {
		set = nil // default: a day
	}
	must.Get(b.CreateTopic(l.t.Context(), topic.name, broker.TopicSpec{Partitions: 2, Settings: set}))(l.t)
	return topic
}

func (l *life) topic() *lifeTopic { return l.topics[l.rng.IntN(len(l.topics))] }

// write appends some batches to a topic.
func (l *life) write(topic *lifeTopic, batches int) {
	l.t.Helper()
	k := &keyedLog{rng: l.rng}
	for range batches {
		n := l.rng.IntN(2)
		part := &topic.parts[n]
		var recs []record.Record
		for range 1 + l.rng.IntN(6) {
			r := k.record()
			rec := record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(r.key), Value: []byte(r.value)}
			if r.noKey {
				rec.Key = nil
			}
			if r.tombstone {
				rec.Value = nil
			}
			recs = append(recs, rec)
			part.records = append(part.records, r)
		}
		a := brokertest.AppendWith(topic.name, n, record.EncodeOptions{Compression: record.Compression(l.rng.IntN(5))}, recs...)
		topic.expose() // before the write is acknowledged: a pass may see it at once
		r := brokertest.Try(l.t.Context(), l.b, a)
		if r.Err != nil || r.Base != int64(len(part.records)-len(recs)) {
			l.t.Fatalf("%s: %v at %d", topic.name, r.Err, r.Base)
		}
	}
}

// change changes one setting of a topic.
func (l *life) change(topic *lifeTopic) {
	l.t.Helper()
	set := map[string]string{}
	switch l.rng.IntN(5) {
	case 0, 1:
		set["cleanup-policy"] = []string{"delete", "compact", "compact", "compact,delete"}[l.rng.IntN(4)]
		topic.policy = set["cleanup-policy"]
	case 2:
		topic.lag = l.rng.IntN(3) == 0
		set["min-compaction-lag"] = map[bool]string{true: "1h", false: ""}[topic.lag]
	case 3:
		set["retention-bytes"] = []string{"", "3KiB", "20KiB", "1GiB"}[l.rng.IntN(4)]
	case 4:
		set["retention-time"] = []string{"", "1s", "1h"}[l.rng.IntN(3)]
	}
	topic.trims = topic.trims || set["retention-bytes"] != "" || set["retention-time"] != ""
	topic.expose()
	must.Get(l.b.UpdateTopic(l.t.Context(), topic.name, broker.TopicSpec{Settings: set}))(l.t)
}

func (l *life) trim(topic *lifeTopic) {
	l.t.Helper()
	n := l.rng.IntN(2)
	part := &topic.parts[n]
	to := part.start + l.rng.Int64N(int64(len(part.records))-part.start+1)
	if l.rng.IntN(4) > 0 {
		to = part.start + (to-part.start)/8
	}
	p, err := l.b.Trim(l.t.Context(), topic.name, int32(n), to)
	if err != nil || p.Start < to {
		l.t.Fatalf("%s/%d: trim to %d: %+v, %v", topic.name, n, to, p, err)
	}
	part.start = to
}

// recreate deletes a topic and creates another, perhaps with the same name.
func (l *life) recreate(i int) {
	l.t.Helper()
	must.NoError(l.t, l.b.DeleteTopic(l.t.Context(), l.topics[i].name))
	if l.rng.IntN(2) == 0 { // the same name
		l.created += 6
	}
	for l.taken(i, fmt.Sprint("topic", (l.created+1)%7)) {
		l.created++
	}
	l.topics[i] = l.create(l.b)
}

func (l *life) taken(but int, name string) bool {
	for i, topic := range l.topics {
		if i != but && topic.name == name {
			return true
		}
	}
	return false
}

// restart opens the next broker after the previous one was closed or killed.
func (l *life) restart(kill bool) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	if kill {
		cancel()
	}
	_ = l.b.Close(ctx)
	l.b = l.open(l.store)
	l.dead = false
}

// act does one random operation, which may come at any moment, also during a pass.
func (l *life) act() {
	l.t.Helper()
	what := "write"
	switch n := l.rng.IntN(20); {
	case n < 12:
		l.write(l.topic(), 1+l.rng.IntN(8))
	case n < 15:
		what = "trim"
		l.trim(l.topic())
	case n < 19:
		what = "change"
		l.change(l.topic())
	default:
		what = "delete"
		l.recreate(l.rng.IntN(len(l.topics)))
	}
	l.events[what]++
}

// check compares a broker with the model.
func (l *life) check(b *broker.Broker) {
	l.t.Helper()
	for _, topic := range l.topics {
		for n := range topic.parts {
			l.checkPart(b, topic, n)
		}
	}
}

func (l *life) checkPart(b *broker.Broker, topic *lifeTopic, n int) {
	l.t.Helper()
	part := &topic.parts[n]
	where := fmt.Sprintf("%s/%d", topic.name, n)
	p := b.View().TopicByName(topic.name).Partitions.At(int(n))
	clean, records, size := p.Clean, p.Records, p.Bytes
	for _, r := range p.Ranges {
		records, size = records-int64(r.Records), size-int64(r.Len)
	}
	if records != 0 || size != 0 {
		l.t.Fatalf("%s counts %d records and %d bytes more than its ranges contain", where, records, size)
	}
	got, start := l.read(b, topic, n)
	if start < part.start || start > part.start && !topic.trims {
		l.t.Fatalf("%s starts at %d, trimmed to %d", where, start, part.start)
	}
	newest, newestExposed, newestClean := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for o, r := range part.records {
		if r.noKey {
			continue
		}
		newest[r.key] = int64(o)
		if int64(o) < part.exposed {
			newestExposed[r.key] = int64(o)
		}
		if int64(o) < clean {
			newestClean[r.key] = int64(o)
		}
	}
	for o := start; o < int64(len(part.records)); o++ {
		r := part.records[o]
		have, there := got[o]
		_, hidden := got[newest[r.key]]
		switch {
		case there && have != r:
			l.t.Fatalf("%s offset %d is %+v, want %+v", where, o, have, r)
		case !there && r.noKey:
			l.t.Fatalf("%s offset %d: record without a key is missing", where, o)
		case !there && o >= part.exposed:
			l.t.Fatalf("%s offset %d is missing, but only offsets below %d can have been compacted: %+v", where, o, part.exposed, r)
		case !there && newestExposed[r.key] == o && (!r.tombstone || topic.stays):
			l.t.Fatalf("%s offset %d is missing, but was the newest of its key: %+v", where, o, r)
		case there && !r.noKey && !hidden:
			l.t.Fatalf("%s offset %d reappears: its tombstone at %d was removed before %+v", where, o, newest[r.key], r)
		case there && !r.noKey && o < clean && newestClean[r.key] != o:
			l.t.Fatalf("%s offset %d still exists after compaction up to %d, although offset %d has its key: %+v", where, o, clean, newestClean[r.key], r)
		}
	}
}

// read returns the records of a partition and its start offset, which retention may raise
// meanwhile.
func (l *life) read(b *broker.Broker, topic *lifeTopic, n int) (got map[int64]keyedRecord, start int64) {
	l.t.Helper()
	got = map[int64]keyedRecord{}
	for next := int64(0); ; {
		f := must.Get(b.Fetch(l.t.Context(), []broker.Want{{Topic: topic.name, Partition: int32(n), Offset: next, MaxBytes: 5000}}, 0, 0))(l.t)
		p := &f.Parts[0]
		start = p.Start
		switch {
		case errors.Is(p.Err, broker.ErrBelowStart) && p.Start > next:
			next = p.Start
			f.Release()
			continue
		case p.Err != nil || p.HighWatermark != int64(len(topic.parts[n].records)):
			l.t.Fatalf("%s/%d at %d: %v, ends at %d, want %d", topic.name, n, next, p.Err, p.HighWatermark, len(topic.parts[n].records))
		case next == p.HighWatermark:
			f.Release()
			return got, start
		case len(p.Chunks) == 0:
			l.t.Fatalf("%s/%d has no record at %d of %d", topic.name, n, next, p.HighWatermark)
		}
		for i := range p.Chunks {
			var r record.Reader
			for r.Reset(brokertest.Bytes(l.t, &p.Chunks[i]), next); r.Next(); {
				rec := r.Record()
				got[rec.Offset] = keyedRecord{string(rec.Key), string(rec.Value), rec.Key == nil, rec.Value == nil}
			}
			must.NoError(l.t, r.Err())
			next = p.Chunks[i].End
		}
		f.Release()
	}
}

// copied opens a broker on a copy of the current bucket, as after a crash of the machine.
func (l *life) copied() {
	l.t.Helper()
	to := copyOf(l.t, l.store)
	sound(l.t, to)
	b := l.open(to)
	l.check(b)
	_ = b.Close(l.t.Context())
	l.events["copy"]++
}

// copyOf copies a bucket while a broker may write to it.
func copyOf(t *testing.T, store objstore.Store) objstore.Store {
	t.Helper()
	for {
		before := allKeys(t, store)
		to := objstore.NewMemory()
		gone := false
		for _, key := range before {
			o, err := store.Get(t.Context(), key, objstore.Whole)
			if errors.Is(err, objstore.ErrNotFound) {
				gone = true
				break
			}
			must.NoError(t, err)
			b, err := io.ReadAll(o.Body)
			_ = o.Body.Close()
			if err == nil {
				err = to.Put(t.Context(), key, objstore.NewBody(b))
			}
			must.NoError(t, err)
		}
		if !gone && strings.Join(before, "\n") == strings.Join(allKeys(t, store), "\n") {
			return to
		}
	}
}

func allKeys(t *testing.T, store objstore.Store) (keys []string) {
	t.Helper()
	for o := (objstore.ListOptions{}); ; {
		entries, more := must.Get2(store.List(t.Context(), o))(t)
		for _, e := range entries {
			keys = append(keys, e.Key)
			o.After = e.Key
		}
		if !more {
			return keys
		}
	}
}

// sound checks that fsck finds no damage.
func sound(t *testing.T, store objstore.Store) {
	t.Helper()
	var found bytes.Buffer
	r, err := fsck.Run(t.Context(), fsck.Options{Store: store, Found: func(f fsck.Finding) {
		if f.Severity == fsck.Damage {
			fmt.Fprintf(&found, "%+v\n", f)
		}
	}})
	if err != nil || r.Damages > 0 {
		t.Fatalf("%v, %s", err, found.String())
	}
}

// between is a store that calls a function between a merger's requests.
type between struct {
	objstore.Store
	happens func()
}

func (s *between) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	s.happens()
	return s.Store.Get(ctx, key, r)
}

func (s *between) Put(ctx context.Context, key string, body objstore.Body) error {
	s.happens()
	err := s.Store.Put(ctx, key, body)
	s.happens()
	return err
}

var lifeConfig = compact.Policy{Target: 8 << 10, Age: time.Microsecond, Small: 3, KeyBytes: 1440}

// pass merges and compacts with random operations between the requests, including closing the
// merger, killing the broker and copying the bucket.
func (l *life) pass() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	disturbed := false
	m := compact.Open(compact.Options{Log: l.b, Every: time.Hour, TempDir: l.t.TempDir(), Policy: lifeConfig, Metrics: l.met, Store: &between{l.store, func() {
		if l.dead || l.rng.IntN(12) > 0 {
			return
		}
		disturbed = true
		switch n := l.rng.IntN(30); {
		case n == 0:
			killed, stop := context.WithCancel(context.Background())
			stop()
			_ = l.b.Close(killed)
			l.dead = true
			l.events["kill in a pass"]++
		case n == 1:
			cancel()
			l.events["merger closed in a pass"]++
		case n == 2:
			l.copied()
		default:
			l.act()
		}
	}}})
	defer m.Close()
	for range 40 {
		created, err := m.Once(ctx)
		if err != nil && !disturbed {
			l.t.Fatal(err)
		}
		if !created || err != nil {
			break
		}
	}
	if l.dead {
		l.restart(true)
	}
}

// end makes all topics compacted and waits until their current records are compacted.
func (l *life) end() {
	l.t.Helper()
	m := compact.Open(compact.Options{Log: l.b, Store: l.store, TempDir: l.t.TempDir(), Policy: lifeConfig, Every: time.Hour})
	defer m.Close()
	ends := map[*lifeTopic][2]int64{}
	for _, topic := range l.topics {
		topic.policy, topic.lag = "compact", false
		topic.expose()
		if _, err := l.b.UpdateTopic(l.t.Context(), topic.name, broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact", "min-compaction-lag": ""}}); err != nil {
			l.t.Fatal(err)
		}
		ends[topic] = [2]int64{int64(len(topic.parts[0].records)), int64(len(topic.parts[1].records))}
	}
	for until, behind := time.Now().Add(time.Minute), true; behind; {
		behind = false
		for _, topic := range l.topics {
			l.write(topic, 6)
		}
		mergeAll(l.t, m)
		for _, topic := range l.topics {
			for n, end := range ends[topic] {
				behind = behind || l.b.View().TopicByName(topic.name).Partitions.At(int(n)).Clean < end
			}
		}
		if time.Now().After(until) {
			l.t.Fatal("the records are not compacted after a minute")
		}
	}
	l.check(l.b)
	_ = l.b.Close(l.t.Context())
	sound(l.t, l.store)
}

// TestLifeOfCompactedTopics runs trims, retention, changes of settings, deletions, and ends of the
// merger and the broker between the requests of passes, and compares topics with a model.
func TestLifeOfCompactedTopics(t *testing.T) {
	total := map[string]int{}
	missing := func() (never []string) {
		for _, what := range []string{"write", "trim", "change", "delete", "copy", "kill in a pass", "merger closed in a pass", "dropped"} {
			if total[what] == 0 {
				never = append(never, what)
			}
		}
		return never
	}
	for name, store := range stores(t) {
		for run := 0; run < sebtest.Runs(3, 1) || missing() != nil && run < 10; run++ {
			t.Run(fmt.Sprintf("%s %d", name, run), func(t *testing.T) {
				if run > 0 {
					store = objstore.NewMemory()
				}
				l := newLife(t, store)
				for step := range 60 {
					for range 3 {
						l.act()
					}
					l.pass()
					switch {
					case step%20 == 19:
						l.restart(l.rng.IntN(2) == 0)
						l.check(l.b)
					case step%5 == 4:
						l.check(l.b)
					}
				}
				l.end()
				for what, n := range l.events {
					total[what] += n
				}
				total["dropped"] += l.dropped()
			})
		}
	}
	check.Equalf(t, len(missing()), 0, "did not happen: %v", missing())
	t.Log(total)
}

// TestLifeWithRunningMerger runs the same operations concurrently with a merger, with reads
// meanwhile.
func TestLifeWithRunningMerger(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, store)
			merger := func() *compact.Merger {
				b, policy := l.b, lifeConfig
				policy.Backlog = 5 // commit objects are also merged within a pass
				return compact.Open(compact.Options{
					Log: b, Store: store, TempDir: t.TempDir(), Policy: policy, Metrics: l.met, Every: time.Millisecond,
					Ranges: func() int { return ranges(b) },
				})
			}
			m := merger()
			defer func() { m.Close() }()
			const most = 400
			for step := 0; step < sebtest.Runs(most, 100) || step < most && l.dropped() == 0; step++ {
				l.act()
				topic := l.topic()
				for n := range topic.parts {
					got, _ := l.read(l.b, topic, n)
					for o, r := range got {
						must.Equalf(t, r, topic.parts[n].records[o], "%s/%d offset %d", topic.name, n, o)
					}
				}
				if step%20 < 19 {
					continue
				}
				kill := l.rng.IntN(3) == 0
				if kill {
					l.restart(true) // the merger still works on the previous broker for a while
				}
				m.Close()
				l.check(l.b)
				if !kill && l.rng.IntN(2) == 0 {
					l.restart(false)
					l.check(l.b)
				}
				m = merger()
			}
			m.Close()
			l.end()
			if l.dropped() == 0 {
				t.Error("nothing was compacted")
			}
			t.Log(l.events, l.dropped())
		})
	}
}
