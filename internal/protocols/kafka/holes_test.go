package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestHoles: a consumer reads on after compaction: batches with fewer records than offsets, batches
// without records, and an end offset without a record before it. Offsets by time are those of the
// remaining records.
func TestHoles(t *testing.T) {
	store := objstore.NewMemory()
	s := serve(t, openBroker(t, store, nil), kafka.Options{})
	topic(t, s.b, "c", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact", "delete-retention-time": "0s"}})
	p := client(t, s)
	n := int64(0)
	send := func(keys ...string) {
		t.Helper()
		var list []*kgo.Record
		for _, k := range keys {
			r := &kgo.Record{Topic: "c", Key: []byte(k), Value: fmt.Appendf(nil, "%d", n), Timestamp: time.UnixMilli(1000 + n)}
			if k == "gone" {
				r.Value = nil
			}
			list = append(list, r)
			n++
		}
		must.NoError(t, p.ProduceSync(t.Context(), list...).FirstErr())
	}
	send("a", "b", "c")
	send("a", "b", "b")
	send("gone", "x", "gone")
	send("c", "a", "d", "a")
	send("gone", "gone")
	want := map[int64]string{5: "b", 7: "x", 9: "c", 11: "d", 12: "a"}
	m := compact.Open(compact.Options{
		Log: s.b, Store: store, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Target: 1 << 20, Small: 100},
	})
	defer m.Close()
	sebtest.Eventually(t, "only the newest records remain", func() bool {
		must.Get(m.Once(t.Context()))(t)
		return s.b.View().TopicByName("c").Partitions.At(0).Records == int64(len(want))
	})
	got := map[int64]string{}
	for _, r := range consume(t, client(t, s, kgo.ConsumeTopics("c")), len(want)) {
		got[r.Offset] = string(r.Key)
	}
	check.Equalf(t, fmt.Sprint(got), fmt.Sprint(want), "read %v, want %v", got, want)
	// A consumer behind the last remaining record receives new records.
	c := client(t, s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"c": {0: kgo.NewOffset().At(13)}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	send("new")
	if r := c.PollFetches(ctx).Records(); len(r) != 1 || r[0].Offset != n-1 {
		t.Errorf("%v", r)
	}
	a := admin(t, s)
	for at, offset := range map[int64]int64{1000: 5, 1006: 7, 1008: 9, 1010: 11, 1013: n - 1} {
		o, err := a.ListOffsetsAfterMilli(ctx, at, "c")
		if l, _ := o.Lookup("c", 0); err != nil || l.Offset != offset {
			t.Errorf("at %d: %+v %v, want %d", at, l, err, offset)
		}
	}
}

// TestAppendTime: in a topic with LogAppendTime the producer gets the append time, and consumers
// see it.
func TestAppendTime(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{Settings: map[string]string{"timestamp-type": "LogAppendTime"}})
	before := time.Now().UnixMilli()
	told := produced(dial(t, s).ask(produceRequest(ref, -1, batch(t, nil, "a")), 9)).LogAppendTime
	r := consume(t, client(t, s, kgo.ConsumeTopics("t")), 1)[0]
	if told < before || r.Timestamp.UnixMilli() != told || r.Attrs.TimestampType() != 1 {
		t.Errorf("acknowledged %d, read %d (type %d), sent at %d", told, r.Timestamp.UnixMilli(), r.Attrs.TimestampType(), before)
	}
}

// TestEveryVersionAnswers: each served key answers an empty request of each version in that
// version.
func TestEveryVersionAnswers(t *testing.T) {
	s := memory(t)
	c := dial(t, s)
	for _, k := range c.ask(kmsg.NewPtrApiVersionsRequest(), 3).(*kmsg.ApiVersionsResponse).ApiKeys {
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			r := kmsg.RequestForKey(k.ApiKey)
			if p, ok := r.(*kmsg.ProduceRequest); ok {
				p.Acks = 1
			}
			c.send(r, version)
			if k.ApiKey == int16(kmsg.SASLAuthenticate) { // an empty password is wrong
				c.receive(r, version, c.last)
				c.ended()
				c = dial(t, s)
				continue
			}
			c.receive(r, version, c.last)
		}
	}
}
