package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DeleteTopics (20), v1 to v6: deletes topics by name, or from v6 by ID, one after the other.
var _ = register(api{
	key: kmsg.DeleteTopics, min: 1, max: 6, leader: true,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.List(wire.Text).Until(5), wire.Array(wire.Text, wire.UUID).Since(6), wire.Int32,
	}},
	begin: serving((*call).deleteTopics),
})

func (c *call) deleteTopics(ctx context.Context, r *kmsg.DeleteTopicsRequest) (*kmsg.DeleteTopicsResponse, error) {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	ctx, cancel := c.waitFor(ctx, r.TimeoutMillis)
	defer cancel()
	for i := range r.TopicNames {
		out := c.deleteTopic(ctx, &r.TopicNames[i], [16]byte{})
		if out.ErrorCode == kerr.TopicDeletionDisabled.Code && r.Version < 3 {
			out.ErrorCode = kerr.InvalidRequest.Code // the other code exists since v3
		}
		resp.Topics = append(resp.Topics, out)
	}
	for i := range r.Topics {
		resp.Topics = append(resp.Topics, c.deleteTopic(ctx, r.Topics[i].Topic, r.Topics[i].TopicID))
	}
	return resp, nil
}

// deleteTopic deletes a topic by name, or by ID if name is nil.
func (c *call) deleteTopic(ctx context.Context, name *string, id [16]byte) kmsg.DeleteTopicsResponseTopic {
	out := kmsg.NewDeleteTopicsResponseTopic()
	out.Topic, out.TopicID = name, id
	var ref broker.TopicRef
	if name == nil {
		if ref, out.ErrorCode = c.topicOf(id, access.Describe); out.ErrorCode != none {
			return out
		}
		out.Topic, name = &ref.Name, &ref.Name
	} else if ref, out.ErrorCode = c.topicNamed(*name, access.Describe); out.ErrorCode != none {
		return out
	}
	ctx, out.ErrorCode = c.as(ctx, access.Delete, access.Topic, *name)
	if out.ErrorCode != none {
		return out
	}
	out.TopicID = ref.ID
	if err := c.b.DeleteTopic(ctx, *name); err != nil {
		out.ErrorCode, out.ErrorMessage = TopicCode(err), text(err)
	}
	return out
}
