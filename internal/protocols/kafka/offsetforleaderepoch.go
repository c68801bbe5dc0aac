package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// OffsetForLeaderEpoch (23), v2 to v4: the end offset of a leader epoch in a partition. Leader
// epochs are those of the log. Committed records are never truncated, so no end is below the
// offsets that a client has read. A standby may not know the end, and answers NOT_LEADER_OR_FOLLOWER;
// so does a leader to a client that has read from a later one.
var _ = register(api{
	key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Int32.Since(3), wire.Array(wire.Text, wire.Array(wire.Int32, wire.Int32.Since(2), wire.Int32)),
	}},
	begin: serving((*call).offsetForLeaderEpoch),
})

func (c *call) offsetForLeaderEpoch(ctx context.Context, r *kmsg.OffsetForLeaderEpochRequest) (*kmsg.OffsetForLeaderEpochResponse, error) {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		ref, code := c.topicNamed(t.Topic, access.Describe)
		for j := range t.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = t.Partitions[j].Partition, -1, -1
			if code == none && c.standsBy() {
				code = kerr.NotLeaderForPartition.Code
			}
			if p.ErrorCode = code; code == none {
				c.epochEnd(ctx, &ref, &t.Partitions[j], &p)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) epochEnd(ctx context.Context, ref *broker.TopicRef, ask *kmsg.OffsetForLeaderEpochRequestTopicPartition, p *kmsg.OffsetForLeaderEpochResponseTopicPartition) {
	if _, err := c.b.Bounds(ref.ID, ask.Partition); err != nil {
		p.ErrorCode = ReadCode(err)
		return
	}
	if p.ErrorCode = c.epochCode(ask.CurrentLeaderEpoch); p.ErrorCode != none || ask.LeaderEpoch < 0 {
		return
	}
	if ask.LeaderEpoch > int32(c.b.Epoch()) && !c.endConfirmed(ctx) { // the client has read from a later leader
		p.ErrorCode = kerr.NotLeaderForPartition.Code
		return
	}
	found, end, known, err := c.b.EpochEnd(ref.ID, ask.Partition, uint32(ask.LeaderEpoch))
	if p.ErrorCode = ReadCode(err); err == nil && known {
		p.LeaderEpoch, p.EndOffset = int32(found), end
	}
}

// epochCode compares the leader epoch of a client with the broker's; a negative one is valid.
func (s *Server) epochCode(given int32) int16 {
	current := int32(s.b.Epoch())
	switch {
	case given < 0 || given == current:
		return none
	case given < current:
		return kerr.FencedLeaderEpoch.Code
	}
	return kerr.UnknownLeaderEpoch.Code
}
