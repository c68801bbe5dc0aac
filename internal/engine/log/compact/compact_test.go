package compact_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// keyedRecord is a record that was written at an offset.
type keyedRecord struct {
	key, value string
	noKey      bool
	tombstone  bool
}

// keyedLog is the acknowledged records of a topic's partitions, by offset.
type keyedLog struct {
	topic string
	rng   *rand.Rand
	parts [2][]keyedRecord
}

func (l *keyedLog) record() keyedRecord {
	r := keyedRecord{key: fmt.Sprintf("k%d", l.rng.IntN(40)), value: fmt.Sprintf("v%d-%s", l.rng.Int64(), strings.Repeat("y", l.rng.IntN(200)))}
	switch l.rng.IntN(20) {
	case 0:
		r.noKey, r.key = true, ""
	case 1, 2, 3:
		r.tombstone, r.value = true, ""
	case 4:
		r.key = ""
	}
	return r
}

// write appends batches of a few records each, with every codec.
func (l *keyedLog) write(t *testing.T, b *broker.Broker, batches int) {
	t.Helper()
	for range batches {
		part := l.rng.IntN(2)
		var recs []record.Record
		for range 1 + l.rng.IntN(6) {
			r := l.record()
			rec := record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(r.key), Value: []byte(r.value)}
			if r.noKey {
				rec.Key = nil
			}
			if r.tombstone {
				rec.Value = nil
			}
			recs = append(recs, rec)
			l.parts[part] = append(l.parts[part], r)
		}
		base := brokertest.Send(t, b, brokertest.AppendWith(l.topic, part, record.EncodeOptions{Compression: record.Compression(l.rng.IntN(5))}, recs...))
		must.Equalf(t, base, int64(len(l.parts[part])-len(recs)), "base offset")
	}
}

// read returns the existing records by offset.
func (l *keyedLog) read(t *testing.T, b *broker.Broker, part int) map[int64]keyedRecord {
	t.Helper()
	got := map[int64]keyedRecord{}
	end := brokertest.Each(t, b, l.topic, part, 0, func(r *record.Record) {
		got[r.Offset] = keyedRecord{string(r.Key), string(r.Value), r.Key == nil, r.Value == nil}
	})
	if end != int64(len(l.parts[part])) {
		t.Fatalf("the end is %d, want %d", end, len(l.parts[part]))
	}
	return got
}

// check checks that every record is one that was written, that the newest of each key exists, and
// that no tombstone was removed before the records that it hides.
func (l *keyedLog) check(t *testing.T, b *broker.Broker) {
	t.Helper()
	for part := range l.parts {
		got := l.read(t, b, part)
		newest := map[string]int64{}
		for o, r := range l.parts[part] {
			if !r.noKey {
				newest[r.key] = int64(o)
			}
		}
		for o, r := range got {
			must.Equalf(t, r, l.parts[part][o], "partition %d offset %d", part, o)
		}
		for o, r := range l.parts[part] {
			_, there := got[int64(o)]
			last := newest[r.key]
			if !there && (r.noKey || last == int64(o) && !r.tombstone) {
				t.Fatalf("partition %d offset %d is missing: %+v", part, o, r)
			}
			if _, hidden := got[last]; there && !r.noKey && !hidden {
				t.Fatalf("partition %d offset %d reappears: its tombstone at %d was removed before %+v", part, o, last, r)
			}
		}
	}
}

// TestCompaction writes at random to compacted and other topics, and merges and compacts with
// little memory for keys, over several restarts of the broker.
func TestCompaction(t *testing.T) {
	for _, keys := range []int{10, 25, 1000} {
		for name, store := range stores(t) {
			if (name == "disk" || testing.Short()) && keys != 25 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d keys in memory", name, keys), func(t *testing.T) { testCompaction(t, store, keys) })
		}
	}
}

func testCompaction(t *testing.T, store objstore.Store, keys int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &keyedLog{topic: fmt.Sprintf("compacted-%d", keys), rng: rand.New(rand.NewPCG(seed, 1))}
	others := written{}
	cfg := config
	cfg.KeyBytes = 48 * keys
	var b *broker.Broker
	rounds := sebtest.Runs(4, 2)
	for round := range rounds {
		b = openBroker(t, store)
		if round == 0 {
			must.Get(b.CreateTopic(t.Context(), l.topic, broker.TopicSpec{Partitions: 2, Settings: map[string]string{
				"cleanup-policy": "compact", "delete-retention-time": "1ms",
			}}))(t)
		}
		m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Policy: cfg, Every: time.Hour})
		for range 5 {
			l.write(t, b, 60)
			others.write(t, b, 10)
			if l.rng.IntN(3) > 0 {
				mergeAll(t, m)
			}
			l.check(t, b)
		}
		m.Close()
		if round < rounds-1 {
			b.Close(t.Context())
		}
	}
	others.check(t, b)
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Policy: compact.Policy{Age: 1, Small: 2}, Every: time.Hour})
	defer m.Close()
	// The current records are compacted for the last time once as much was written again.
	ends := [2]int{len(l.parts[0]), len(l.parts[1])}
	sebtest.Eventually(t, "only the newest of the earlier records remain", func() bool {
		l.write(t, b, 20)
		mergeAll(t, m)
		l.check(t, b)
		old, least := l.countBelow(t, b, ends)
		return old == least
	})
}

// countBelow counts the records below some offsets: the existing ones, and the minimum without
// tombstones.
func (l *keyedLog) countBelow(t *testing.T, b *broker.Broker, ends [2]int) (records, least int) {
	t.Helper()
	for part, end := range ends {
		newest := map[string]int{}
		for o, r := range l.parts[part] {
			if !r.noKey {
				newest[r.key] = o
			}
		}
		got := l.read(t, b, part)
		clean := b.View().TopicByName(l.topic).Partitions.At(int(part)).Clean
		for o, r := range l.parts[part][:end] {
			if _, there := got[int64(o)]; there {
				records++
			}
			// The newest record of a key in the compacted part stays, even if there is a newer one
			// by now.
			if r.noKey || !r.tombstone && newest[r.key] == o {
				least++
			} else if _, there := got[int64(o)]; there && !r.tombstone && int64(newest[r.key]) >= clean {
				least++
			}
		}
	}
	return records, least
}
