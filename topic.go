package seb

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
)

// Topic is the committed state of a topic.
type Topic struct {
	Name       string
	ID         string
	Partitions []Partition
	Settings   map[string]string // explicit settings only
}

// Partition is one partition of a topic. Offsets [Start, Next) can be read.
type Partition struct {
	Start, Next int64
	// Stable is the last stable offset: the first one of the oldest open transaction, or Next. Reads end there unless
	// they are Uncommitted.
	Stable       int64
	LatestCommit time.Time // zero if the partition was never written
	// Records is the number of readable records. It is an upper bound after a trim into a compacted
	// range.
	Records int64
	Bytes   int64
	// Compacted is the offset up to which the partition was compacted; 0 if it was not.
	Compacted int64
}

// TopicSpec describes a topic to create or update.
type TopicSpec struct {
	Partitions int // 0: one at creation, unchanged on update
	// for example "retention-time"; an update merges them, "" removes one
	Settings map[string]string
}

// Topic describes a topic. Error: ErrUnknownTopic.
func (b *Broker) Topic(ctx context.Context, name string) (Topic, error) {
	info, err := b.n.Topic(ctx, name, false)
	return topicOf(&info), err
}

// Topics describes all topics, sorted by name.
func (b *Broker) Topics(ctx context.Context) []Topic {
	var list []Topic
	for _, info := range b.n.Topics(ctx) {
		list = append(list, topicOf(&info))
	}
	return list
}

// CreateTopic creates a topic and returns when that is durable. Errors: ErrTopicExists, ErrInvalid,
// and those of a produce.
func (b *Broker) CreateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	info, err := b.n.CreateTopic(ctx, name, broker.TopicSpec(spec))
	return topicOf(&info), err
}

// UpdateTopic adds partitions or changes settings and returns when that is durable. Errors:
// ErrUnknownTopic, ErrInvalid, and those of a produce.
func (b *Broker) UpdateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	info, err := b.n.UpdateTopic(ctx, name, broker.TopicSpec(spec))
	return topicOf(&info), err
}

// DeleteTopic deletes a topic with all its records and returns when that is durable. Errors:
// ErrUnknownTopic, ErrTopicInUse if triggers use the topic, and those of a produce.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	return b.n.DeleteTopic(ctx, name)
}

// ForceDeleteTopic is DeleteTopic for a topic that triggers may use. The triggers report a missing
// topic, and follow the next topic with this name.
func (b *Broker) ForceDeleteTopic(ctx context.Context, name string) error {
	return b.n.ForceDeleteTopic(ctx, name)
}

func topicOf(info *broker.TopicInfo) Topic {
	t := Topic{Name: info.Name, ID: info.ID.String(), Settings: info.Settings}
	for _, p := range info.Partitions {
		t.Partitions = append(t.Partitions, Partition(p))
	}
	return t
}
