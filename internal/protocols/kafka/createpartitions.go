package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// CreatePartitions (37), v0 to v3: adds partitions to topics, one topic after the other. Replica
// assignments are ignored. Compacted topics are refused, because keys would move to other
// partitions.
var _ = register(api{
	key: kmsg.CreatePartitions, min: 0, max: 3, leader: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
		wire.Array(wire.Text, wire.Int32, wire.Array(wire.List(wire.Int32))), wire.Int32, wire.Bool,
	}},
	begin: serving((*call).createPartitions),
})

func (c *call) createPartitions(ctx context.Context, r *kmsg.CreatePartitionsRequest) (*kmsg.CreatePartitionsResponse, error) {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	ctx, cancel := c.waitFor(ctx, r.TimeoutMillis)
	defer cancel()
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		if as, code := c.as(ctx, access.Alter, access.Topic, t.Topic); code != none {
			out.ErrorCode, out.ErrorMessage = code, text(errDenied)
		} else if err := c.addPartitions(as, t, r.ValidateOnly); err != nil {
			out.ErrorCode, out.ErrorMessage = TopicCode(err), text(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) addPartitions(ctx context.Context, t *kmsg.CreatePartitionsRequestTopic, dry bool) error {
	have, err := c.b.Partitions(t.Topic)
	if err != nil {
		return err
	}
	if int(t.Count) <= have {
		return &state.InvalidError{Field: "partitions", Reason: fmt.Sprintf("%d is not more than the current %d", t.Count, have)}
	}
	spec := broker.TopicSpec{Partitions: int(t.Count)}
	if dry {
		return c.b.CheckUpdate(ctx, t.Topic, spec)
	}
	_, err = c.b.UpdateTopic(ctx, t.Topic, spec)
	return err
}
