package kafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/kafka/conn"
	"github.com/sebbroker/seb/record"
)

// ListOffsets (2), v0 to v11: the start offset (-2, and -4, because all of the log is local), the
// end offset (-1), the first record with at least a timestamp, and the first record with the
// largest timestamp (-3). There are no tiers: -5 and -6 have no offset.
//
// The state keeps the largest timestamp of each run of offsets, which is a partition's part of one
// commit object or pack. A lookup by timestamp reads the run that the state points to, from the
// cache or the store. It also reads runs whose records with that timestamp were compacted away.
//
// librdkafka up to 1.6 uses v0 for the start and end offset. v0 returns a list of offsets. As there
// are no segments, the list has one element: the offset of v1 or, if no record has reached the
// timestamp, the end offset.
var listOffsetsAPI = api{
	key: kmsg.ListOffsets, min: 0, max: 11,
	shape: conn.Shape{Flexible: 6, Fields: []conn.Field{
		conn.Int32, conn.Int8.Since(2),
		conn.Array(conn.Text, conn.Array(conn.Int32, conn.Int32.Since(4), conn.Int64, conn.Int32.Until(0))), conn.Int32.Since(10),
	}},
	needs: []need{{access.Describe, access.Topic}},
	begin: serving((*call).listOffsets),
}

// Special timestamps.
const (
	atEnd           = -1
	atStart         = -2
	atNewest        = -3
	atLocalStart    = -4
	atTieredEnd     = -5
	atPendingUpload = -6
)

func (c *call) listOffsets(ctx context.Context, r *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrListOffsetsResponse()
	var confirm error // once for all partitions
	confirmed := false
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		ref, code := c.topicNamed(t.Topic, access.Describe)
		for j := range t.Partitions {
			ask := &t.Partitions[j]
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Timestamp, p.Offset, p.LeaderEpoch = ask.Partition, -1, -1, -1
			switch {
			case code != kerr.TopicAuthorizationFailed.Code && !knownTimestamp(ask.Timestamp, c.version):
				p.ErrorCode = kerr.UnsupportedVersion.Code
			case code != none:
				p.ErrorCode = code
			case ask.Timestamp == atEnd && !confirmed:
				// A leader that was deposed and has not noticed must not report an old end offset
				// (rule R11).
				confirm, confirmed = c.b.Confirm(ctx), true
				fallthrough
			default:
				if ask.Timestamp == atEnd && confirm != nil {
					p.ErrorCode = readCode(confirm)
				} else {
					c.offsetAt(ctx, &ref, ask, &p)
				}
			}
			if c.version == 0 && p.ErrorCode == none && ask.MaxNumOffsets > 0 {
				p.OldStyleOffsets = []int64{p.Offset}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// knownTimestamp reports whether a version supports a special timestamp; true for ordinary
// timestamps.
func knownTimestamp(timestamp int64, version int16) bool {
	switch timestamp {
	case atNewest:
		return version >= 7
	case atLocalStart:
		return version >= 8
	case atTieredEnd:
		return version >= 9
	case atPendingUpload:
		return version >= 11
	}
	return timestamp >= atStart
}

func (c *call) offsetAt(ctx context.Context, ref *broker.TopicRef, ask *kmsg.ListOffsetsRequestTopicPartition, p *kmsg.ListOffsetsResponseTopicPartition) {
	bounds, err := c.b.Bounds(ref.ID, ask.Partition)
	if err != nil {
		p.ErrorCode = readCode(err)
		return
	}
	if p.ErrorCode = c.epochCode(ask.CurrentLeaderEpoch); p.ErrorCode != none {
		return
	}
	switch ask.Timestamp {
	case atEnd:
		p.Offset, p.LeaderEpoch = bounds.Next, int32(c.b.Epoch())
		return
	case atStart, atLocalStart:
		p.Offset = bounds.Start
	case atTieredEnd, atPendingUpload:
		return
	case atNewest:
		p.Offset, p.Timestamp, err = c.newest(ctx, ref, ask.Partition)
	default:
		p.Offset, p.Timestamp, err = c.since(ctx, ref, ask.Partition, ask.Timestamp)
	}
	if err != nil {
		p.ErrorCode, p.Offset, p.Timestamp = readCode(err), -1, -1
		return
	}
	if c.version == 0 {
		if p.Offset < 0 {
			p.Offset = bounds.Next
		}
		return
	}
	if p.Offset >= 0 {
		if epoch, known, err := c.b.EpochAt(ref.ID, ask.Partition, p.Offset); err == nil && known {
			p.LeaderEpoch = int32(epoch)
		} else if p.Offset == bounds.Next {
			p.LeaderEpoch = int32(c.b.Epoch()) // of the next record
		}
	}
}

// since finds the first record with at least a timestamp; -1 if there is none.
func (c *call) since(ctx context.Context, ref *broker.TopicRef, partition int32, millis int64) (offset, at int64, err error) {
	for from := int64(0); ; {
		span, found, err := c.b.SpanSince(ref.ID, partition, from, millis)
		if err != nil || !found {
			return -1, -1, err
		}
		offset, at = -1, -1
		err = c.scan(ctx, ref, partition, span, func(r *record.Record) bool {
			offset, at = r.Offset, r.Timestamp
			return at < millis
		})
		if err != nil || at >= millis {
			return offset, at, err
		}
		from = span.End
	}
}

// newest finds the first record with the largest timestamp; -1 if there are no records.
func (c *call) newest(ctx context.Context, ref *broker.TopicRef, partition int32) (offset, at int64, err error) {
	span, found, err := c.b.NewestTime(ref.ID, partition)
	if err != nil || !found {
		return -1, -1, err
	}
	offset, at = -1, math.MinInt64
	err = c.scan(ctx, ref, partition, span, func(r *record.Record) bool {
		if r.Timestamp > at {
			offset, at = r.Offset, r.Timestamp
		}
		return at < span.MaxTime
	})
	if offset < 0 {
		at = -1
	}
	return offset, at, err
}

// scanBytes is the size of a read of a run.
const scanBytes = 1 << 20

// scan calls each for the records of a run until it returns false.
func (c *call) scan(ctx context.Context, ref *broker.TopicRef, partition int32, span broker.TimeSpan, each func(*record.Record) bool) error {
	var r record.Reader
	limits, err := c.b.Limits(ref.Name)
	if err != nil {
		return err
	}
	r.Limits.DecompressedBytes = limits.DecompressedBytes
	for at := span.Base; at < span.End; {
		next, more, err := c.scanPiece(ctx, broker.Want{Topic: ref.Name, ID: ref.ID, Partition: partition, Offset: at, MaxBytes: scanBytes}, &r, each)
		if err != nil || !more || next <= at {
			return err
		}
		at = next
	}
	return nil
}

// scanPiece scans one piece; next is the offset of the next piece.
func (c *call) scanPiece(ctx context.Context, w broker.Want, r *record.Reader, each func(*record.Record) bool) (next int64, more bool, err error) {
	f, err := c.b.Fetch(ctx, []broker.Want{w}, 0, 0)
	if err != nil {
		return 0, false, err
	}
	defer f.Release()
	part := &f.Parts[0]
	if part.Err != nil {
		return 0, false, part.Err
	}
	next = w.Offset
	for i := range part.Chunks {
		more, err := c.scanChunk(&part.Chunks[i], w.Offset, r, each)
		if err != nil || !more {
			return 0, false, err
		}
		next = part.Chunks[i].End
	}
	return next, true, nil
}

func (c *call) scanChunk(chunk *broker.Chunk, from int64, r *record.Reader, each func(*record.Record) bool) (more bool, err error) {
	data, done, err := c.contiguous(chunk)
	if err != nil {
		return false, err
	}
	defer done()
	r.Reset(data, from)
	for r.Next() {
		if !each(r.Record()) {
			return false, nil
		}
	}
	return true, r.Err()
}

// contiguous returns a chunk in one piece. If it must be copied, the memory is from the fetch
// class; done releases it.
func (c *call) contiguous(chunk *broker.Chunk) (data []byte, done func(), err error) {
	if chunk.Section == nil && len(chunk.Parts) == 1 {
		return chunk.Parts[0], func() {}, nil
	}
	held, err := c.fetchClass.Reserve(int64(budget.SizeFor(int(chunk.Size))))
	if err != nil {
		return nil, nil, err
	}
	data = c.b.Budget().Buffers().Get(int(chunk.Size))
	done = func() {
		c.b.Budget().Buffers().Put(data)
		held.Release()
	}
	if chunk.Section != nil {
		if _, err := chunk.Section.File.ReadAt(data, chunk.Section.Off); err != nil {
			done()
			return nil, nil, err
		}
		return data, done, nil
	}
	at := 0
	for _, p := range chunk.Parts {
		at += copy(data[at:], p)
	}
	return data, done, nil
}
