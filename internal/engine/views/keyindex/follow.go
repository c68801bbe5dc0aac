package keyindex

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// mergeShare is the minimum number of entries merged per new entry. No entry is merged more often
// than that, except in logs of more than a billion records.
const mergeShare = 7

// follower keeps the file in step with the log. The loop runs it.
type follower struct {
	*View
	f         *file // nil while no file is open
	topics    map[record.ID]uint32
	nextTopic uint32
	checked   bool // positions were compared with the log's epochs
	batch     batch
	settled   int64                    // of the partition that is being read, before the read
	failed    map[partKey]*views.Retry // partitions that could not be read
	unmerged  views.Retry              // retries of merges
	owed      int                      // entries to be merged
	unusedAt  time.Time                // time of the last check of mergeUnused
	compact   int64                    // entries after the last merge of all runs
}

// shut withdraws the file from queries and closes it.
func (w *follower) shut(err error) {
	w.withdraw(err)
	if w.f != nil {
		if err := w.f.Close(); err != nil {
			w.opt.Logger.Warn("closing the key index failed", "err", err)
		}
	}
	w.f = nil
}

// Close closes the file at the end.
func (w *follower) Close() { w.shut(ErrClosed) }

// Work is a turn of the loop.
func (w *follower) Work(ctx context.Context) (wait time.Duration, err error) {
	if err := w.damage(); err != nil {
		return 0, err
	}
	parts, known := w.opt.Log.Partitions()
	if !known || len(parts) == 0 && w.f == nil {
		return views.Idle, nil
	}
	if w.f == nil {
		if err := w.open(ctx); err != nil {
			return 0, err
		}
	}
	if wait, err = w.work(ctx, parts); err != nil {
		return 0, err
	}
	w.met.entries.Store(w.f.entries())
	w.met.runs.Store(int64(len(w.f.runs)))
	return wait, nil
}

// damage is the damage that queries have found, or nil.
func (w *follower) damage() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// Failed closes a damaged file. Queries wait for the rebuilt file, and get any other error that
// leaves no file.
func (w *follower) Failed(err error, rebuilt bool) {
	if errors.Is(err, localdb.ErrDamaged) {
		w.shut(nil)
		w.met.rebuilds.Inc()
		w.opt.Logger.Warn("rebuilding the key index from the log", "path", w.opt.Path, "err", err)
	}
	if w.f == nil && !rebuilt {
		w.withdraw(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
}

// open opens the file, or creates it.
func (w *follower) open(ctx context.Context) error {
	f, err := openFile(ctx, &w.opt)
	if err != nil {
		return err
	}
	w.f, w.checked, w.owed, w.compact = f, false, 0, 0
	w.nextTopic, w.topics = f.man.NextTopic, map[record.ID]uint32{}
	for k, p := range f.positions {
		w.topics[k.topic] = p.number
	}
	return nil
}

// work brings the file one step closer to the log.
func (w *follower) work(ctx context.Context, parts []views.Partition) (wait time.Duration, err error) {
	fresh := !w.checked
	if err := w.reconcile(ctx, parts); err != nil {
		return 0, err
	}
	if fresh { // not earlier, because the file may belong to another log
		w.publish(w.f, w.topics, &progress{moved: w.f.positions})
	}
	wait, err = w.read(ctx, parts)
	if err != nil {
		return 0, err
	}
	more, err := w.maintain(ctx, parts)
	if more {
		wait = 0
	}
	return wait, err
}

// reconcile assigns numbers to new topics, and removes topics that no longer exist or that differ
// from the ones that were read.
func (w *follower) reconcile(ctx context.Context, parts []views.Partition) error {
	topics, n := w.topics, 0
	var mismatched map[record.ID]bool // topics to be read again
	change := func() map[record.ID]uint32 {
		if n++; n == 1 {
			topics = maps.Clone(w.topics)
		}
		return topics
	}
	existing := 0
	for i := range parts {
		p := &parts[i]
		if i == 0 || p.Topic != parts[i-1].Topic {
			existing++
			if _, ok := topics[p.Topic]; !ok {
				change()[p.Topic] = w.nextTopic
				w.nextTopic++
			}
		}
		if why := w.mismatch(p); why != "" && !mismatched[p.Topic] {
			w.met.rebuilds.Inc()
			w.opt.Logger.Warn("reading the keys of a topic again", "topic", p.Topic.String(), "partition", p.Partition, "why", why)
			if mismatched == nil {
				mismatched = map[record.ID]bool{}
			}
			mismatched[p.Topic] = true
			change()[p.Topic] = w.nextTopic
			w.nextTopic++
		}
	}
	w.checked = true
	if existing < len(topics) {
		w.drop(change(), parts)
	}
	if n == 0 {
		return nil
	}
	return w.retopic(ctx, topics, mismatched)
}

// mismatch is why the read part of a partition does not match the log, or "".
func (w *follower) mismatch(p *views.Partition) string {
	pos, ok := w.f.positions[partKey{p.Topic, p.Partition}]
	switch {
	case !ok:
		return ""
	case pos.next > p.Next:
		return fmt.Sprintf("offset %d was read, but the log ends at %d", pos.next-1, p.Next)
	case pos.unsettled(p):
		return fmt.Sprintf("read up to offset %d, but tombstones up to %d may have been removed", pos.next, p.Sweepable)
	case w.checked:
		return ""
	}
	now, same := views.SameOrigin(w.opt.Log, p.Topic, p.Partition, pos.next, pos.origin)
	if same {
		return ""
	}
	return fmt.Sprintf("offset %d was read from epoch %s, but is of epoch %s", pos.next-1, pos.origin, now)
}

// drop removes topics that do not exist.
func (w *follower) drop(topics map[record.ID]uint32, parts []views.Partition) {
	existing := map[record.ID]bool{}
	for i := range parts {
		existing[parts[i].Topic] = true
	}
	maps.DeleteFunc(topics, func(t record.ID, _ uint32) bool { return !existing[t] })
}

// retopic removes the positions of deleted and mismatched topics. Their entries then have an
// unknown number.
func (w *follower) retopic(ctx context.Context, topics map[record.ID]uint32, mismatched map[record.ID]bool) error {
	p := &progress{}
	for k := range w.f.positions {
		if _, ok := topics[k.topic]; !ok || mismatched[k.topic] {
			p.dropped = append(p.dropped, k)
		}
	}
	w.topics = topics
	if len(p.dropped) > 0 {
		if err := w.f.ingest(ctx, p, w.nextTopic); err != nil {
			return err
		}
	}
	w.publish(w.f, w.topics, p)
	return nil
}

// forget marks entries as Gone.
func (w *follower) forget(ctx context.Context, gone []RunEntry) error {
	if w.f == nil {
		return nil // a new file will not have them
	}
	p := &progress{entries: Sort(gone)}
	switch err := w.f.ingest(ctx, p, w.nextTopic); {
	case errors.Is(err, localdb.ErrDamaged):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.breakLocked(err)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	w.publish(w.f, w.topics, p)
	return nil
}
