package keyindex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/record"
)

const (
	// readBytes is how much of a partition one read returns.
	readBytes = 1 << 20
	// arenaBytes is the allocation unit for keys.
	arenaBytes = 64 << 10
)

// batch is entries that were read and not yet stored.
type batch struct {
	entries []RunEntry
	arena   []byte
	bytes   int
	moved   map[partKey]position
}

func (b *batch) full(s *sizes) bool {
	return len(b.entries) >= s.batchEntries || b.bytes >= s.batchBytes
}

// key copies a key.
func (b *batch) key(key []byte) []byte {
	b.bytes += len(key)
	if len(key) > cap(b.arena)-len(b.arena) {
		b.arena = make([]byte, 0, max(len(key), arenaBytes))
	}
	from := len(b.arena)
	b.arena = append(b.arena, key...)
	return b.arena[from:len(b.arena):len(b.arena)]
}

// read reads new records, some of each partition.
func (w *follower) read(ctx context.Context, parts []follow.Partition) (wait time.Duration, err error) {
	wait = follow.Idle
	for i := range parts {
		p := &parts[i]
		key := partKey{p.Topic, p.Partition}
		next := max(w.f.positions[key].next, p.Start)
		if next >= p.Next {
			continue
		}
		if x := w.failed[key]; x != nil {
			if d := x.Left(time.Now(), w.opt.sizes.retry); d > 0 {
				wait = min(wait, d)
				continue
			}
		}
		to, err := w.readPartition(ctx, p, next)
		if file, ok := errors.AsType[*fileError](err); ok {
			return 0, file.error
		}
		if err != nil {
			wait = min(wait, w.unread(ctx, key, err))
			continue
		}
		delete(w.failed, key)
		if to < p.Next {
			wait = 0
		}
	}
	return wait, w.commit(ctx)
}

// unread records that a partition could not be read.
func (w *follower) unread(ctx context.Context, key partKey, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	x := w.failed[key]
	if x == nil {
		x = &follow.Retry{}
		w.failed[key] = x
		w.opt.Logger.Warn("reading keys of a partition failed, retrying", "topic", key.topic.String(),
			"partition", key.partition, "err", err)
	}
	return x.Again(time.Now(), w.opt.sizes.retry)
}

// fileError is an error of the file, not of the log.
type fileError struct{ error }

// unsettled reports whether unread tombstones may have been removed. The index would then treat
// their keys as alive, because it read the deleted records before.
func (pos *position) unsettled(p *follow.Partition) bool {
	return pos.next < p.Sweepable && pos.settled < p.Sweepable
}

// readPartition reads some of a partition from an offset on, and returns the next offset.
func (w *follower) readPartition(ctx context.Context, p *follow.Partition, from int64) (next int64, err error) {
	b, err := w.opt.Log.Read(ctx, p.Topic, p.Partition, from, readBytes)
	if err != nil {
		return from, err
	}
	defer b.Release()
	pos, ok := w.f.positions[partKey{p.Topic, p.Partition}]
	if !ok {
		pos = position{settled: p.Sweepable}
	}
	if pos.next = from; w.recheck(p, &pos) {
		return from, nil // the next turn sees the same
	}
	if next = max(from, b.From); next > from {
		w.reached(p, next)
	}
	var r record.Reader
	for one, err := range b.All() {
		if err != nil {
			return next, err
		}
		end := one.BaseOffset() + one.Span()
		if end <= next {
			continue
		}
		if one.BaseOffset() > next {
			return next, fmt.Errorf("batch at offset %d, want %d", one.BaseOffset(), next)
		}
		if err := w.readBatch(ctx, p, &r, one, next); err != nil {
			return next, err
		}
		next = end
		w.reached(p, next)
	}
	if next == from {
		return from, errors.New("no batch at a committed offset")
	}
	return next, nil
}

// recheck gets the state of a partition again after a read, because that state is then at least as
// new as the data. It reports whether the data must be discarded.
func (w *follower) recheck(p *follow.Partition, pos *position) bool {
	now := w.opt.Log.Topic(p.Topic)
	if int(p.Partition) >= len(now) || pos.unsettled(&now[p.Partition]) {
		return true
	}
	*p = now[p.Partition]
	w.settled = pos.settled
	return false
}

// readBatch adds the records of one batch from an offset on.
func (w *follower) readBatch(ctx context.Context, p *follow.Partition, r *record.Reader, one record.Batch, from int64) error {
	number := w.topics[p.Topic]
	for r.Reset(one, from); r.Next(); {
		rec := r.Record()
		if rec.Key == nil {
			continue
		}
		e := RunEntry{
			Key: w.batch.key(rec.Key), Topic: number, Part: p.Partition, Offset: rec.Offset, Time: rec.Timestamp,
		}
		if rec.Value == nil {
			e.Flags = Deleted
		}
		w.batch.entries = append(w.batch.entries, e)
		if w.batch.full(w.opt.sizes) {
			w.reached(p, rec.Offset+1)
			if err := w.commit(ctx); err != nil {
				return &fileError{err}
			}
		}
	}
	return r.Err()
}

// reached records the new position in a partition.
func (w *follower) reached(p *follow.Partition, next int64) {
	if w.batch.moved == nil {
		w.batch.moved = map[partKey]position{}
	}
	settled := w.settled
	if next >= p.Sweepable {
		settled = p.Sweepable
	}
	w.batch.moved[partKey{p.Topic, p.Partition}] = position{
		number: w.topics[p.Topic], next: next, origin: w.opt.Log.Origin(p.Topic, p.Partition, next-1), settled: settled,
	}
}

// commit stores the batch and makes it visible. After an error the batch is read again.
func (w *follower) commit(ctx context.Context) error {
	p := &progress{entries: Sort(w.batch.entries), moved: w.batch.moved}
	w.batch.entries, w.batch.moved, w.batch.bytes = nil, nil, 0
	if len(p.entries) == 0 && len(p.moved) == 0 {
		return nil
	}
	if err := w.f.ingest(ctx, p, w.nextTopic); err != nil {
		return err
	}
	w.met.records.Add(len(p.entries))
	w.owed += mergeShare * len(p.entries)
	w.publish(w.f, w.topics, p)
	if w.f.recent.entries < w.opt.sizes.recentEntries && w.f.recent.bytes < w.opt.sizes.recentBytes {
		return nil
	}
	if err := w.spill(ctx); err != nil {
		return err
	}
	w.publish(w.f, w.topics, nil)
	return nil
}
