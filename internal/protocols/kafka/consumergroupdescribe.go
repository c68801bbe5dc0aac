package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ConsumerGroupDescribe (69), v0 and v1: groups of the consumer protocol. Other groups are
// GROUP_ID_NOT_FOUND, after which clients send DescribeGroups. All authorized operations are
// reported.
var _ = register(api{
	key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, groups: true,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.List(wire.Text), wire.Bool}},
	begin: groupServing((*call).consumerGroupDescribe),
})

func (c *call) consumerGroupDescribe(ctx context.Context, r *kmsg.ConsumerGroupDescribeRequest) (*kmsg.ConsumerGroupDescribeResponse, *budget.Reservation) {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	memory, err := c.fetchClass.Reserve(0)
	for _, name := range r.Groups {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group = name
		if g.ErrorCode = c.denied(access.Describe, access.Group, name); g.ErrorCode != none {
			resp.Groups = append(resp.Groups, g)
			continue
		}
		view, code := group.View{}, group.CoordinatorNotAvailable
		if err == nil {
			if view, code = c.groups.Describe(name); code == group.OK && view.Consumers != nil {
				err = memory.Grow(consumersBytes(view.Consumers))
			}
		}
		switch {
		case code != group.OK:
		case err != nil:
			code = group.CoordinatorNotAvailable // also for all groups that follow
		case view.Consumers == nil:
			why := "group not found among those of the consumer protocol"
			code, g.ErrorMessage = group.GroupIDNotFound, &why
		default:
			if !c.describesAll(view.Consumers) {
				why := "a member of the group reads a topic that the client may not describe"
				g.ErrorCode, g.ErrorMessage = kerr.TopicAuthorizationFailed.Code, &why
				resp.Groups = append(resp.Groups, g)
				continue
			}
			g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName = view.State.String(), view.Generation, view.Generation, view.Consumers.Assignor
			for i := range view.Consumers.Members {
				g.Members = append(g.Members, describedConsumer(view.Consumers, &view.Consumers.Members[i]))
			}
		}
		if g.ErrorCode = MemberCode(code); r.IncludeAuthorizedOperations && code == group.OK {
			g.AuthorizedOperations = c.operations(access.Group, name)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, memory
}

// consumerMember is the member type of the consumer protocol.
const consumerMember = 1

func describedConsumer(v *group.ConsumersView, c *group.ConsumerView) kmsg.ConsumerGroupDescribeResponseGroupMember {
	m := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	m.MemberID, m.InstanceID, m.RackID, m.MemberEpoch = c.Member, orNil(c.Instance), orNil(c.Rack), c.Epoch
	m.ClientID, m.ClientHost, m.SubscribedTopics, m.SubscribedTopicRegex = c.Client, c.Host, c.Names, orNil(c.Pattern)
	m.Assignment.TopicPartitions = described(v, c.Assigned)
	m.TargetAssignment.TopicPartitions = described(v, c.Target)
	m.MemberType = consumerMember
	return m
}

// described adds the topics' names to partitions. A deleted topic has no name.
func described(v *group.ConsumersView, list []group.Partition) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, t := range byTopic(list) {
		a := kmsg.NewAssignmentTopicPartition()
		a.TopicID, a.Topic, a.Partitions = t.id, v.Names[t.id], t.numbers
		out = append(out, a)
	}
	return out
}

// consumersBytes is the memory of the answer about a group.
func consumersBytes(v *group.ConsumersView) int64 {
	const partitionBytes = 16
	size := int64(0)
	for i := range v.Members {
		m := &v.Members[i]
		size += elementBytes + 2*int64(len(m.Member)+len(m.Client)+len(m.Host)+len(m.Pattern))
		for _, name := range m.Names {
			size += int64(2 * len(name))
		}
		size += int64(len(m.Assigned)+len(m.Target)) * partitionBytes
		size += int64(len(v.Names)) * 2 * elementBytes
	}
	return size
}

// describesAll reports whether the client may describe every topic that members of a group read or
// have subscribed to, as in Kafka.
func (c *call) describesAll(v *group.ConsumersView) bool {
	for _, name := range v.Names {
		if !c.may(access.Describe, access.Topic, name) {
			return false
		}
	}
	for i := range v.Members {
		for _, name := range v.Members[i].Names {
			if !c.may(access.Describe, access.Topic, name) {
				return false
			}
		}
	}
	return true
}
