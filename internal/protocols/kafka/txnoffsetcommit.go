package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// TxnOffsetCommit (28), v0 to v6: offsets of a group that a transaction commits; topics by ID in v6. The
// offsets are stored with the transaction, and become the group's when it commits. A member must have
// its present generation (v3): after a takeover it gets UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, aborts, and
// joins again. From v5 on the group needs no AddOffsetsToTxn (version 2).
var _ = register(api{
	key: kmsg.TxnOffsetCommit, min: 0, max: 6, groups: true,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{
		wire.Text, wire.Text, wire.Int64, wire.Int16, wire.Int32.Since(3), wire.Text.Since(3), wire.Text.Since(3),
		wire.Array(wire.Text.Until(5), wire.UUID.Since(6), wire.Array(wire.Int32, wire.Int64, wire.Int32.Since(2), wire.Text)),
	}},
	begin: coordinating((*call).txnOffsetCommit),
})

func (c *call) txnOffsetCommit(ctx context.Context, r *kmsg.TxnOffsetCommitRequest) (resp *kmsg.TxnOffsetCommitResponse, late bool) {
	resp = kmsg.NewPtrTxnOffsetCommitResponse()
	denied := c.deniedTransaction(r.TransactionalID)
	if denied == none {
		denied = c.denied(access.Read, access.Group, r.Group)
	}
	var commits []broker.OffsetCommit
	var results []*int16 // of commits
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		name, code := c.topicFor(t.Topic, t.TopicID, c.version >= 6, access.Read)
		if denied != none {
			code = denied
		}
		out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			out.Partitions[j] = kmsg.NewTxnOffsetCommitResponseTopicPartition()
			out.Partitions[j].Partition, out.Partitions[j].ErrorCode = p.Partition, code
			switch {
			case code != none:
			case !c.has(name, p.Partition):
				out.Partitions[j].ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				commits = append(commits, broker.OffsetCommit{Topic: name, Partition: p.Partition, Offset: p.Offset, Metadata: deref(p.Metadata)})
				results = append(results, &out.Partitions[j].ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(commits) == 0 {
		return resp, false
	}
	codes, late := c.stage(ctx, r, commits)
	for i, result := range results {
		*result = codes[i]
	}
	return resp, late
}

// stage adds offsets to a transaction, and returns the code of each.
func (c *call) stage(ctx context.Context, r *kmsg.TxnOffsetCommitRequest, commits []broker.OffsetCommit) (codes []int16, late bool) {
	all := func(code int16) []int16 { return slices.Repeat([]int16{code}, len(commits)) }
	p := state.ProducerEpoch{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	if r.TransactionalID == "" {
		return all(kerr.InvalidRequest.Code), false
	}
	x, current, code := c.enter(ctx, r.TransactionalID, p)
	if code != none {
		return all(code), false
	}
	defer x.leave()
	if current && c.version < addsGroup {
		switch {
		case c.isLateCommit(x):
			return all(lateCode), true
		case c.lacksGroup(x, r.Group) && c.version >= stageKnowsAbortable:
			return all(kerr.TransactionAbortable.Code), false
		case c.lacksGroup(x, r.Group):
			return all(kerr.InvalidTxnState.Code), false
		}
	}
	check, ok := c.who.Check(access.Write, access.TransactionalID, r.TransactionalID)
	if !ok {
		return all(kerr.TransactionalIDAuthorizationFailed.Code), false
	}
	caller := callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation)
	caller.Transactional, caller.Commits = true, c.partitionsOf(commits)
	staged := broker.StageOffsets{ID: r.TransactionalID, Producer: p, Group: r.Group, Commits: commits}
	errs, answer := c.groups.Stage(&caller, check, &staged)(ctx)
	codes = make([]int16, len(commits))
	for i := range codes {
		if codes[i] = c.memberCode(answer); answer == group.OK {
			codes[i] = stageCode(errs[i])
		}
	}
	return codes, false
}

// lacksGroup reports whether a group was not added to a transaction of version 1.
func (c *call) lacksGroup(x *transaction, name string) bool {
	c.txns.mu.Lock()
	defer c.txns.mu.Unlock()
	_, added := x.groups[name]
	return x.whole && x.groups != nil && !added
}

// memberCode is MemberCode for a client of a transaction. Java takes other codes for errors from which it cannot
// recover.
func (c *call) memberCode(answer group.Code) int16 {
	switch {
	case answer == group.StaleMemberEpoch, answer == group.FencedMemberEpoch:
		answer = group.IllegalGeneration
	case answer == group.CoordinatorLoadInProgress && c.version < 2: // KAFKA-7296
		answer = group.CoordinatorNotAvailable
	}
	return MemberCode(answer)
}
