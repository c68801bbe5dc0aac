package seb

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
)

// Group has the committed offsets of a consumer group, by topic and partition.
type Group struct {
	Name    string
	Offsets []GroupOffset
}

// GroupOffset is a group's committed offset in one partition. Offsets [Start, Next) can be read.
type GroupOffset struct {
	Topic       string
	Partition   int32
	Offset      int64 // of the next record to read
	Metadata    string
	Committed   time.Time
	Start, Next int64
}

// Lag returns the number of offsets that the group has not read yet.
func (o *GroupOffset) Lag() int64 { return max(0, o.Next-max(o.Offset, o.Start)) }

// OffsetCommit is an offset to commit.
type OffsetCommit struct {
	Topic     string
	Partition int32
	Offset    int64  // of the next record to read
	Metadata  string // defined by the group, at most 4096 bytes
	// Expected, if not nil, is a condition: the broker refuses the commit unless the group's
	// committed offset equals it. -1 means that the group has committed none.
	Expected *int64
}

// CommitOffsets stores offsets of a consumer group and returns when they are durable, with one
// error per commit, in order. The first commit creates the group. Commits are stored with the next
// records. Without records they wait up to a second on remote buckets, which saves requests.
// Errors: ErrOffsetMismatch, ErrUnknownTopic, ErrUnknownPartition, ErrInvalid, and those of a
// produce.
func (b *Broker) CommitOffsets(ctx context.Context, group string, commits ...OffsetCommit) []error {
	list := make([]broker.OffsetCommit, len(commits))
	for i, c := range commits {
		list[i] = broker.OffsetCommit{Topic: c.Topic, Partition: c.Partition, Offset: c.Offset, Metadata: c.Metadata, Expected: c.Expected}
	}
	return b.n.CommitOffsets(ctx, group, list)
}

// Group returns the committed offsets of a consumer group. Error: ErrUnknownGroup if it has none.
func (b *Broker) Group(ctx context.Context, name string) (Group, error) {
	info, err := b.n.Group(ctx, name, false)
	return groupOf(&info), err
}

// Groups returns the committed offsets of all consumer groups, sorted by name.
func (b *Broker) Groups(ctx context.Context) []Group {
	var list []Group
	for _, info := range b.n.Groups(ctx) {
		list = append(list, groupOf(&info))
	}
	return list
}

// DeleteGroup deletes all committed offsets of a group and returns when that is durable. Errors:
// ErrUnknownGroup, and those of a produce.
func (b *Broker) DeleteGroup(ctx context.Context, name string) error {
	return b.n.DeleteGroup(ctx, name)
}

// DeleteOffset deletes a group's committed offset in one partition and returns when that is
// durable. Errors: ErrUnknownGroup, ErrUnknownTopic, ErrUnknownPartition, and those of a produce.
func (b *Broker) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	return b.n.DeleteOffset(ctx, group, topic, partition)
}

// Trim permanently deletes the records of a partition below an offset, and returns when that is
// durable. An offset at or below the partition's start changes nothing. Errors: ErrBeyondEnd,
// ErrUnknownTopic, ErrUnknownPartition, and those of a produce.
func (b *Broker) Trim(ctx context.Context, topic string, partition int32, offset int64) (Partition, error) {
	p, err := b.n.Trim(ctx, topic, partition, offset)
	return Partition{Start: p.Start, Next: p.Next, LatestCommit: p.LatestCommit, Bytes: p.Bytes}, err
}

func groupOf(info *broker.GroupInfo) Group {
	g := Group{Name: info.Name}
	for _, o := range info.Offsets {
		if o.Offset < 0 {
			continue // a Kafka client committed "no offset"
		}
		g.Offsets = append(g.Offsets, GroupOffset(o))
	}
	return g
}
