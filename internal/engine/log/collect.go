package log

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

const (
	// collectMax bounds the names that one pass deletes; the next snapshot starts the next pass. A
	// pass may delete more if the log has grown by many slots since the last one: collectPerSlot
	// names for each. So collection keeps up with a log of small objects, and a wrong verdict still
	// does limited damage per pass.
	collectMax     = 10_000
	collectPerSlot = 3
	// collectFree is how many names a pass may always delete; beyond it, at most half of the listed
	// names.
	collectFree = 1_000
	// deleteAtOnce is the number of names in one DELETE request.
	deleteAtOnce = 1_000
	// listAtOnce is the page size of a LIST.
	listAtOnce = 1_000
	// headTries is how often a head that cannot be read is tried.
	headTries = 3
	// headsAtOnce is how many heads a pass reads concurrently.
	headsAtOnce = 8
)

// sweep is one pass over the names of snapshots, slots and packs (rule R7). Any error ends it,
// which is safe: garbage stays garbage.
type sweep struct {
	l       *Log
	judge   *core.Collector
	listed  int64
	deleted int64
	garbage []string
	most    int  // names that this pass may delete
	more    bool // there is garbage beyond what this pass may delete
}

// collect deletes the garbage below the older of a leader's two newest snapshots and reports its
// progress. It runs concurrently with the owner: the verdicts depend only on older, which is
// immutable.
func (l *Log) collect(ctx context.Context, older *state.State) *core.Event {
	l.sweeping.Lock() // the pass of an earlier epoch ends soon, because its context has ended
	defer l.sweeping.Unlock()
	s := &sweep{l: l, judge: core.NewCollector(older, &l.proven), most: collectMax}
	if l.collected.Epoch == older.Pos.Epoch {
		s.most = max(s.most, collectPerSlot*int(older.Pos.Slot-l.collected.Slot))
	}
	l.collected = older.Pos
	var err error
	for _, prefix := range []string{core.SnapPrefix(older.Shard), core.WALPrefix(older.Shard), state.PackPrefix(older.Shard)} {
		if err = s.list(ctx, prefix); err != nil {
			break
		}
		s.garbage = append(s.garbage, s.judge.Settle()...)
	}
	if branch := s.judge.Branch(); len(branch) > 0 && err == nil && !s.more {
		l.forked(branch)
	}
	if err == nil {
		err = s.delete(ctx)
	}
	if err != nil && ctx.Err() == nil {
		l.opt.Logger.Warn("collection ended early", "err", err)
	}
	return &core.Event{
		Kind: core.EvCollected, Outcome: core.OutcomeOK,
		Listed: s.listed, Deleted: s.deleted, More: err != nil || s.more,
	}
}

// forked raises one alarm for acknowledged objects that are not on the log.
func (l *Log) forked(branch []string) {
	if l.branch == branch[0] {
		return
	}
	l.branch = branch[0]
	l.alarm("objects of another branch found", "key", branch[0], "objects", len(branch), "err", errForked)
}

// alarm counts and logs a danger that an operator must look at.
func (l *Log) alarm(danger string, args ...any) {
	l.met.alarms.Inc()
	l.opt.Logger.Error("log alarm: "+danger, args...)
}

var errForked = errors.New("a part of the log was lost and a broker continued without it: acknowledged records are not served; " +
	`"seb fsck" lists them and tells how to accept the loss`)

// list judges the names below a prefix.
func (s *sweep) list(ctx context.Context, prefix string) error {
	o := objstore.ListOptions{Prefix: prefix, Max: listAtOnce}
	for len(s.garbage) < s.most {
		entries, more, err := s.l.page(ctx, o)
		if err != nil {
			return err
		}
		if err := s.add(ctx, entries); err != nil {
			return err
		}
		if !more || len(entries) == 0 {
			return nil
		}
		o.After = entries[len(entries)-1].Key
	}
	s.more = true
	return nil
}

// add judges a page of names.
func (s *sweep) add(ctx context.Context, page []objstore.Entry) error {
	var ask []string
	for i := range page {
		s.listed++
		switch key := page[i].Key; s.judge.Judge(key) {
		case core.Delete:
			s.garbage = append(s.garbage, key)
		case core.AskHead:
			ask = append(ask, key)
		}
	}
	return s.ask(ctx, ask)
}

// ask judges names by their objects' heads, which it reads concurrently.
func (s *sweep) ask(ctx context.Context, keys []string) error {
	heads, errs := make([]*record.Head, len(keys)), make([]error, len(keys))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(headsAtOnce, len(keys)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(keys) && ctx.Err() == nil; i = next.Add(1) - 1 {
				heads[i], errs[i] = s.l.head(ctx, keys[i])
			}
		})
	}
	wg.Wait()
	for i, h := range heads {
		if h != nil && s.judge.Head(keys[i], h) == core.Delete {
			s.garbage = append(s.garbage, keys[i])
		}
	}
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// SlotHead reads the head of a commit object. It returns nil if the object is gone, or if it is
// unreadable, which raises an alarm, or if the state does not know the epoch.
func (l *Log) SlotHead(ctx context.Context, pos state.Position) (*record.Head, error) {
	key := ""
	l.Read(func(s *state.State) { key = s.Key(pos.Epoch, pos.Slot) })
	if key == "" {
		return nil, nil
	}
	return l.head(ctx, key)
}

// head reads a head, as SlotHead does.
func (l *Log) head(ctx context.Context, key string) (*record.Head, error) {
	var h record.Head
	var err error
	for range headTries {
		var b []byte
		b, _, err = l.read(ctx, key, record.HeadSize)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, nil
		}
		if errors.Is(err, objstore.ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if h, err = record.DecodeHead(b); err == nil {
			return &h, nil
		}
		objstore.Forget(l.opt.Store, key) // it may have been damaged in transit
	}
	l.alarm("object is damaged", "key", key, "err", err)
	return nil, nil // never deleted for being unreadable (rule R9)
}

// delete deletes as many names as the pass may, and logs their number.
func (s *sweep) delete(ctx context.Context) error {
	n := min(len(s.garbage), s.most, max(collectFree, int(s.listed/2)))
	s.more = s.more || n < len(s.garbage)
	names := s.garbage[:n]
	begin := time.Now()
	defer func() {
		if s.deleted > 0 {
			s.l.opt.Logger.Info("garbage deleted", "objects", s.deleted, "listed", s.listed, "took", time.Since(begin))
		}
	}()
	for len(names) > 0 {
		batch := names[:min(len(names), deleteAtOnce)]
		names = names[len(batch):]
		ctx, cancel := context.WithTimeout(ctx, s.l.opt.Timeouts.Put)
		failpoint.Hit("delete.before")
		err := s.l.opt.Store.Delete(ctx, batch...)
		failpoint.Hit("delete.after")
		cancel()
		if err != nil {
			return err
		}
		s.deleted += int64(len(batch))
		s.l.met.deleted.Add(len(batch))
	}
	return nil
}
