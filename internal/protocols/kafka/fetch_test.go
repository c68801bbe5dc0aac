package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

// store appends batches and returns them as stored.
func store(t testing.TB, s *served, ref broker.TopicRef, partition int32, batches ...[]byte) (stored []byte) {
	t.Helper()
	for _, b := range batches {
		sum := must.Get(record.Check(b, record.Limits{}))(t)
		sent := append([]byte(nil), b...)
		base := brokertest.Send(t, s.b, broker.Append{Topic: ref.Name, Partition: partition, Data: sent, Summary: sum, ExpectedOffset: -1})
		record.Patch(b, base, int32(s.b.Epoch()))
		stored = append(stored, b...)
	}
	return stored
}

// TestFetchVersions: every version returns the stored bytes in an answer that kmsg decodes.
func TestFetchVersions(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{Partitions: 3})
	first := store(t, s, ref, 0, batch(t, nil, "a", "b"), batch(t, nil, "c"))
	third := store(t, s, ref, 2, batch(t, nil, "d"))
	must.Get(s.b.Trim(t.Context(), "t", 0, 1))(t)
	c := dial(t, s)
	for version := int16(4); version <= 18; version++ {
		for isolation := range int8(2) {
			r := fetchRequest(ref, 1)
			r.IsolationLevel = isolation
			for p := int32(1); p < 3; p++ {
				more := r.Topics[0].Partitions[0]
				more.Partition, more.FetchOffset = p, 0
				r.Topics[0].Partitions = append(r.Topics[0].Partitions, more)
			}
			resp := c.ask(r, version).(*kmsg.FetchResponse)
			if resp.ErrorCode != 0 || resp.SessionID != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 3 {
				t.Fatalf("v%d: %+v", version, resp)
			}
			if top := &resp.Topics[0]; version < 13 && top.Topic != "t" || version >= 13 && top.TopicID != ref.ID {
				t.Fatalf("v%d: topic %+v", version, top)
			}
			for i, want := range []struct {
				start, end int64
				data       []byte
			}{{1, 3, first}, {0, 0, nil}, {0, 1, third}} {
				p := &resp.Topics[0].Partitions[i]
				if p.Partition != int32(i) || p.ErrorCode != 0 || p.HighWatermark != want.end || p.LastStableOffset != want.end ||
					version >= 5 && p.LogStartOffset != want.start || string(p.RecordBatches) != string(want.data) ||
					version >= 11 && p.PreferredReadReplica != -1 || (p.AbortedTransactions != nil) != (isolation == 1) {
					t.Fatalf("v%d isolation %d partition %d: %+v", version, isolation, i, p)
				}
			}
		}
	}
}

// TestFetchErrors: an unreadable partition is reported at once with its code, together with the
// data of the others.
func TestFetchErrors(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	store(t, s, ref, 0, batch(t, nil, "a"), batch(t, nil, "b"))
	must.Get(s.b.Trim(t.Context(), "t", 0, 1))(t)
	c := dial(t, s)
	epoch := int32(s.b.Epoch())
	for name, f := range map[string]struct {
		version int16
		change  func(p *kmsg.FetchRequestTopicPartition, top *kmsg.FetchRequestTopic)
		code    int16
	}{
		"below the start": {12, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.FetchOffset = 0 }, 1},
		"beyond the end":  {12, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.FetchOffset = 3 }, 1},
		"negative":        {12, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.FetchOffset = -1 }, 1},
		"old epoch":       {12, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.CurrentLeaderEpoch = epoch - 1 }, 74},
		"new epoch":       {9, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.CurrentLeaderEpoch = epoch + 1 }, 75},
		"partition":       {4, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.Partition = 1 }, 3},
		"topic":           {12, func(_ *kmsg.FetchRequestTopicPartition, top *kmsg.FetchRequestTopic) { top.Topic = "other" }, 3},
		"topic id":        {13, func(_ *kmsg.FetchRequestTopicPartition, top *kmsg.FetchRequestTopic) { top.TopicID[3]++ }, 100},
		"this epoch":      {12, func(p *kmsg.FetchRequestTopicPartition, _ *kmsg.FetchRequestTopic) { p.CurrentLeaderEpoch = epoch }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := fetchRequest(ref, 1)
			r.MaxWaitMillis, r.MinBytes = 50_000, 1<<20 // more than is stored
			good := r.Topics[0]
			good.Partitions = append([]kmsg.FetchRequestTopicPartition(nil), good.Partitions...)
			f.change(&r.Topics[0].Partitions[0], &r.Topics[0])
			if f.code == 0 {
				r.MinBytes = 1
			}
			r.Topics = append(r.Topics, good)
			resp := c.ask(r, f.version).(*kmsg.FetchResponse)
			p, rest := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
			if p.ErrorCode != f.code || len(p.RecordBatches) > 0 != (f.code == 0) || rest.ErrorCode != 0 || len(rest.RecordBatches) == 0 {
				t.Errorf("%+v, the other %+v", p, rest)
			}
		})
	}
	r := fetchRequest(ref, 1)
	r.SessionID, r.SessionEpoch = 5, 1
	if resp := c.ask(r, 12).(*kmsg.FetchResponse); resp.ErrorCode != 70 || len(resp.Topics) != 0 {
		t.Errorf("fetch with a session: %+v", resp)
	}
}

// TestFetchWaits: a fetch at the end waits for records, and is answered without data after its
// maximum wait. It delays no other connection, and ends when the server drains.
func TestFetchWaits(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c, other := dial(t, s), dial(t, s)
	r := fetchRequest(ref, 0)
	r.MinBytes, r.MaxWaitMillis = 1, 60_000
	c.send(r, 12)
	if p := produced(other.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 0 {
		t.Fatal(p)
	}
	if p := fetched(c.receive(r, 12, c.last)); p.HighWatermark != 1 || len(p.RecordBatches) == 0 {
		t.Errorf("%+v", p)
	}
	r = fetchRequest(ref, 1)
	r.MinBytes, r.MaxWaitMillis = 1, 10
	if p := fetched(c.ask(r, 12)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.RecordBatches == nil || p.HighWatermark != 1 {
		t.Errorf("after the maximum wait: %+v", p)
	}
	r.MaxWaitMillis = 60_000
	c.send(r, 12)
	s.asked(t, "Fetch", 3)
	s.k.Drain()
	if p := fetched(c.receive(r, 12, c.last)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("while the server drains: %+v", p)
	}
	c.ended()
}

// TestFetchSizes: the answer has whole batches up to the maximum sizes, but at least one.
func TestFetchSizes(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{Partitions: 2})
	one := batch(t, nil, string(make([]byte, 1000)))
	size := int32(len(one))
	for range 10 {
		for p := range int32(2) {
			store(t, s, ref, p, append([]byte(nil), one...))
		}
	}
	c := dial(t, s)
	for _, f := range []struct{ total, each, first, second int32 }{
		{1 << 20, 1 << 20, 10, 10}, {1 << 20, 1, 1, 1}, {1, 1, 1, 0}, {1, 1 << 20, 1, 0}, {3 * size, 2 * size, 2, 1}, {0, 0, 1, 0}, {1 << 30, -5, 1, 1},
	} {
		r := fetchRequest(ref, 0)
		r.MaxBytes = f.total
		r.Topics[0].Partitions[0].PartitionMaxBytes = f.each
		second := r.Topics[0].Partitions[0]
		second.Partition = 1
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, second)
		resp := c.ask(r, 11).(*kmsg.FetchResponse).Topics[0].Partitions
		if a, b := int32(len(resp[0].RecordBatches)), int32(len(resp[1].RecordBatches)); a != f.first*size || b != f.second*size {
			t.Errorf("%+v: got %d and %d batches", f, a/size, b/size)
		}
	}
}

// TestFetchPipelined: pipelined fetches and other requests are answered in order.
func TestFetchPipelined(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	want := store(t, s, ref, 0, batch(t, nil, "a"))
	c := dial(t, s)
	first := c.last + 1
	for i := range 20 {
		if i%2 == 0 {
			c.send(fetchRequest(ref, 0), 12)
		} else {
			c.send(kmsg.NewPtrMetadataRequest(), 9)
		}
	}
	for i := range 20 {
		if i%2 == 1 {
			c.receive(kmsg.NewPtrMetadataRequest(), 9, first+int32(i))
		} else if p := fetched(c.receive(kmsg.NewPtrFetchRequest(), 12, first+int32(i))); string(p.RecordBatches) != string(want) {
			t.Fatalf("fetch %d: %+v", i, p)
		}
	}
}
