package broker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// compacted merges and compacts until a partition of a topic has the given number of records.
func compacted(t testing.TB, b *broker.Broker, s objstore.Store, topic string, records uint32) {
	t.Helper()
	m := compact.Open(compact.Options{
		Log: b, Store: s, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2},
	})
	defer m.Close()
	sebtest.Eventually(t, fmt.Sprintf("%s has %d records", topic, records), func() bool {
		must.Get(m.Once(t.Context()))(t)
		n := uint32(0)
		for _, r := range b.View().TopicByName(topic).Partitions.At(0).Ranges {
			n += r.Records
		}
		return n == records
	})
}

// keyed appends a batch of n records with one key.
func keyed(t testing.TB, b *broker.Broker, topic, key string, n int) {
	t.Helper()
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Timestamp: 1, Key: []byte(key), Value: fmt.Append(nil, i)}
	}
	brokertest.Produce(t, b, topic, 0, recs...)
}

// TestFetchOfCompactedDataDoesNotWait: a compacted range can have fewer bytes than offsets, but an
// estimate of 0 bytes would make a fetch wait.
func TestFetchOfCompactedDataDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := objstore.NewMemory()
		b := open(t, options(s))
		must.Get(b.CreateTopic(t.Context(), "a", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
		const batches, each = 8, 500
		for range batches {
			keyed(t, b, "a", "k", each)
		}
		compacted(t, b, s, "a", 1)
		for _, offset := range []int64{0, 1, batches*each - 2, batches*each - 1} {
			begin := time.Now()
			f, err := b.Fetch(t.Context(), []broker.Want{{Topic: "a", Offset: offset}}, 1, time.Hour)
			if err != nil || f.Parts[0].Err != nil || len(f.Parts[0].Chunks) == 0 {
				t.Fatalf("offset %d: %v, %+v", offset, err, f)
			}
			// synctest time stands still while a goroutine runs
			if took := time.Since(begin); took > 0 {
				t.Errorf("offset %d: waited %s", offset, took)
			}
			f.Release()
		}
	})
}

// TestRetentionOfCompactedTopics: with compact,delete retention applies to the compacted sizes;
// with compact alone there is no retention, as in Kafka.
func TestRetentionOfCompactedTopics(t *testing.T) {
	s, c := objstore.NewMemory(), &clock{}
	o := options(s)
	o.Now, o.RetentionEvery = c.now, time.Millisecond
	b := open(t, o)
	for name, settings := range map[string]map[string]string{
		"hour": {"cleanup-policy": "compact,delete", "retention-time": "1h"},
		"size": {"cleanup-policy": "compact,delete", "retention-bytes": "6000"},
		"ever": {"cleanup-policy": "compact", "retention-time": "1h", "retention-bytes": "1"},
	} {
		must.Get(b.CreateTopic(t.Context(), name, broker.TopicSpec{Settings: settings}))(t)
		for range 8 {
			keyed(t, b, name, "k", 50)
		}
	}
	until := func(topic string, start int64) {
		t.Helper()
		sebtest.Eventually(t, "the partition has its expected start", func() bool { return partition(t, b, topic, 0).Start == start })
	}
	for _, name := range []string{"hour", "size", "ever"} {
		compacted(t, b, s, name, 1)
		if p := partition(t, b, name, 0); p.Start != 0 || p.Next != 400 || p.Records != 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for range 20 {
		mustProduce(t, b, "size", 0, strings.Repeat("x", 1000))
	}
	until("size", 414) // the last six of 1,000 records and their headers
	if p := partition(t, b, "size", 0); p.Next != 420 || p.Bytes < 6000 {
		t.Errorf("size: %+v", p)
	}
	c.ahead.Store(int64(2 * time.Hour))
	until("hour", 400)
	if p := partition(t, b, "hour", 0); p.Bytes != 0 || p.Records != 0 || p.Next != 400 {
		t.Errorf("hour: %+v", p)
	}
	c.passes()
	if p := partition(t, b, "ever", 0); p.Start != 0 || p.Records != 1 {
		t.Errorf("ever: %+v", p)
	}
}

// TestTombstonesAreRemovedByLogTime: neither a clock that is set while the broker runs, nor a jump
// of the time at a start, removes a tombstone early.
func TestTombstonesAreRemovedByLogTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mono, wall atomic.Int64 // each reading adds a millisecond
		// synctest begins in the year 2000, where the clock would be in doubt
		time.Sleep(10 * 365 * 24 * time.Hour)
		wall.Store(time.Now().UnixMicro())
		o := options(objstore.NewMemory())
		o.Clocks = func() log.Reading { return log.Reading{Mono: mono.Add(1e6), Wall: wall.Load()} }
		b := open(t, o)
		settings := map[string]string{"cleanup-policy": "compact", "delete-retention-time": "24h"}
		must.Get(b.CreateTopic(t.Context(), "k", broker.TopicSpec{Partitions: 1, Settings: settings}))(t)
		keyed(t, b, "k", "a", 3)
		brokertest.Produce(t, b, "k", 0, record.Record{Timestamp: 1, Key: []byte("a")})
		compacted(t, b, o.Store, "k", 1)
		want := func(when string, records uint32) {
			t.Helper()
			m := compact.Open(compact.Options{Log: b, Store: o.Store, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2}})
			defer m.Close()
			for more, err := true, error(nil); more; {
				if more, err = m.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			left := uint32(0)
			for _, r := range b.View().TopicByName("k").Partitions.At(0).Ranges {
				left += r.Records
			}
			if left != records {
				t.Errorf("%s %d records are left, want %d", when, left, records)
			}
		}
		time.Sleep(48 * time.Hour)
		want("when the machine's clock is set", 1)
		b.Close(t.Context())
		wall.Add((48 * time.Hour).Microseconds())
		b = open(t, o)
		want("after a jump at a start", 1)
		time.Sleep(11 * time.Minute)
		want("11 minutes after the jump", 0)
	})
}
