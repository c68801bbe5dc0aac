package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DeleteRecords (21), v0 to v2: raises the start offset of partitions, one after the other; -1 is
// the end offset.
var _ = register(api{
	key: kmsg.DeleteRecords, min: 0, max: 2, leader: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
		wire.Array(wire.Text, wire.Array(wire.Int32, wire.Int64)), wire.Int32,
	}},
	begin: serving((*call).deleteRecords),
})

func (c *call) deleteRecords(ctx context.Context, r *kmsg.DeleteRecordsRequest) (*kmsg.DeleteRecordsResponse, error) {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	ctx, cancel := c.waitFor(ctx, r.TimeoutMillis)
	defer cancel()
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		as, denied := c.as(ctx, access.Delete, access.Topic, t.Topic)
		for j := range t.Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = t.Partitions[j].Partition, -1
			if p.ErrorCode = denied; denied == none {
				low, err := c.trim(as, t.Topic, t.Partitions[j])
				if p.ErrorCode = ReadCode(err); err == nil {
					p.LowWatermark = low
				}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) trim(ctx context.Context, topic string, p kmsg.DeleteRecordsRequestTopicPartition) (int64, error) {
	offset := p.Offset
	if offset < 0 {
		ref, _ := c.b.TopicNamed(topic)
		bounds, err := c.b.Bounds(ref.ID, p.Partition)
		if err != nil {
			return 0, err
		}
		if offset < -1 {
			return 0, broker.ErrBelowStart
		}
		offset = bounds.Next
	}
	info, err := c.b.Trim(ctx, topic, p.Partition, offset)
	return info.Start, err
}
