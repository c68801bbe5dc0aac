package compact_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestPassReadsAtMostTwice compacts 100 times as many records as fit into the memory for keys. One pass
// does it, and reads only ranges that lose records twice.
func TestPassReadsAtMostTwice(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
	met := metrics.NewSet()
	policy := config
	policy.KeyBytes = 120 * 48
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Policy: policy, Every: time.Hour, Metrics: met})
	defer m.Close()
	count := func(name string) int { return int(met.GetOrCreateCounter(name).Get()) }
	write := func(from, to int) {
		recs := make([]record.Record, 0, to-from)
		for i := from; i < to; i++ {
			recs = append(recs, record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "key %d", i), Value: make([]byte, 50)})
		}
		brokertest.Produce(t, b, "t", 0, recs...)
	}
	for i := range 60 {
		write(100*i, 100*i+100)
	}
	mergeAll(t, m)
	size := int(b.View().TopicByName("t").Partitions.At(0).Bytes)
	check.Equalf(t, count("seb_compactions_total"), 1, "passes over new keys")
	check.Equalf(t, count("seb_compaction_read_bytes_total"), size, "bytes read of %d, without a record to drop", size)
	for i := range 61 {
		write(100*(i%60), 100*(i%60)+100)
	}
	size = int(b.View().TopicByName("t").Partitions.At(0).Bytes)
	before := count("seb_compaction_read_bytes_total")
	mergeAll(t, m)
	check.Equalf(t, count("seb_compactions_total"), 2, "passes")
	check.Equalf(t, count("seb_compaction_records_dropped_total"), 6100, "dropped records")
	check.Equalf(t, b.View().TopicByName("t").Partitions.At(0).Records, 6000, "remaining records")
	if read := count("seb_compaction_read_bytes_total") - before; read > 2*size {
		t.Errorf("the second pass read %d bytes of %d", read, size)
	}
	check.Equalf(t, met.GetOrCreateGauge("seb_compaction_left_bytes", nil).Get(), 0, "bytes left after a pass")
}

// TestMovedBatchDropsNothing: no checksum covers the base offset of a batch. A batch with a wrong one
// must not count as newer than the newest record of its key.
func TestMovedBatchDropsNothing(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Policy: compact.Policy{Age: time.Microsecond}, Every: time.Hour})
	defer m.Close()
	w := written{}
	for _, key := range []string{"other", "key", "key"} {
		brokertest.Produce(t, b, "t", 0, record.Record{Timestamp: 1, Key: []byte(key), Value: []byte("value")})
		w.write(t, b, 1)
		must.Equalf(t, must.Get(m.Once(t.Context()))(t), true, "a pack was made")
	}
	r := b.View().TopicByName("t").Partitions.At(0).Ranges[1]
	name := b.View().RangeKey(&r)
	obj := must.Get(store.Get(t.Context(), name, objstore.Whole))(t)
	body := must.Get(io.ReadAll(obj.Body))(t)
	body[r.Pos+7] ^= 1
	must.NoError(t, store.Delete(t.Context(), name))
	must.NoError(t, store.Put(t.Context(), name, objstore.NewBody(body)))
	for range 5 {
		_, _ = m.Once(t.Context())
	}
	p := b.View().TopicByName("t").Partitions.At(0)
	check.Equalf(t, p.Ranges[len(p.Ranges)-1].Records, 1, "the newest record of the key")
	w.check(t, b)
}

// damaging is a temporary file that sometimes returns a wrong bit.
type damaging struct {
	*os.File
	rng     *rand.Rand
	damages *int
}

func (d damaging) ReadAt(b []byte, at int64) (int, error) {
	n, err := d.File.ReadAt(b, at)
	if n > 0 && d.rng.IntN(150) == 0 {
		b[d.rng.IntN(n)] ^= 1 << d.rng.IntN(8)
		*d.damages++
	}
	return n, err
}

// TestDamagedTemporaryFileDropsNothing checks that each damage to the sorted keys ends the pass with an
// error, and that no record is dropped that stays otherwise.
func TestDamagedTemporaryFileDropsNothing(t *testing.T) {
	seed := seedOf(t)
	l := &keyedLog{topic: "compacted", rng: rand.New(rand.NewPCG(seed, 1))}
	store := objstore.NewMemory()
	b := openBroker(t, store)
	must.Get(b.CreateTopic(t.Context(), l.topic, broker.TopicSpec{Partitions: 2, Settings: map[string]string{
		"cleanup-policy": "compact", "delete-retention-time": "1ms", "min-cleanable-dirty-ratio": "0",
	}}))(t)
	damages, failed, dir := 0, 0, t.TempDir()
	policy := config
	policy.KeyBytes = 20 * 48
	policy.Scratch = func() (compact.Scratch, error) {
		f, err := os.CreateTemp(dir, "")
		return damaging{f, l.rng, &damages}, err
	}
	met := metrics.NewSet()
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: dir, Policy: policy, Every: time.Hour, Metrics: met})
	defer m.Close()
	for range 40 {
		l.write(t, b, 20)
		for range 10 {
			before := damages
			made, err := m.Once(t.Context())
			if (err != nil) != (damages > before) {
				t.Fatalf("%d damages, and the error is %v", damages-before, err)
			}
			if err != nil {
				failed++
			}
			if !made && err == nil {
				break
			}
		}
		l.check(t, b)
	}
	t.Logf("%d passes failed, %d ended", failed, met.GetOrCreateCounter("seb_compactions_total").Get())
	if failed == 0 || met.GetOrCreateCounter("seb_compactions_total").Get() == 0 {
		t.Error("want both")
	}
}

// limited is a temporary file that records the largest size of all.
type limited struct {
	*os.File
	largest *int64
}

func (l limited) WriteAt(b []byte, at int64) (int, error) {
	*l.largest = max(*l.largest, at+int64(len(b)))
	return l.File.WriteAt(b, at)
}

// TestTemporaryFilesAreBounded compacts partitions with many times as many records as a round takes,
// of many keys that each lose most of their records, and of one key that has most records. Each
// temporary file holds the records of a few rounds at most, and only the newest record of each key
// remains.
func TestTemporaryFilesAreBounded(t *testing.T) {
	const inMemory, records = 10, 3000
	const round = inMemory * inMemory
	for name, key := range map[string]func(i int) int{
		"many keys": func(i int) int { return i % 500 },
		"one key":   func(i int) int { return max(0, i-records+50) },
	} {
		t.Run(name, func(t *testing.T) {
			store, largest := objstore.NewMemory(), int64(0)
			b := openBroker(t, store)
			must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Settings: map[string]string{
				"cleanup-policy": "compact", "min-cleanable-dirty-ratio": "0",
			}}))(t)
			dir, met := t.TempDir(), metrics.NewSet()
			policy := config
			policy.KeyBytes = inMemory * 48
			policy.Scratch = func() (compact.Scratch, error) {
				f, err := os.CreateTemp(dir, "")
				return limited{f, &largest}, err
			}
			m := compact.Open(compact.Options{Log: b, Store: store, TempDir: dir, Policy: policy, Every: time.Hour, Metrics: met})
			defer m.Close()
			newest := map[string]int64{}
			for i := range records / 100 {
				var recs []record.Record
				for j := range 100 {
					k := fmt.Sprint("key ", key(100*i+j))
					newest[k] = int64(100*i + j)
					recs = append(recs, record.Record{Timestamp: 1, Key: []byte(k), Value: []byte("value")})
				}
				brokertest.Produce(t, b, "t", 0, recs...)
			}
			mergeAll(t, m)
			left := map[string]int64{}
			brokertest.Each(t, b, "t", 0, 0, func(r *record.Record) { left[string(r.Key)] += r.Offset })
			if !maps.Equal(left, newest) {
				t.Errorf("%d keys remain of %d, or not the newest record of each", len(left), len(newest))
			}
			check.Equalf(t, met.GetOrCreateCounter("seb_compactions_total").Get(), 1, "complete passes")
			t.Logf("the largest temporary file had %d entries", largest/24)
			if largest > 3*round*24 {
				t.Errorf("a temporary file had %d bytes, want at most %d", largest, 3*round*24)
			}
		})
	}
}

// TestPassOutlivesFailedMerge: a commit object that cannot be merged between the portions of a pass
// does not end the pass.
func TestPassOutlivesFailedMerge(t *testing.T) {
	store, ranges, spoiled := objstore.NewMemory(), 0, false
	b := openBroker(t, store)
	for _, name := range []string{"t", "other"} {
		must.Get(b.CreateTopic(t.Context(), name, broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
	}
	dir, met := t.TempDir(), metrics.NewSet()
	policy := config
	policy.KeyBytes, policy.Backlog = 10*48, 1
	policy.Scratch = func() (compact.Scratch, error) {
		if !spoiled { // the pass has begun
			spoiled = true
			brokertest.Produce(t, b, "other", 0, record.Record{Timestamp: 1, Key: []byte("k"), Value: []byte("v")})
			lost := b.View().TopicByName("other").Partitions.At(0).Ranges[0]
			must.NoError(t, store.Delete(t.Context(), b.View().RangeKey(&lost)))
			ranges = 1
		}
		return os.CreateTemp(dir, "")
	}
	m := compact.Open(compact.Options{
		Log: b, Store: store, TempDir: dir, Policy: policy, Every: time.Hour, Metrics: met,
		Ranges: func() int { return ranges },
	})
	defer m.Close()
	for i := range 60 {
		brokertest.Produce(t, b, "t", 0, record.Record{Timestamp: 1, Key: fmt.Append(nil, i%10), Value: []byte("v")})
	}
	mergeAll(t, m)
	check.Equalf(t, spoiled, true, "an object was lost")
	check.Equalf(t, met.GetOrCreateCounter("seb_merge_failures_total").Get(), 1, "failed merges")
	check.Equalf(t, met.GetOrCreateCounter("seb_compactions_total").Get(), 1, "passes")
	check.Equalf(t, b.View().TopicByName("t").Partitions.At(0).Records, 10, "remaining records")
}
