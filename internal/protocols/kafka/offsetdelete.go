package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// OffsetDelete (47), v0: for groups without members only. While a group has members, each topic is
// GROUP_SUBSCRIBED_TO_TOPIC, whatever they subscribe to. Partitions are handled one after the
// other.
var _ = register(api{
	key: kmsg.OffsetDelete, min: 0, max: 0, groups: true,
	shape: wire.Shape{Flexible: -1, Fields: []wire.Field{wire.Text, wire.Array(wire.Text, wire.Array(wire.Int32))}},
	begin: groupServing((*call).offsetDelete),
})

// changeTime bounds the wait for deletions to be committed.
const changeTime = 30 * time.Second

func (c *call) offsetDelete(ctx context.Context, r *kmsg.OffsetDeleteRequest) (*kmsg.OffsetDeleteResponse, *budget.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	resp := kmsg.NewPtrOffsetDeleteResponse()
	ctx, denied := c.as(ctx, access.Delete, access.Group, r.Group)
	if resp.ErrorCode = denied; denied != none {
		return resp, nil
	}
	view, code := c.groups.Describe(r.Group)
	if code == group.OK && r.Group == "" {
		code = group.InvalidGroupID
	}
	if code == group.OK && view.State == group.Dead {
		code = group.GroupIDNotFound
	}
	if resp.ErrorCode = MemberCode(code); code != group.OK {
		return resp, nil
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = t.Partitions[j].Partition
			var err error
			denied := c.denied(access.Read, access.Topic, t.Topic)
			if denied == none {
				err = c.groups.DeleteOffset(ctx, r.Group, t.Topic, p.Partition)
			}
			switch {
			case denied != none:
				p.ErrorCode = denied
			case errors.Is(err, broker.ErrGroupActive):
				p.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case errors.Is(err, state.ErrUnknownGroup): // deleted with its last offset
			default:
				p.ErrorCode = GroupCode(err)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
