package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeProducers (61), v0: the idempotent producers that a partition knows, and where their open transactions
// begin. The coordinator epoch is that of the leader.
var _ = register(api{
	key: kmsg.DescribeProducers, min: 0, max: 0,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Array(wire.Text, wire.List(wire.Int32))}},
	begin: serving((*call).describeProducers),
})

func (c *call) describeProducers(_ context.Context, r *kmsg.DescribeProducersRequest) (*kmsg.DescribeProducersResponse, error) {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for i := range r.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = r.Topics[i].Topic
		ref, code := c.topicNamed(out.Topic, access.Read)
		if code == none && !c.b.Leads() {
			code = kerr.NotLeaderForPartition.Code
		}
		for _, n := range r.Topics[i].Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode = n, code
			if code == none {
				list, err := c.b.Producers(ref.ID, n)
				if err := c.frame.Charge(int64(len(list)) * elementBytes); err != nil {
					return nil, err
				}
				p.ErrorCode = ReadCode(err)
				for _, x := range list {
					a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = x.ID, int32(x.Epoch), x.Sequence, x.Last.UnixMilli()
					a.CoordinatorEpoch, a.CurrentTxnStartOffset = int32(c.b.Epoch()), x.First
					p.ActiveProducers = append(p.ActiveProducers, a)
				}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
