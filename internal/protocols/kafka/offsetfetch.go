package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// OffsetFetch (9), v0 to v10: all topics of a group from v2, several groups from v8, topics by ID
// in v10. The offsets are committed and include every acknowledged commit. A client that requires stable
// offsets (v7) gets UNSTABLE_OFFSET_COMMIT while an open transaction has offsets of the group in the
// partition. Leader epochs are not stored: -1. A request with a member and its epoch (v9) must come from
// that member of the consumer protocol.
var _ = register(api{
	key: kmsg.OffsetFetch, min: 0, max: 10, groups: true,
	shape: wire.Shape{Flexible: 6, Fields: []wire.Field{
		wire.Text.Until(7), wire.Array(wire.Text, wire.List(wire.Int32)).Until(7),
		wire.Array(
			wire.Text, wire.Text.Since(9), wire.Int32.Since(9),
			wire.Array(wire.Text.Until(9), wire.UUID.Since(10), wire.List(wire.Int32)),
		).Since(8),
		wire.Bool.Since(7),
	}},
	begin: groupServing((*call).offsetFetch),
})

func (c *call) offsetFetch(ctx context.Context, r *kmsg.OffsetFetchRequest) (*kmsg.OffsetFetchResponse, *budget.Reservation) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	memory, err := c.fetchClass.Reserve(0)
	if err != nil {
		memory = nil
	}
	f := offsetFetchCall{call: c, memory: memory, seen: map[string]*committedOffsets{}, stable: r.RequireStable}
	if c.version < 8 {
		g := f.group(ctx, oneGroup(r))
		resp.ErrorCode = g.ErrorCode
		for _, t := range g.Topics {
			out := kmsg.NewOffsetFetchResponseTopic()
			out.Topic = t.Topic
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
				})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, memory
	}
	for i := range r.Groups {
		resp.Groups = append(resp.Groups, f.group(ctx, &r.Groups[i]))
	}
	return resp, memory
}

// oneGroup is the group of a request before v8.
func oneGroup(r *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = r.Group
	if r.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range r.Topics {
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return &g
}

type partition struct {
	topic string
	n     int32
}

// offsetFetchCall is an OffsetFetch in progress.
type offsetFetchCall struct {
	*call
	memory *budget.Reservation          // nil: none available
	seen   map[string]*committedOffsets // groups that were looked up
	stable bool                         // an offset that a transaction may change is an error
}

// committedOffsets holds the committed offsets of a group.
type committedOffsets struct {
	all  broker.GroupInfo
	code int16
	at   map[partition]*broker.GroupOffset
	// staged are the partitions for which open transactions have offsets, if the request asks for stable ones.
	staged map[partition]bool
}

func (f *offsetFetchCall) lookUp(ctx context.Context, name string) *committedOffsets {
	if g := f.seen[name]; g != nil {
		return g
	}
	// Before the offsets are read: a transaction that ends in between has changed them, or not.
	staged := f.staged(name)
	var info broker.GroupInfo
	err := f.grow(name)
	if err == nil {
		info, err = f.groups.Offsets(ctx, name)
	}
	g := &committedOffsets{all: info, code: GroupCode(err), staged: staged, at: make(map[partition]*broker.GroupOffset, len(info.Offsets))}
	for i := range g.all.Offsets {
		o := &g.all.Offsets[i]
		g.at[partition{o.Topic, o.Partition}] = o
	}
	f.seen[name] = g
	return g
}

// staged returns the partitions for which open transactions have offsets of a group, if the client asks for stable
// ones.
func (f *offsetFetchCall) staged(name string) map[partition]bool {
	if !f.stable {
		return nil
	}
	staged := map[partition]bool{}
	f.groups.Staged(name, func(topic string, n int32) { staged[partition{topic, n}] = true })
	return staged
}

// group answers for one group. Without memory the code is that of a missing coordinator.
func (f *offsetFetchCall) group(ctx context.Context, r *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = r.Group
	if resp.ErrorCode = f.denied(access.Describe, access.Group, r.Group); resp.ErrorCode != none {
		return f.refused(r, resp)
	}
	if f.version >= 9 {
		caller := group.Caller{Group: r.Group, Member: deref(r.MemberID), Generation: r.MemberEpoch}
		if code := f.groups.CheckReader(&caller); code == group.UnknownMemberID || code == group.StaleMemberEpoch {
			resp.ErrorCode = MemberCode(code)
			return resp
		}
	}
	g := f.lookUp(ctx, r.Group)
	if resp.ErrorCode = g.code; g.code != none && f.version >= 2 {
		return resp
	}
	if r.Topics == nil {
		if err := f.grow(r.Group); err != nil {
			resp.ErrorCode = GroupCode(err)
			return resp
		}
		f.allOffsets(g, &resp)
		return resp
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetFetchResponseGroupTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		name, refused := f.topicFor(t.Topic, t.TopicID, f.version >= 10, access.Describe)
		for _, n := range t.Partitions {
			p := offsetOf(n, nil)
			if refused == none {
				p = g.offset(partition{name, n})
			}
			switch {
			case g.code != none:
				p.ErrorCode = g.code
			case refused != none:
				p.ErrorCode = refused
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// refused answers for a group that the client may not describe. Before v2 an answer has no code of
// its own, so the partitions have it.
func (f *offsetFetchCall) refused(r *kmsg.OffsetFetchRequestGroup, resp kmsg.OffsetFetchResponseGroup) kmsg.OffsetFetchResponseGroup {
	if f.version >= 2 {
		return resp
	}
	for i := range r.Topics {
		out := kmsg.NewOffsetFetchResponseGroupTopic()
		out.Topic = r.Topics[i].Topic
		for _, n := range r.Topics[i].Partitions {
			p := offsetOf(n, nil)
			p.ErrorCode = resp.ErrorCode
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// grow reserves the memory of the answer about a group.
func (f *offsetFetchCall) grow(name string) error {
	if f.memory == nil {
		return state.ErrOverBudget
	}
	held := f.groups.Size(name)
	return f.memory.Grow(int64(held.Offsets)*elementBytes + 2*int64(held.Text))
}

// allOffsets answers with all committed offsets of a group. They are sorted by topic.
func (c *call) allOffsets(g *committedOffsets, resp *kmsg.OffsetFetchResponseGroup) {
	for i := range g.all.Offsets {
		o := &g.all.Offsets[i]
		if !c.may(access.Describe, access.Topic, o.Topic) {
			continue
		}
		if last := len(resp.Topics) - 1; last < 0 || resp.Topics[last].Topic != o.Topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = o.Topic
			if ref, ok := c.b.TopicNamed(o.Topic); ok {
				t.TopicID = ref.ID
			}
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, g.offset(partition{o.Topic, o.Partition}))
	}
}

// offset is the answer for one partition of a group.
func (g *committedOffsets) offset(at partition) kmsg.OffsetFetchResponseGroupTopicPartition {
	if g.staged[at] {
		p := offsetOf(at.n, nil)
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
		return p
	}
	return offsetOf(at.n, g.at[at])
}

// offsetOf is the answer for one partition; offset -1 if nothing is committed.
func offsetOf(n int32, o *broker.GroupOffset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	nothing := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, -1, -1, &nothing
	if o != nil {
		p.Offset, p.Metadata = o.Offset, &o.Metadata
	}
	return p
}
