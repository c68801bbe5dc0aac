package compare

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sum is a checksum of content, the first half of a SHA-256.
type sum [16]byte

// The parts of a record, as indexes of item.parts.
const (
	partKey = iota
	partValue
	partHeaders
	partTimestamp
	parts
)

var partNames = [parts]string{"key", "value", "headers", "timestamp"}

// item is what the check keeps of a record.
type item struct {
	offset    int64
	sum       sum           // of all parts
	key       sum           // of the key alone
	parts     [parts]uint32 // CRC-32C of each part, to say which one differs
	tombstone bool          // no value
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hasher makes items. It is not safe for concurrent use.
type hasher struct {
	ignoreTimestamps bool
	b                [parts][]byte
	all              []byte
}

// appendBytes appends a field so that no two lists of fields give the same bytes. A nil field differs
// from an empty one.
func appendBytes(b, field []byte) []byte {
	if field == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(field))+1)
	return append(b, field...)
}

func (h *hasher) item(r *kgo.Record) item {
	h.b[partKey] = appendBytes(h.b[partKey][:0], r.Key)
	h.b[partValue] = appendBytes(h.b[partValue][:0], r.Value)
	h.b[partHeaders] = binary.AppendUvarint(h.b[partHeaders][:0], uint64(len(r.Headers)))
	for _, header := range r.Headers {
		h.b[partHeaders] = appendBytes(h.b[partHeaders], []byte(header.Key))
		h.b[partHeaders] = appendBytes(h.b[partHeaders], header.Value)
	}
	h.b[partTimestamp] = h.b[partTimestamp][:0]
	if !h.ignoreTimestamps {
		h.b[partTimestamp] = binary.AppendVarint(h.b[partTimestamp], r.Timestamp.UnixMilli())
	}
	i := item{offset: r.Offset, key: checksum(h.b[partKey]), tombstone: r.Value == nil}
	h.all = h.all[:0]
	for p, b := range h.b {
		i.parts[p] = crc32.Checksum(b, castagnoli)
		h.all = append(h.all, b...)
	}
	i.sum = checksum(h.all)
	return i
}

func checksum(b []byte) sum {
	full := sha256.Sum256(b)
	return sum(full[:len(sum{})])
}

const (
	fetchBytes = 1 << 20                // of one answer
	fetchWait  = 500 * time.Millisecond // for records
	patience   = 60 * time.Second       // without progress, before the check gives up
	retryPause = 200 * time.Millisecond
)

// reader reads a span.
type reader struct {
	*side
	span
	hasher hasher
	leader int32 // of the partition, -1 if unknown
}

// read calls yield with the items of the span, in order, and the offset that follows them. It returns
// once it has passed the end of the span, so that missing offsets, such as those of compaction and
// transactions, do not matter. yield may keep the items.
//
// It sends the requests itself, because a consumer of kgo does not show its position: a partition whose
// last offsets hold no record would never end.
func (r *reader) read(ctx context.Context, yield func(items []item, next int64) error) error {
	position, progress := r.start, time.Now()
	r.leader = -1
	for position < r.end {
		records, next, err := r.fetch(ctx, position)
		if next > position {
			var items []item
			for _, record := range records {
				if record.Offset < r.end && !record.Attrs.IsControl() {
					items = append(items, r.hasher.item(record))
				}
			}
			position, progress = next, time.Now()
			if err := yield(items, min(position, r.end)); err != nil {
				return err
			}
			continue
		}
		if err == nil || retriable(err) && time.Since(progress) < patience {
			err = errors.Join(ctx.Err(), r.wait(ctx, err, time.Since(progress)))
		}
		if err != nil {
			return fmt.Errorf("%s: %s partition %d at offset %d: %w", r.name, r.topic, r.partition, position, err)
		}
	}
	return nil
}

// wait pauses after a fetch without records.
func (r *reader) wait(ctx context.Context, err error, without time.Duration) error {
	if err == nil && without >= patience {
		return fmt.Errorf("no records for %v before the end %d", patience, r.end)
	}
	if err != nil {
		r.leader = -1
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(retryPause):
		return nil
	}
}

// fetch reads records from an offset, and returns the offset to continue at: the same one if there are
// none.
func (r *reader) fetch(ctx context.Context, offset int64) ([]*kgo.Record, int64, error) {
	if err := r.findLeader(ctx); err != nil {
		return nil, offset, err
	}
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(fetchWait.Milliseconds()), 1, fetchBytes
	request.IsolationLevel = 1 // without records of aborted transactions
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = r.partition, offset, fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = r.topic, r.id, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, r.client.Broker(int(r.leader)))
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return nil, offset, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, offset, errors.New("the answer does not have the partition")
	}
	options := kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: r.topic, Partition: r.partition,
	}
	got, next := kgo.ProcessFetchPartition(options, &answer.Topics[0].Partitions[0], decompressor, nil)
	if got.Err != nil {
		next = offset // a batch that does not decode is no content
	}
	return got.Records, next, got.Err
}

var decompressor = kgo.DefaultDecompressor()

func (r *reader) findLeader(ctx context.Context) error {
	if r.leader >= 0 {
		return nil
	}
	listed, err := r.admin.ListTopics(ctx, r.topic)
	if err != nil {
		return err
	}
	p, ok := listed[r.topic].Partitions[r.partition]
	switch {
	case !ok:
		return kerr.UnknownTopicOrPartition
	case p.Err != nil:
		return p.Err
	case p.Leader < 0:
		return kerr.LeaderNotAvailable
	}
	r.leader = p.Leader
	return nil
}

// retriable reports whether a fetch may succeed later.
func retriable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if known, ok := errors.AsType[*kerr.Error](err); ok {
		return known.Retriable
	}
	return true // of the network
}
