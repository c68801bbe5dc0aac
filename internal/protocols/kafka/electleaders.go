package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ElectLeaders (43), v0 to v2: ELECTION_NOT_NEEDED for each named partition, because one broker
// leads all. For all partitions (no topics) the answer is empty, as in Kafka.
var _ = register(api{
	key: kmsg.ElectLeaders, min: 0, max: 2,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
		wire.Int8.Since(1), wire.Array(wire.Text, wire.List(wire.Int32)), wire.Int32,
	}},
	begin: serving((*call).electLeaders),
})

var errLeads = errors.New("one broker leads every partition")

func (c *call) electLeaders(_ context.Context, r *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	resp := kmsg.NewPtrElectLeadersResponse()
	denied := c.clusterDenied(access.Alter)
	if c.version >= 1 {
		resp.ErrorCode = denied
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		ref, _ := c.b.TopicNamed(t.Topic)
		for _, n := range t.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = n, kerr.ElectionNotNeeded.Code, text(errLeads)
			if denied != none {
				p.ErrorCode, p.ErrorMessage = denied, text(errDenied)
			} else if n < 0 || int(n) >= ref.Partitions {
				p.ErrorCode, p.ErrorMessage = kerr.UnknownTopicOrPartition.Code, text(state.ErrUnknownPartition)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
