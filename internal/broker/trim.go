package broker

import (
	"context"

	"github.com/sebbroker/seb/internal/log/state"
)

// Trim makes offset the first offset of a partition, permanently, and waits until that is
// committed. From then on a read below it is *BelowStartError, and objects without references are
// deleted in time. An offset at or below the start changes nothing. Errors: ErrUnknownTopic,
// ErrUnknownPartition, ErrBeyondEnd, ErrInvalid, and those of an append.
func (b *Broker) Trim(ctx context.Context, topic string, partition int32, offset int64) (PartitionInfo, error) {
	if offset < 0 {
		return PartitionInfo{}, &InvalidError{Field: "offset", Reason: "is negative"}
	}
	if err := b.refuses(ctx); err != nil {
		return PartitionInfo{}, err
	}
	id, err := b.partition(topic, partition)
	if err != nil {
		return PartitionInfo{}, err
	}
	if now, err := b.partitionInfo(id); err != nil || offset <= now.Start {
		return now, err
	}
	err = b.propose(ctx, state.Record{Kind: state.TopicTrim, Topic: id.topic, Partition: id.partition, Offset: offset})
	if err != nil {
		return PartitionInfo{}, err
	}
	return b.partitionInfo(id)
}

// Partition describes a partition as committed. Errors: ErrUnknownTopic, ErrUnknownPartition.
func (b *Broker) Partition(topic string, partition int32) (PartitionInfo, error) {
	id, err := b.partition(topic, partition)
	if err != nil {
		return PartitionInfo{}, err
	}
	return b.partitionInfo(id)
}

func (b *Broker) partitionInfo(id partKey) (info PartitionInfo, err error) {
	err = ErrUnknownTopic
	b.log.Read(func(s *state.State) {
		if t := s.Topic(id.topic); t != nil && int(id.partition) < t.Partitions.Len() {
			info, err = describePartition(t.Partitions.At(int(id.partition))), nil
		}
	})
	return info, err
}
