package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/record"
)

// Cluster returns the id of the bucket's cluster.
func (b *Broker) Cluster() (id record.ID) {
	b.log.Read(func(s *state.State) { id = s.Cluster })
	return id
}

// IndexedTopics lists the topics with a key-index. known is false before the state is known.
func (b *Broker) IndexedTopics() (ids []record.ID, known bool) {
	b.log.Read(func(s *state.State) {
		known = true
		for _, t := range s.Topics() {
			if len(t.Settings) > 0 && state.Resolve(t.Settings).KeyIndex {
				ids = append(ids, t.ID)
			}
		}
	})
	return ids, known
}

// Indexed lists the partitions of the given topics that exist and have a key-index, topic by topic.
func (b *Broker) Indexed(topics ...record.ID) (list []views.Partition) {
	b.log.Read(func(s *state.State) {
		for _, id := range topics {
			if t := s.Topic(id); t != nil {
				list = b.appendIndexed(list, t)
			}
		}
	})
	return list
}

// RecordCount returns the number of records in the given topics.
func (b *Broker) RecordCount(topics ...record.ID) (n int64) {
	b.log.Read(func(s *state.State) {
		for _, id := range topics {
			t := s.Topic(id)
			if t == nil {
				continue
			}
			for _, p := range t.Partitions.Written() {
				n += p.Records
			}
		}
	})
	return n
}

// clockMargin is subtracted from the time at which a tombstone may be removed, because clocks
// differ.
const clockMargin = 2 * time.Minute

func (b *Broker) appendIndexed(list []views.Partition, t *state.Topic) []views.Partition {
	settings := state.Resolve(t.Settings)
	if !settings.KeyIndex {
		return list
	}
	before := b.opt.Now().Add(clockMargin - settings.DeleteRetentionTime).UnixMicro()
	for i, p := range t.Partitions.All() {
		list = append(list, views.Partition{
			Topic: t.ID, Partition: uint32(i), Start: p.Start, Next: p.LastStable(), Clean: p.Clean, Swept: p.Swept,
			Sweepable: max(p.Swept, p.Sweepable(before)),
		})
	}
	return list
}

// Origin returns the nonce of the epoch in which an offset was committed; zero if that is not
// known, or no longer.
func (b *Broker) Origin(topic record.ID, partition uint32, offset int64) (nonce record.ID) {
	b.log.Read(func(s *state.State) {
		t := s.Topic(topic)
		if t == nil || int(partition) >= t.Partitions.Len() {
			return
		}
		epochs := t.Partitions.At(int(partition)).Epochs
		i, found := slices.BinarySearchFunc(epochs, offset, func(e state.EpochStart, o int64) int { return cmp.Compare(e.Offset, o) })
		if !found {
			i--
		}
		if i < 0 || offset >= t.Partitions.At(int(partition)).Next {
			return
		}
		j, found := slices.BinarySearchFunc(s.Epochs, epochs[i].Epoch, func(e state.Epoch, n uint32) int { return cmp.Compare(e.Number, n) })
		if found {
			nonce = s.Epochs[j].Nonce
		}
	})
	return nonce
}

// ReadIndexed reads committed batches of a partition from an offset on, like Fetch without waiting.
// It takes the topic's id, and does not count as a reader of rule R11: it does not make a follower
// continue to follow.
//
// from is the wanted offset, or the end of the offsets without records that hold it.
func (b *Broker) ReadIndexed(ctx context.Context, topic record.ID, w Want) (f *Fetched, from int64, err error) {
	p := newPlan([]Want{w})
	p.parts[0].err = state.ErrUnknownTopic
	from = w.Offset
	b.log.Read(func(s *state.State) {
		if t := s.Topic(topic); t != nil {
			p.wants[0].Topic, p.parts[0].err = t.Name, nil
			p.parts[0].look(s, &p.wants[0])
			if p.parts[0].err == nil {
				from = max(from, p.parts[0].lost)
			}
		}
	})
	f, err = b.read(ctx, p)
	return f, from, err
}

// Queried counts as a reader for a while, so that a follower continues to follow.
func (b *Broker) Queried() {
	if b.Follows() {
		b.waiters.touch(followLinger)
	}
}

// advanced is called when the committed state has changed by another broker's commits.
func (b *Broker) advanced() {
	b.waiters.wakeAll()
	b.progress.wake()
	b.changed(true)
}

// changed calls Options.Changed.
func (b *Broker) changed(topics bool) {
	if b.opt.Changed != nil {
		b.opt.Changed(topics)
	}
}
