package keyindex

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

// mergeShare is how many entries are merged for each that comes in, at least: none is merged more often, but in logs of
// more than a billion records.
const mergeShare = 7

// follower keeps the file in step with the log. The loop runs it.
type follower struct {
	*View
	f         *file // nil while none is open
	topics    map[record.ID]uint32
	nextTopic uint32
	checked   bool // positions have been compared with the log's epochs
	batch     batch
	settled   int64                     // that of the partition that is being read, before
	failed    map[partKey]*follow.Retry // partitions that could not be read
	unmerged  follow.Retry              // with merging
	owed      int                       // entries to be merged
	wasteAt   time.Time                 // when waste was last looked at
	compact   int64                     // entries after the last merge of all
}

// shut withdraws the file and closes it.
func (w *follower) shut(err error) {
	w.withdraw(err)
	if w.f != nil {
		if err := w.f.close(); err != nil {
			w.opt.Logger.Warn("closing the view of keys", "err", err)
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
		return follow.Idle, nil
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

// damage is what queries have found.
func (w *follower) damage() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// Failed closes a damaged file. Queries wait for the rebuilt one, and hear of any other error that leaves no file.
func (w *follower) Failed(err error, rebuilt bool) {
	if errors.Is(err, localdb.ErrDamaged) {
		w.shut(nil)
		w.met.rebuilds.Inc()
		w.opt.Logger.Warn("the view of keys is made anew from the log", "path", w.opt.Path, "err", err)
	}
	if w.f == nil && !rebuilt {
		w.withdraw(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
}

// open opens the file, or makes it.
func (w *follower) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(w.opt.Path), 0o700); err != nil {
		return err
	}
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

// work brings the file a step nearer to the log.
func (w *follower) work(ctx context.Context, parts []follow.Partition) (wait time.Duration, err error) {
	fresh := !w.checked
	if err := w.reconcile(ctx, parts); err != nil {
		return 0, err
	}
	if fresh { // not before: it may be of a log that is no more
		w.publish(w.f, w.topics, &progress{moved: w.f.positions})
	}
	wait, err = w.read(ctx, parts)
	if err != nil {
		return 0, err
	}
	more, err := w.tend(ctx, parts)
	if more {
		wait = 0
	}
	return wait, err
}

// reconcile gives new topics a number, and takes away those that are no longer there or are not the ones that were read.
func (w *follower) reconcile(ctx context.Context, parts []follow.Partition) error {
	topics, n := w.topics, 0
	var strange map[record.ID]bool // topics to be read again
	change := func() map[record.ID]uint32 {
		if n++; n == 1 {
			topics = maps.Clone(w.topics)
		}
		return topics
	}
	there := 0
	for i := range parts {
		p := &parts[i]
		if i == 0 || p.Topic != parts[i-1].Topic {
			there++
			if _, ok := topics[p.Topic]; !ok {
				change()[p.Topic] = w.nextTopic
				w.nextTopic++
			}
		}
		if why := w.strange(p); why != "" && !strange[p.Topic] {
			w.met.rebuilds.Inc()
			w.opt.Logger.Warn("keys of a topic are read anew from the log", "topic", p.Topic.String(), "partition", p.Partition, "why", why)
			if strange == nil {
				strange = map[record.ID]bool{}
			}
			strange[p.Topic] = true
			change()[p.Topic] = w.nextTopic
			w.nextTopic++
		}
	}
	w.checked = true
	if there < len(topics) {
		w.drop(change(), parts)
	}
	if n == 0 {
		return nil
	}
	return w.retopic(ctx, topics, strange)
}

// strange says why what was read of a partition is not what is there.
func (w *follower) strange(p *follow.Partition) string {
	pos, ok := w.f.positions[partKey{p.Topic, p.Partition}]
	switch {
	case !ok:
		return ""
	case pos.next > p.Next:
		return fmt.Sprintf("offset %d was read, the log ends at %d", pos.next-1, p.Next)
	case pos.unsettled(p):
		return fmt.Sprintf("was read up to offset %d, tombstones up to %d may be gone since", pos.next, p.Sweepable)
	case w.checked:
		return ""
	}
	now, same := follow.SameOrigin(w.opt.Log, p.Topic, p.Partition, pos.next, pos.origin)
	if same {
		return ""
	}
	return fmt.Sprintf("offset %d was read of epoch %s and is of %s", pos.next-1, pos.origin, now)
}

// drop leaves only topics that are there.
func (w *follower) drop(topics map[record.ID]uint32, parts []follow.Partition) {
	there := map[record.ID]bool{}
	for i := range parts {
		there[parts[i].Topic] = true
	}
	maps.DeleteFunc(topics, func(t record.ID, _ uint32) bool { return !there[t] })
}

// retopic forgets the positions of topics that are gone or strange. Their entries are of no number then.
func (w *follower) retopic(ctx context.Context, topics map[record.ID]uint32, strange map[record.ID]bool) error {
	p := &progress{}
	for k := range w.f.positions {
		if _, ok := topics[k.topic]; !ok || strange[k.topic] {
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

// forget marks entries as gone.
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
