package seb

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/broker"
)

// Topic is a topic as committed.
type Topic struct {
	Name       string
	ID         string
	Partitions []Partition
	Settings   map[string]string // explicitly set ones
}

// Partition is one partition of a topic: offsets [Start, Next) are there.
type Partition struct {
	Start, Next  int64
	LatestCommit time.Time // zero if never written
	Records      int64     // that are left; after a trim into what compaction has left at most so many
	Bytes        int64
}

// TopicSpec is what a topic is created or changed with.
type TopicSpec struct {
	Partitions int               // 0: one at creation, unchanged on update
	Settings   map[string]string // "retention-time" ...; on update merged into those that are set, "" removes one
}

// Topic describes a topic. Error: ErrUnknownTopic.
func (b *Broker) Topic(ctx context.Context, name string) (Topic, error) {
	info, err := b.n.Topic(ctx, name, false)
	return topicOf(&info), err
}

// Topics describes all topics, by name.
func (b *Broker) Topics(ctx context.Context) []Topic {
	var list []Topic
	for _, info := range b.n.Topics(ctx) {
		list = append(list, topicOf(&info))
	}
	return list
}

// CreateTopic creates a topic and returns when that is durable. Errors: ErrTopicExists, ErrInvalid, and those of a produce.
func (b *Broker) CreateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	info, err := b.n.CreateTopic(ctx, name, broker.TopicSpec(spec))
	return topicOf(&info), err
}

// UpdateTopic adds partitions or changes settings and returns when that is durable. Errors: ErrUnknownTopic, ErrInvalid, and
// those of a produce.
func (b *Broker) UpdateTopic(ctx context.Context, name string, spec TopicSpec) (Topic, error) {
	info, err := b.n.UpdateTopic(ctx, name, broker.TopicSpec(spec))
	return topicOf(&info), err
}

// DeleteTopic deletes a topic with all its records, unless triggers use it, and returns when that is durable. Errors:
// ErrUnknownTopic, ErrTopicInUse, and those of a produce.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	return b.n.DeleteTopic(ctx, name)
}

// ForceDeleteTopic is DeleteTopic of a topic that triggers may use. They say that their topic is missing, and follow the next
// topic of that name.
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
