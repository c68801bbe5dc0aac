// Package brokertest appends records to brokers, for the tests of many packages.
package brokertest

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// Append returns an append of records to a partition of a topic.
func Append(topic string, partition int, recs ...record.Record) broker.Append {
	return AppendWith(topic, partition, record.EncodeOptions{}, recs...)
}

// AppendWith is Append with options.
func AppendWith(topic string, partition int, o record.EncodeOptions, recs ...record.Record) broker.Append {
	data, sum := recordtest.Encode(recs, o)
	return broker.Append{Topic: topic, Partition: int32(partition), Data: data, Summary: sum, ExpectedOffset: -1}
}

// anyBroker is a broker or a node.
type anyBroker interface {
	Submit(ctx context.Context, appends []broker.Append) *broker.Ticket
	Fetch(ctx context.Context, wants []broker.Want, minBytes int, wait time.Duration) (*broker.Fetched, error)
}

// Try performs an append.
func Try(ctx context.Context, b anyBroker, a broker.Append) broker.Result {
	return b.Submit(ctx, []broker.Append{a}).Wait(ctx)[0]
}

// Send performs an append, which must succeed, and returns the offset of its first record.
func Send(t testing.TB, b anyBroker, a broker.Append) int64 {
	t.Helper()
	r := Try(t.Context(), b, a)
	must.NoErrorf(t, r.Err, "append to %s", a.Topic)
	return r.Base
}

// Produce appends records to a partition of a topic, and returns the offset of the first one.
func Produce(t testing.TB, b anyBroker, topic string, partition int, recs ...record.Record) int64 {
	t.Helper()
	return Send(t, b, Append(topic, partition, recs...))
}

// Bytes returns the batches of a chunk.
func Bytes(t testing.TB, c *broker.Chunk) []byte {
	t.Helper()
	if c.Section == nil {
		return slices.Concat(c.Parts...)
	}
	b := must.Get(io.ReadAll(c.Section))(t)
	return b
}

// Each calls f for the records of a partition from an offset to the end, and returns the end. It reads
// a few at a time.
func Each(t testing.TB, b anyBroker, topic string, partition int, offset int64, f func(*record.Record)) (end int64) {
	t.Helper()
	for {
		got, err := b.Fetch(t.Context(), []broker.Want{{Topic: topic, Partition: int32(partition), Offset: offset, MaxBytes: 5000}}, 0, 0)
		if err != nil || got.Parts[0].Err != nil {
			t.Fatalf("%s/%d at %d: %v, %+v", topic, partition, offset, err, got)
		}
		p := &got.Parts[0]
		if offset == p.HighWatermark {
			got.Release()
			return offset
		}
		if len(p.Chunks) == 0 || p.Chunks[0].Base > offset || p.Chunks[0].End <= offset {
			t.Fatalf("%s/%d at %d of %d: %+v", topic, partition, offset, p.HighWatermark, p.Chunks)
		}
		for i := range p.Chunks {
			var r record.Reader
			for r.Reset(Bytes(t, &p.Chunks[i]), offset); r.Next(); {
				f(r.Record())
			}
			must.NoError(t, r.Err())
			offset = p.Chunks[i].End
		}
		got.Release()
	}
}
