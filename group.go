package seb

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/broker"
)

// Group is what a consumer group has committed, by topic and partition.
type Group struct {
	Name    string
	Offsets []GroupOffset
}

// GroupOffset is a group's offset in one partition, whose offsets [Start, Next) are there.
type GroupOffset struct {
	Topic       string
	Partition   int32
	Offset      int64 // the next one to read
	Metadata    string
	Committed   time.Time
	Start, Next int64
}

// Lag is how many offsets are left to read.
func (o *GroupOffset) Lag() int64 { return max(0, o.Next-max(o.Offset, o.Start)) }

// OffsetCommit is an offset to be committed.
type OffsetCommit struct {
	Topic     string
	Partition int32
	Offset    int64  // of the next record to read
	Metadata  string // the group's own, at most 4096 bytes
	// Expected, if not nil, refuses the commit unless that is what the group has committed there; -1 is nothing.
	Expected *int64
}

// CommitOffsets stores offsets of a consumer group and returns when they are durable, with an error for each, in order;
// a group is there from its first offset on. Commits ride along with records; alone they wait up to a second on remote
// buckets, so that they cost little. Errors: ErrOffsetMismatch, ErrUnknownTopic, ErrUnknownPartition, ErrInvalid, and those
// of a produce.
func (b *Broker) CommitOffsets(ctx context.Context, group string, commits ...OffsetCommit) []error {
	list := make([]broker.OffsetCommit, len(commits))
	for i, c := range commits {
		list[i] = broker.OffsetCommit(c)
	}
	return b.n.CommitOffsets(ctx, group, list)
}

// Group says what a consumer group has committed. Error: ErrUnknownGroup if that is nothing.
func (b *Broker) Group(ctx context.Context, name string) (Group, error) {
	info, err := b.n.Group(ctx, name, false)
	return groupOf(&info), err
}

// Groups says what all consumer groups have committed, by name.
func (b *Broker) Groups(ctx context.Context) []Group {
	var list []Group
	for _, info := range b.n.Groups(ctx) {
		list = append(list, groupOf(&info))
	}
	return list
}

// DeleteGroup forgets all that a group has committed and returns when that is durable. Errors: ErrUnknownGroup, and those
// of a produce.
func (b *Broker) DeleteGroup(ctx context.Context, name string) error {
	return b.n.DeleteGroup(ctx, name)
}

// DeleteOffset forgets what a group has committed in one partition and returns when that is durable. Errors:
// ErrUnknownGroup, ErrUnknownTopic, ErrUnknownPartition, and those of a produce.
func (b *Broker) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	return b.n.DeleteOffset(ctx, group, topic, partition)
}

// Trim deletes the records of a partition below an offset, for good, and returns when that is durable. One at or below
// the partition's start changes nothing. Errors: ErrBeyondEnd, ErrUnknownTopic, ErrUnknownPartition, and those of a produce.
func (b *Broker) Trim(ctx context.Context, topic string, partition int32, offset int64) (Partition, error) {
	p, err := b.n.Trim(ctx, topic, partition, offset)
	return Partition{Start: p.Start, Next: p.Next, LatestCommit: p.LatestCommit, Bytes: p.Bytes}, err
}

func groupOf(info *broker.GroupInfo) Group {
	g := Group{Name: info.Name}
	for _, o := range info.Offsets {
		if o.Offset < 0 {
			continue // of a Kafka client: nothing
		}
		g.Offsets = append(g.Offsets, GroupOffset(o))
	}
	return g
}
