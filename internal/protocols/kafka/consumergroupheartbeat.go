package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ConsumerGroupHeartbeat (68), v0 and v1: the consumer protocol (KIP-848) with the assignors
// uniform and range, static members and topic patterns. Racks are reported but not used for
// assignments. A group has members of one protocol at a time, and can change it when it has none.
// After a restart of the broker members get UNKNOWN_MEMBER_ID and join again.
var _ = register(api{
	key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, groups: true,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{
		wire.Text, wire.Text, wire.Int32, wire.Text, wire.Text, wire.Int32,
		wire.List(wire.Text), wire.Text.Since(1), wire.Text, wire.Array(wire.UUID, wire.List(wire.Int32)),
	}},
	begin: beginning(consumerGroupHeartbeat),
})

func consumerGroupHeartbeat(c *call, r *kmsg.ConsumerGroupHeartbeatRequest) finish[*kmsg.ConsumerGroupHeartbeatResponse] {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	if resp.ErrorCode = c.heartbeatDenied(r); resp.ErrorCode != none {
		resp.ErrorMessage = text(errDenied)
		return answered(resp)
	}
	ask := group.HeartbeatRequest{
		Group: r.Group, Member: r.MemberID, Instance: deref(r.InstanceID), Rack: deref(r.RackID), Client: string(c.client), Host: hostOf(c.remote),
		Epoch: r.MemberEpoch, RebalanceTimeout: int64(r.RebalanceTimeoutMillis) * int64(time.Millisecond),
		Names: r.SubscribedTopicNames, Pattern: r.SubscribedTopicRegex, Assignor: deref(r.ServerAssignor),
	}
	if r.Topics != nil {
		owned := []group.Partition{}
		for i := range r.Topics {
			for _, n := range r.Topics[i].Partitions {
				owned = append(owned, group.Partition{Topic: r.Topics[i].TopicID, Number: n})
			}
		}
		ask.Owned = &owned
	}
	a, beat := group.HeartbeatAnswer{Code: checkHeartbeat(r), Epoch: r.MemberEpoch}, time.Duration(0)
	if a.Code == group.OK {
		a, beat = c.groups.HeartbeatConsumer(&ask)
	}
	if resp.ErrorCode = MemberCode(a.Code); a.Code != group.OK {
		why := heartbeatFaults[a.Code]
		resp.ErrorMessage = orNil(why)
		return answered(resp)
	}
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &a.Member, a.Epoch, int32(beat.Milliseconds())
	if a.Assigned != nil {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		for _, t := range byTopic(*a.Assigned) {
			out := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			out.TopicID, out.Partitions = t.id, t.numbers
			resp.Assignment.Topics = append(resp.Assignment.Topics, out)
		}
	}
	return answered(resp)
}

// heartbeatDenied checks the rights of a member: Read on the group, and Describe on the topics that it
// subscribes to. The broker finds the topics of a regular expression, so that needs Describe on all
// topics.
func (c *call) heartbeatDenied(r *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	if code := c.denied(access.Read, access.Group, r.Group); code != none {
		return code
	}
	for _, name := range r.SubscribedTopicNames {
		if code := c.denied(access.Describe, access.Topic, name); code != none {
			return code
		}
	}
	if r.SubscribedTopicRegex != nil && *r.SubscribedTopicRegex != "" && !c.who.AllowAll(access.Describe, access.Topic) {
		return kerr.TopicAuthorizationFailed.Code
	}
	return none
}

// checkHeartbeat validates a request by itself. From v1 on clients choose their member IDs.
func checkHeartbeat(r *kmsg.ConsumerGroupHeartbeatRequest) group.Code {
	empty := func(s *string) bool { return s != nil && *s == "" }
	switch {
	case r.Group == "", r.MemberID == "" && r.Version > 0, empty(r.InstanceID), empty(r.RackID):
		return group.InvalidRequest
	case empty(r.ServerAssignor):
		return group.UnsupportedAssignor
	}
	return group.OK
}

// heartbeatFaults are the messages of codes whose message clients show to users.
var heartbeatFaults = map[group.Code]string{
	group.InvalidRequest:           "empty group, member, instance or rack, or a join without topics, without a rebalance timeout or with partitions",
	group.UnsupportedAssignor:      "unknown assignor: want uniform or range",
	group.UnreleasedInstanceID:     "another member has this instance ID and has not left",
	group.GroupMaxSizeReached:      "the limit of members of the group or of memory of all groups is reached",
	group.GroupIDNotFound:          "the group has members of the classic protocol",
	group.InvalidRegularExpression: "invalid RE2 pattern",
}

type ofTopic struct {
	id      [16]byte
	numbers []int32
}

// byTopic groups sorted partitions by topic.
func byTopic(list []group.Partition) []ofTopic {
	var topics []ofTopic
	for _, p := range list {
		if last := len(topics) - 1; last < 0 || topics[last].id != p.Topic {
			topics = append(topics, ofTopic{id: p.Topic})
		}
		t := &topics[len(topics)-1]
		t.numbers = append(t.numbers, p.Number)
	}
	return topics
}
