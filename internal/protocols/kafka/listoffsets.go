package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ListOffsets (2), v0 to v11: the start offset (-2, and -4, because all of the log is local), the
// end offset (-1), the first record with at least a timestamp, and the first record with the
// largest timestamp (-3). There are no tiers: -5 and -6 have no offset.
//
// With isolation level 1, read_committed (v2), the end offset is the last stable offset, and records behind it are
// not found.
//
// librdkafka up to 1.6 uses v0 for the start and end offset. v0 returns a list of offsets. As there
// are no segments, the list has one element: the offset of v1 or, if no record has reached the
// timestamp, the end offset.
//
// A standby answers from its state. Before it answers with its end offset, it waits up to a second for
// what its leader is known to have committed.
var _ = register(api{
	key: kmsg.ListOffsets, min: 0, max: 11,
	shape: wire.Shape{Flexible: 6, Fields: []wire.Field{
		wire.Int32, wire.Int8.Since(2),
		wire.Array(wire.Text, wire.Array(wire.Int32, wire.Int32.Since(4), wire.Int64, wire.Int32.Until(0))), wire.Int32.Since(10),
	}},
	begin: serving((*call).listOffsets),
})

// Special timestamps.
const (
	atEnd           = -1
	atStart         = -2
	atNewest        = -3
	atLocalStart    = -4
	atTieredEnd     = -5
	atPendingUpload = -6
)

func (c *call) listOffsets(ctx context.Context, r *kmsg.ListOffsetsRequest) (*kmsg.ListOffsetsResponse, error) {
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
				confirm, confirmed = c.confirmEnd(ctx), true
				fallthrough
			default:
				if ask.Timestamp == atEnd && confirm != nil {
					p.ErrorCode = ReadCode(confirm)
				} else {
					c.offsetAt(ctx, &ref, r.IsolationLevel, ask, &p)
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

// confirmEnd makes sure that the end offsets of this broker are those of the log, or of a standby, those
// that its leader has told.
func (c *call) confirmEnd(ctx context.Context) error {
	if c.standsBy() {
		c.catchUp(ctx)
		return nil
	}
	return c.b.Confirm(ctx)
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

func (c *call) offsetAt(ctx context.Context, ref *broker.TopicRef, isolation int8, ask *kmsg.ListOffsetsRequestTopicPartition, p *kmsg.ListOffsetsResponseTopicPartition) {
	bounds, err := c.b.Bounds(ref.ID, ask.Partition)
	if err != nil {
		p.ErrorCode = ReadCode(err)
		return
	}
	if p.ErrorCode = c.epochCode(ask.CurrentLeaderEpoch); p.ErrorCode != none {
		return
	}
	end := bounds.Next
	if isolation == readCommitted {
		end = bounds.Stable
	}
	switch ask.Timestamp {
	case atEnd:
		p.Offset, p.LeaderEpoch = end, int32(c.b.Epoch())
		return
	case atStart, atLocalStart:
		p.Offset = bounds.Start
	case atTieredEnd, atPendingUpload:
		return
	case atNewest:
		p.Offset, p.Timestamp, err = c.b.OffsetOfNewest(ctx, broker.Lookup{Topic: ref, Partition: ask.Partition, Isolation: broker.Raw})
	default:
		p.Offset, p.Timestamp, err = c.b.OffsetSince(ctx, broker.Lookup{Topic: ref, Partition: ask.Partition, Isolation: broker.Raw}, ask.Timestamp)
	}
	if err != nil {
		p.ErrorCode, p.Offset, p.Timestamp = ReadCode(err), -1, -1
		return
	}
	if p.Offset > end || p.Timestamp >= 0 && p.Offset == end {
		p.Offset, p.Timestamp = -1, -1 // it is in an open transaction
	}
	if c.version == 0 {
		if p.Offset < 0 {
			p.Offset = end
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
