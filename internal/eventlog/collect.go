package eventlog

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

const (
	// collectMax bounds the names one pass deletes; the next snapshot brings the next pass.
	collectMax = 10_000
	// collectFree is how many a pass may delete whatever their share; beyond it, at most half of what it listed.
	collectFree = 1_000
	// deleteAtOnce is what one request deletes.
	deleteAtOnce = 1_000
	// listAtOnce is a page of a LIST.
	listAtOnce = 1_000
)

// sweep is one pass over the names of snapshots, slots and packs (rule R7). Any trouble ends it: garbage stays garbage.
type sweep struct {
	l       *Log
	judge   *logcore.Collector
	listed  int64
	deleted int64
	garbage []string
	more    bool // there is garbage beyond what this pass may delete
}

// collect deletes garbage as the older of a leader's two newest snapshots shows it, and says how far it came. It runs
// beside the owner.
func (l *Log) collect(ctx context.Context, older *state.State) *logcore.Event {
	s := &sweep{l: l, judge: logcore.NewCollector(older)}
	var err error
	for _, prefix := range []string{logcore.SnapPrefix(older.Shard), logcore.WALPrefix(older.Shard), state.PackPrefix(older.Shard)} {
		if err = s.list(ctx, prefix); err != nil {
			break
		}
	}
	if err == nil {
		err = s.delete(ctx)
	}
	if err != nil && ctx.Err() == nil {
		l.opt.Logger.Warn("collection ended early", "err", err)
	}
	return &logcore.Event{
		Kind: logcore.EvCollected, Outcome: logcore.OutcomeOK,
		Listed: s.listed, Deleted: s.deleted, More: err != nil || s.more,
	}
}

// list judges the names below a prefix.
func (s *sweep) list(ctx context.Context, prefix string) error {
	o := objstore.ListOptions{Prefix: prefix, Max: listAtOnce}
	for len(s.garbage) < collectMax {
		entries, more, err := s.l.page(ctx, o)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := s.add(ctx, entries[i].Key); err != nil {
				return err
			}
		}
		if !more || len(entries) == 0 {
			return nil
		}
		o.After = entries[len(entries)-1].Key
	}
	s.more = true
	return nil
}

func (s *sweep) add(ctx context.Context, key string) error {
	s.listed++
	v := s.judge.Judge(key)
	if v == logcore.AskHead {
		b, _, err := s.l.read(ctx, key, record.HeadSize)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		h, err := record.DecodeHead(b)
		if err != nil {
			s.l.met.alarms.Inc()
			s.l.opt.Logger.Error("log alarm", "key", key, "err", err)
			return nil // never deleted because it is unreadable (rule R9)
		}
		v = s.judge.JudgeHead(&h)
	}
	if v == logcore.Delete {
		s.garbage = append(s.garbage, key)
	}
	return nil
}

// delete deletes what the pass may.
func (s *sweep) delete(ctx context.Context) error {
	n := min(len(s.garbage), collectMax, max(collectFree, int(s.listed/2)))
	s.more = s.more || n < len(s.garbage)
	names := s.garbage[:n]
	for len(names) > 0 {
		batch := names[:min(len(names), deleteAtOnce)]
		names = names[len(batch):]
		begin := time.Now()
		ctx, cancel := context.WithTimeout(ctx, s.l.opt.Timeouts.Put)
		err := s.l.opt.Store.Delete(ctx, batch...)
		cancel()
		if err != nil {
			return err
		}
		s.deleted += int64(len(batch))
		s.l.met.deleted.Add(len(batch))
		s.l.opt.Logger.Info("deleted what no snapshot needs", "objects", len(batch), "took", time.Since(begin))
	}
	return nil
}
