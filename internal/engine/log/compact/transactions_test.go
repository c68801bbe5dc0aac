package compact_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// transaction is one of the model.
type transaction struct{ ended, committed bool }

// txRecord is an offset of the model: a record, or a marker.
type txRecord struct {
	keyedRecord
	of     *transaction // nil: none
	marker bool
}

// txProducer is a transactional producer. A record of it says which transaction it is part of.
type txProducer struct {
	id       string
	now      state.ProducerEpoch
	sequence map[int]int32
	open     *transaction
	touched  map[int]bool
}

// txLog is a compacted topic with transactions, and its model.
type txLog struct {
	t         *testing.T
	rng       *rand.Rand
	b         *broker.Broker
	store     objstore.Store
	producers []*txProducer
	parts     [2][]txRecord
	starts    [2]int64
	seen      map[string]int // how often the test met a situation
}

func newTxLog(t *testing.T) *txLog {
	l := &txLog{t: t, rng: rand.New(rand.NewPCG(seedOf(t), 3)), store: objstore.NewMemory(), seen: map[string]int{}}
	l.b = openBroker(t, l.store)
	must.Get(l.b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 2, Settings: map[string]string{
		"cleanup-policy": "compact", "delete-retention-time": "1ms", "min-cleanable-dirty-ratio": "0",
	}}))(t)
	for i := range 3 {
		l.init(fmt.Sprint("producer-", i), i)
	}
	return l
}

// init starts producer i again, which aborts its open transaction.
func (l *txLog) init(id string, i int) {
	l.t.Helper()
	p := &txProducer{id: id, now: state.ProducerEpoch{ID: -1}, sequence: map[int]int32{}, touched: map[int]bool{}}
	if i == len(l.producers) {
		l.producers = append(l.producers, p)
	}
	old := l.producers[i]
	p.now = must.Get(l.b.InitTransactions(l.t.Context(), broker.InitTransactions{ID: id, Timeout: time.Hour, Was: p.now}))(l.t)
	l.ended(old, false)
	l.producers[i] = p
}

// ended records in the model that the open transaction of a producer ended.
func (l *txLog) ended(p *txProducer, commit bool) {
	if p.open == nil {
		return
	}
	p.open.ended, p.open.committed = true, commit
	for part := range l.parts {
		if p.touched[part] {
			l.parts[part] = append(l.parts[part], txRecord{marker: true, of: p.open})
		}
	}
	p.open, p.touched = nil, map[int]bool{}
}

// act writes some records, or ends a transaction.
func (l *txLog) act() {
	l.t.Helper()
	i := l.rng.IntN(len(l.producers) + 1)
	switch {
	case l.rng.IntN(300) == 0:
		l.trim()
		return
	case i == len(l.producers):
		l.write(nil)
		return
	}
	switch p := l.producers[i]; {
	case p.open == nil || l.rng.IntN(3) > 0:
		l.write(p)
	case l.rng.IntN(20) == 0:
		l.init(p.id, i)
	default:
		commit, next := l.rng.IntN(2) == 0, l.rng.IntN(2) == 0
		was := p.now
		p.now = must.Get(l.b.EndTransaction(l.t.Context(), broker.EndTransaction{ID: p.id, Producer: was, Commit: commit, Next: next}))(l.t)
		l.ended(p, commit)
		if p.now != was {
			p.sequence = map[int]int32{}
		}
	}
}

func (l *txLog) write(p *txProducer) {
	l.t.Helper()
	part := l.rng.IntN(2)
	o := record.EncodeOptions{Compression: record.Compression(l.rng.IntN(5))}
	var of *transaction
	if p != nil {
		if p.open == nil {
			p.open = &transaction{}
		}
		of = p.open
		o.Transactional, o.Producer = true, &record.Producer{ID: p.now.ID, Epoch: p.now.Epoch, Sequence: p.sequence[part]}
		p.touched[part] = true
	}
	k := &keyedLog{rng: l.rng}
	var recs []record.Record
	base := len(l.parts[part])
	for range 1 + l.rng.IntN(4) {
		r := k.record()
		if !r.noKey && r.key != "" {
			r.key = fmt.Sprint("k", l.rng.IntN(12))
		}
		rec := record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(r.key), Value: []byte(r.value)}
		if r.noKey {
			rec.Key = nil
		}
		if r.tombstone {
			rec.Value = nil
		}
		recs = append(recs, rec)
		l.parts[part] = append(l.parts[part], txRecord{keyedRecord: r, of: of})
	}
	if p != nil {
		p.sequence[part] += int32(len(recs))
	}
	must.Equalf(l.t, brokertest.Send(l.t, l.b, brokertest.AppendWith("t", part, o, recs...)), int64(base), "base offset")
}

// trim trims a partition, perhaps beyond the beginning of open transactions.
func (l *txLog) trim() {
	l.t.Helper()
	part := l.rng.IntN(2)
	to := l.starts[part] + l.rng.Int64N(int64(len(l.parts[part]))-l.starts[part]+1)
	if l.rng.IntN(4) > 0 {
		to -= (to - l.starts[part]) * 7 / 8
	}
	if l.stable(part) < to {
		l.seen["trim of an open transaction"]++
	}
	must.Get(l.b.Trim(l.t.Context(), "t", int32(part), to))(l.t)
	l.starts[part] = to
}

// stable is the last stable offset of the model.
func (l *txLog) stable(part int) int64 {
	for o, r := range l.parts[part] {
		if r.of != nil && !r.of.ended {
			return max(int64(o), l.starts[part])
		}
	}
	return int64(len(l.parts[part]))
}

// committed is a reader of committed records over Kafka, as its clients do it: it drops the transactional batches
// of a producer from the first offset of an aborted transaction to the marker of an abort.
func committed(t *testing.T, batches []byte, aborted []state.AbortedTransaction, from int64, f func(*record.Record)) {
	t.Helper()
	dropping := map[int64]bool{}
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		must.NoError(t, err)
		batches = rest
		if b.ProducerID() >= 0 {
			for len(aborted) > 0 && aborted[0].First < b.BaseOffset()+b.Span() {
				dropping[aborted[0].Producer] = true
				aborted = aborted[1:]
			}
		}
		if b.Control() {
			m, ok := b.Marker()
			must.Equalf(t, ok, true, "control batch at %d is a marker", b.BaseOffset())
			if !m.Commit {
				delete(dropping, m.ProducerID)
			}
			continue
		}
		if b.Transactional() && dropping[b.ProducerID()] {
			continue
		}
		var r record.Reader
		for r.Reset(b, from); r.Next(); {
			f(r.Record())
		}
		must.NoError(t, r.Err())
	}
}

// read returns the records of a partition from an offset on that a reader of committed records gets, in answers of
// few bytes. Over Kafka it gets the batches as they are stored.
func (l *txLog) read(part int, from int64, kafka bool) map[int64]keyedRecord {
	l.t.Helper()
	got := map[int64]keyedRecord{}
	isolation := broker.Committed
	if kafka {
		isolation = broker.RawCommitted
	}
	for {
		f := must.Get(l.b.Fetch(l.t.Context(), []broker.Want{{
			Topic: "t", Partition: int32(part), Offset: from, MaxBytes: 1 + l.rng.IntN(1<<(8+l.rng.IntN(10))), Isolation: isolation,
		}}, 0, 0))(l.t)
		p := &f.Parts[0]
		must.NoError(l.t, p.Err)
		if len(p.Chunks) == 0 {
			must.Equalf(l.t, from, p.LastStable, "end of a reader of committed records")
			must.Equalf(l.t, from, l.stable(part), "last stable offset of partition %d", part)
			f.Release()
			return got
		}
		var batches []byte
		for i := range p.Chunks {
			if p.Chunks[i].Size > 0 {
				batches = append(batches, brokertest.Bytes(l.t, &p.Chunks[i])...)
			}
		}
		committed(l.t, batches, p.Aborted, from, func(r *record.Record) {
			got[r.Offset] = keyedRecord{string(r.Key), string(r.Value), r.Key == nil, r.Value == nil}
		})
		from = p.Chunks[len(p.Chunks)-1].End
		f.Release()
	}
}

// check checks that readers get committed records only, all that no newer one hides, and no record that reappears.
func (l *txLog) check() {
	l.t.Helper()
	for part := range l.parts {
		from, stable := l.starts[part], l.stable(part)
		newest := map[string]int64{}
		for o, r := range l.parts[part][:stable] {
			if r.of == nil || r.of.committed {
				if !r.marker && !r.noKey {
					newest[r.key] = int64(o)
				}
			}
		}
		if l.rng.IntN(3) == 0 && stable > from {
			from += l.rng.Int64N(stable - from)
		}
		got := l.read(part, from, true)
		other := l.read(part, from, false)
		for o := from; o < stable; o++ {
			must.Equalf(l.t, got[o], other[o], "partition %d from %d: offset %d for a Kafka client", part, from, o)
		}
		for o, r := range got {
			m := l.parts[part][o]
			if o < from || m.marker || m.of != nil && !m.of.committed {
				l.t.Fatalf("partition %d from %d: a reader of committed records gets offset %d: %+v", part, from, o, r)
			}
			must.Equalf(l.t, r, m.keyedRecord, "partition %d offset %d", part, o)
		}
		for o := from; o < stable; o++ {
			r := l.parts[part][o]
			if r.marker || r.of != nil && !r.of.committed {
				continue
			}
			_, there := got[o]
			last := newest[r.key]
			if !there && (r.noKey || last == o && !r.tombstone) {
				l.t.Fatalf("partition %d from %d: offset %d is missing: %+v", part, from, o, r)
			}
			if _, hidden := got[last]; there && !r.noKey && !hidden {
				l.t.Fatalf("partition %d from %d: offset %d reappears: its tombstone at %d was removed before %+v", part, from, o, last, r)
			}
		}
	}
	l.seen["check"]++
}

// stored lists what is stored of a partition up to an offset.
type stored struct {
	records, aborted int
	markers          int
	bytes            int64
	entries          int // aborted transactions in the state
}

func (l *txLog) stored(part int, to int64) (s stored) {
	l.t.Helper()
	for from := l.starts[part]; from < to; {
		f := must.Get(l.b.Fetch(l.t.Context(), []broker.Want{{Topic: "t", Partition: int32(part), Offset: from, Isolation: broker.Raw}}, 0, 0))(l.t)
		for i := range f.Parts[0].Chunks {
			c := &f.Parts[0].Chunks[i]
			for rest := brokertest.Bytes(l.t, c); len(rest) > 0; {
				b, more, err := record.Split(rest)
				must.NoError(l.t, err)
				rest = more
				if b.BaseOffset() >= to {
					break
				}
				s.bytes += int64(b.Len())
				if b.Control() {
					s.markers++
				}
				var r record.Reader
				for r.Reset(b, 0); r.Next(); {
					s.records++
					if of := l.parts[part][r.Record().Offset].of; of != nil && of.ended && !of.committed {
						s.aborted++
					}
				}
			}
			from = c.End
		}
		f.Release()
	}
	for _, a := range l.partition(part).Aborted {
		if a.Last < to {
			s.entries++
		}
	}
	return s
}

func (l *txLog) partition(part int) *state.Partition {
	return l.b.View().TopicByName("t").Partitions.At(part)
}

var errLost = errors.New("record lost")

// txBroker checks what readers get after each pack, and sometimes loses the record that ends a pass.
type txBroker struct {
	*broker.Broker
	l *txLog
}

func (b txBroker) Install(ctx context.Context, epoch uint32, c *state.PackContent) error {
	err := b.Broker.Install(ctx, epoch, c)
	b.l.check()
	return err
}

func (b txBroker) Compacted(ctx context.Context, epoch uint32, recs []state.Record) error {
	if b.l.rng.IntN(3) == 0 {
		return errLost
	}
	return b.Broker.Compacted(ctx, epoch, recs)
}

// once is a pack or a pass, with transactions between its requests.
func (l *txLog) once() (made bool) {
	l.t.Helper()
	m := compact.Open(compact.Options{Log: txBroker{l.b, l}, Every: time.Hour, TempDir: l.t.TempDir(), Policy: lifeConfig, Store: &between{l.store, func() {
		if l.rng.IntN(6) == 0 {
			l.act()
			l.seen["act in a pass"]++
		}
	}}})
	defer m.Close()
	ctx := l.t.Context()
	if l.rng.IntN(8) == 0 { // end it in the middle
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(l.rng.IntN(1000))*time.Microsecond)
		defer cancel()
	}
	made, err := m.Once(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errLost) {
		l.t.Fatal(err)
	}
	if err != nil {
		l.seen["pass cut off"]++
	}
	return made
}

// TestCompactionOfTransactions writes transactions of several producers at random, and merges and compacts
// meanwhile. After each step, and in the middle of passes, readers of committed records get exactly those, the newest
// of each key among them. When all has ended, nothing of aborted transactions is left, and no marker.
func TestCompactionOfTransactions(t *testing.T) {
	for range sebtest.Runs(6, 1) {
		testCompactionOfTransactions(t)
	}
}

func testCompactionOfTransactions(t *testing.T) {
	l := newTxLog(t)
	for range 60 {
		for range 1 + l.rng.IntN(30) {
			l.act()
		}
		for range l.rng.IntN(4) {
			l.once()
			l.check()
		}
		if l.rng.IntN(15) == 0 {
			must.NoError(t, l.b.Close(context.Background()))
			l.b = openBroker(t, l.store)
			l.check()
		}
		for part := range l.parts {
			p := l.partition(part)
			if p.Clean > l.stable(part) {
				t.Fatalf("partition %d was compacted to %d, but offset %d is not stable", part, p.Clean, l.stable(part))
			}
			if s := l.stored(part, p.Clean); s.entries > 0 {
				t.Fatalf("partition %d, compacted to %d: %+v", part, p.Clean, s)
			} else if s.aborted > 0 {
				t.Fatalf("partition %d, compacted to %d: records of aborted transactions are left: %+v", part, p.Clean, s)
			}
		}
	}
	for i, p := range l.producers {
		l.init(p.id, i)
	}
	ends := [2]int64{int64(len(l.parts[0])), int64(len(l.parts[1]))}
	m := newMerger(t, l.b, l.store)
	for range 3 { // a pass is due once more was written
		for range 10 {
			l.write(nil)
		}
		time.Sleep(time.Millisecond)
		mergeAll(t, m)
		l.check()
	}
	for part, end := range ends {
		s := l.stored(part, end)
		t.Logf("partition %d: %d offsets, %+v, %v", part, end, s, l.seen)
		if s.aborted+s.markers+s.entries > 0 {
			t.Errorf("partition %d: something of a transaction is left: %+v", part, s)
		}
	}
	sound(t, l.store)
}

// TestMarkersDoNotGrow commits and aborts transactions on one key for a long time. What is left does not depend on
// how many there were.
func TestMarkersDoNotGrow(t *testing.T) {
	l := newTxLog(t)
	m := newMerger(t, l.b, l.store)
	p := l.producers[0]
	size := func(transactions int) int64 {
		for i := range transactions {
			a := brokertest.AppendWith("t", 0, record.EncodeOptions{
				Transactional: true, Producer: &record.Producer{ID: p.now.ID, Epoch: p.now.Epoch, Sequence: p.sequence[0]},
			}, record.Record{Key: []byte("k"), Value: []byte(strings.Repeat("v", 10))})
			brokertest.Send(t, l.b, a)
			p.sequence[0]++
			p.now = must.Get(l.b.EndTransaction(t.Context(), broker.EndTransaction{ID: p.id, Producer: p.now, Commit: i%3 > 0}))(t)
		}
		for range 3 {
			brokertest.Produce(t, l.b, "t", 0, record.Record{Key: []byte("k"), Value: []byte("last")})
			mergeAll(t, m)
		}
		check.Equalf(t, len(l.partition(0).Aborted), 0, "aborted transactions in the state")
		passes := 0
		for must.Get(m.Once(t.Context()))(t) {
			passes++
		}
		check.Equalf(t, passes, 0, "passes when nothing was written")
		return l.partition(0).Bytes
	}
	few := size(20)
	many := size(400)
	t.Logf("%d bytes after 20 transactions, %d after 400 more", few, many)
	if many > 2*few {
		t.Errorf("%d bytes after 20 transactions, %d after 400 more", few, many)
	}
}
