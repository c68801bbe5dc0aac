package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// retain calls retainOnce at each interval, while this broker leads.
func (b *Broker) retain(ctx context.Context) {
	every := time.NewTicker(b.opt.RetentionEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			b.retainOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// retainOnce trims partitions by their topics' retention-time and retention-bytes. It makes no
// request if nothing is overdue. If the log's time is doubted it trims nothing, because a wrong
// clock could make all records overdue.
func (b *Broker) retainOnce(ctx context.Context) {
	if b.log.TimeDoubted() {
		return
	}
	var ops []core.Op
	now := b.opt.Now()
	b.log.Read(func(s *state.State) { ops = overdue(s, now) })
	if len(ops) == 0 {
		return
	}
	results := b.log.ProposeDeferred(ops).Wait(ctx)
	trimmed := 0
	for i := range results {
		err := results[i].Err()
		switch {
		case err == nil:
			trimmed++
		case ctx.Err() == nil && !errors.Is(err, state.ErrUnknownTopic): // the topic may be deleted
			b.opt.Logger.Warn("retention failed, retrying at the next interval", "err", err)
			return
		}
	}
	b.met.retained.Add(trimmed)
	b.opt.Logger.Info("retention trimmed partitions", "partitions", trimmed)
}

// overdue returns the trims by the topics' retention at a time.
func overdue(s *state.State, now time.Time) []core.Op {
	var ops []core.Op
	for _, t := range s.Topics() {
		_, timed := t.Settings["retention-time"]
		_, sized := t.Settings["retention-bytes"]
		if t.IsQueue() {
			ops = append(ops, doneLongAgo(t, now)...)
			continue
		}
		if !timed && !sized {
			continue
		}
		settings := state.Resolve(t.Settings)
		for i, p := range t.Partitions.Written() {
			if start := p.KeepFrom(&settings, now); start > p.Start {
				ops = append(ops, core.Op{Own: true, Record: state.Record{
					Kind: state.TopicTrim, Topic: t.ID, Partition: uint32(i), Offset: start,
				}})
			}
		}
	}
	return ops
}

// Trim makes offset the first offset of a partition, permanently, and waits until that is
// committed. From then on a read below it is *BelowStartError, and objects without references are
// deleted in time. An offset at or below the start changes nothing. Errors: ErrUnknownTopic,
// ErrUnknownPartition, ErrBeyondEnd, ErrInvalid, and those of an append.
func (b *Broker) Trim(ctx context.Context, topic string, partition int32, offset int64) (PartitionInfo, error) {
	if offset < 0 {
		return PartitionInfo{}, &state.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d is below 0", offset)}
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
	if err := b.checkDone(id, offset); err != nil {
		return PartitionInfo{}, err
	}
	c := changeOf("topic.trim", access.Topic, topic, "partition", strconv.Itoa(int(partition)), "offset", strconv.FormatInt(offset, 10))
	err = b.propose(ctx, state.Record{Kind: state.TopicTrim, Topic: id.topic, Partition: id.partition, Offset: offset}, c)
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
	err = state.ErrUnknownTopic
	b.log.Read(func(s *state.State) {
		if t := s.Topic(id.topic); t != nil && int(id.partition) < t.Partitions.Len() {
			info, err = describePartition(t.Partitions.At(int(id.partition))), nil
		}
	})
	return info, err
}
