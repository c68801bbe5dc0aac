package fsck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// keyed appends records to topic c: "key=value", or "key" for a tombstone.
func keyed(t testing.TB, b *broker.Broker, codec record.Compression, texts ...string) {
	t.Helper()
	recs := make([]record.Record, len(texts))
	for i, text := range texts {
		key, value, given := strings.Cut(text, "=")
		recs[i] = record.Record{Timestamp: 1000 + int64(i), Key: []byte(key)}
		if given {
			recs[i].Value = []byte(value)
		}
	}
	brokertest.Send(t, b, brokertest.AppendWith("c", 0, record.EncodeOptions{Compression: codec}, recs...))
}

// compacted writes a compacted topic c and a topic of 3 records that is not compacted. Of the
// twelve offsets of c, compaction keeps b=2 at offset 3 and c=4 at offset 8, and none of the last
// three.
func compacted(t testing.TB, s objstore.Store, snapshotSlots int) {
	t.Helper()
	b := open(t, options(s, snapshotSlots))
	if _, err := b.CreateTopic(t.Context(), "c", broker.TopicSpec{Settings: map[string]string{
		"cleanup-policy": "compact", "delete-retention-time": "0s", "timestamp-type": "LogAppendTime", // plain keeps the producer's timestamps
	}}); err != nil {
		t.Fatal(err)
	}
	create(t, b, "plain", 1)
	keyed(t, b, record.None, "a=0", "a=1")
	keyed(t, b, record.None, "b=1", "b=2", "a=3")
	keyed(t, b, record.Zstd, "a=4", "c=1", "c=2", "c=4")
	keyed(t, b, record.None, "a", "x")
	keyed(t, b, record.Gzip, "y")
	produce(t, b, "plain", 0, "0", "1", "2")
	m := compact.Open(compact.Options{Log: b, Store: s, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2}})
	defer m.Close()
	left := func() (n uint32) {
		for _, r := range b.View().TopicByName("c").Partitions.At(0).Ranges {
			n += r.Records
		}
		return n
	}
	sebtest.Eventually(t, "two records are left", func() bool {
		must.Get(m.Once(t.Context()))(t)
		return left() == 2
	})
	closeBroker(t, b)
}

// TestCleanAfterCompaction: empty batches, gaps and removed tombstones are not damage. Record
// counts are exact, also after the next broker has continued.
func TestCleanAfterCompaction(t *testing.T) {
	t.Parallel()
	for _, snapshotSlots := range []int{4, 1000} {
		for name, s := range map[string]objstore.Store{"memory": objstore.NewMemory(), "disk": disk(t)} {
			compacted(t, s, snapshotSlots)
			settled(t, s)
			r := clean(t, s)
			if r.Records != 5 || r.Topics != 2 || r.Packs == 0 {
				t.Errorf("%s: %+v", name, r)
			}
			b := open(t, options(s, 4))
			keyed(t, b, record.None, "b=5")
			for range 10 {
				produce(t, b, "plain", 0, "more")
			}
			closeBroker(t, b)
			settled(t, s)
			if r := clean(t, s); r.Records != 16 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// TestDamagedCompactedPack: fsck finds a change of any byte of a compacted pack and names the lost
// records. The unused epochs in the batch heads are the exception.
func TestDamagedCompactedPack(t *testing.T) {
	s := objstore.NewMemory()
	compacted(t, s, 1000)
	name, sound := compactedPack(t, s)
	epochs := map[int]bool{}
	first := int(leftOf(t, sound).Pos)
	for at := first; at < len(sound); {
		batch, _ := must.Get2(record.Split(sound[at:]))(t)
		for i := 12; i < 16; i++ {
			epochs[at+i] = true
		}
		at += batch.Len()
	}
	want := []fsck.Records{{Topic: "c", From: 0, To: 12}}
	for at := range sound {
		if epochs[at] || at%sebtest.Runs(1, 7) != 0 {
			continue
		}
		damaged := slices.Clone(sound)
		damaged[at] ^= 1
		change(t, s, name, func([]byte) []byte { return damaged })
		r, found := must.Get2(verify(t, fsck.Options{Store: s}))(t)
		if r.Damages != 1 || len(found) == 0 || found[len(found)-1].Key != name || !slices.Equal(found[len(found)-1].Lost, want) {
			t.Errorf("byte %d of %d, batches from %d on: %+v", at, len(sound), first, found)
		}
	}
	change(t, s, name, func([]byte) []byte { return sound })
	clean(t, s)
}

// compactedPack returns the current pack of topic c.
func compactedPack(t testing.TB, s objstore.Store) (name string, b []byte) {
	t.Helper()
	br := open(t, options(s, 1000))
	v := br.View()
	ranges := v.TopicByName("c").Partitions.At(0).Ranges
	if len(ranges) != 1 || !ranges[0].Pack || ranges[0].Records != 2 || ranges[0].Span != 12 {
		t.Fatalf("%+v", ranges)
	}
	name = v.RangeKey(&ranges[0])
	closeBroker(t, br)
	return name, read(t, s, name)
}

// leftOf returns the first entry of a pack's index.
func leftOf(t testing.TB, b []byte) record.IndexEntry {
	t.Helper()
	o, err := record.DecodeObject(b)
	if err != nil || len(o.Index) == 0 {
		t.Fatal(fmt.Sprint(err, o))
	}
	return o.Index[0]
}
