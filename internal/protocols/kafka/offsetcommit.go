package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// OffsetCommit (8), v0 to v10: topics by ID in v10. Offsets are kept until their group or topic is
// deleted; retention times, timestamps (v1) and leader epochs (v6) are ignored. A commit from
// before a restart of the broker gets ILLEGAL_GENERATION if the member may join again with its ID,
// else UNKNOWN_MEMBER_ID. v9 gets the same codes so that members join again, whereas Kafka returns
// GROUP_ID_NOT_FOUND for unknown groups.
var _ = register(api{
	key: kmsg.OffsetCommit, min: 0, max: 10, groups: true,
	shape: wire.Shape{Flexible: 8, Fields: []wire.Field{
		wire.Text, wire.Int32.Since(1), wire.Text.Since(1), wire.Text.Since(7), wire.Int64.Since(2).Until(4),
		wire.Array(wire.Text.Until(9), wire.UUID.Since(10), wire.Array(
			wire.Int32, wire.Int64, wire.Int64.Since(1).Until(1), wire.Int32.Since(6), wire.Text,
		)),
	}},
	begin: beginning(offsetCommit),
})

func offsetCommit(c *call, r *kmsg.OffsetCommitRequest) finish[*kmsg.OffsetCommitResponse] {
	resp := kmsg.NewPtrOffsetCommitResponse()
	denied := c.denied(access.Read, access.Group, r.Group)
	var commits []broker.OffsetCommit
	var results []*int16 // results of commits
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		name, code := c.topicFor(t.Topic, t.TopicID, c.version >= 10, access.Read)
		if denied != none {
			code = denied
		}
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			out.Partitions[j] = kmsg.NewOffsetCommitResponseTopicPartition()
			out.Partitions[j].Partition, out.Partitions[j].ErrorCode = p.Partition, code
			if code == none && !c.has(name, p.Partition) {
				out.Partitions[j].ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			if code == none {
				commits = append(commits, broker.OffsetCommit{Topic: name, Partition: p.Partition, Offset: p.Offset, Metadata: deref(p.Metadata)})
				results = append(results, &out.Partitions[j].ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(commits) == 0 && len(r.Topics) > 0 {
		return answered(resp) // Kafka does not check the caller either
	}
	caller := callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation)
	if c.version >= consumerCommit {
		caller.Commits = c.partitionsOf(commits)
	}
	check, ok := c.who.Check(access.Read, access.Group, r.Group)
	if !ok { // the right has ended since denied
		for _, result := range results {
			*result = kerr.GroupAuthorizationFailed.Code
		}
		return answered(resp)
	}
	wait := c.groups.Commit(&caller, check, commits)
	return func(ctx context.Context) (*kmsg.OffsetCommitResponse, *budget.Reservation) {
		errs, code := wait(ctx)
		for i, result := range results {
			if *result = MemberCode(code); code == group.OK {
				*result = GroupCode(errs[i])
			}
		}
		return resp, nil
	}
}

// consumerCommit is the first version for members of the consumer protocol.
const consumerCommit = 9

// partitionsOf lists the partitions of commits, with topic IDs.
func (c *call) partitionsOf(commits []broker.OffsetCommit) []group.Partition {
	list := make([]group.Partition, 0, len(commits))
	for i := range commits {
		if t, ok := c.b.TopicNamed(commits[i].Topic); ok {
			list = append(list, group.Partition{Topic: t.ID, Number: commits[i].Partition})
		}
	}
	return list
}

// has reports whether a partition exists.
func (c *call) has(topic string, partition int32) bool {
	t, ok := c.b.TopicNamed(topic)
	return ok && partition >= 0 && int(partition) < t.Partitions
}
