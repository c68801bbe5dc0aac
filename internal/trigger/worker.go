package trigger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// worker keeps the file in step with the log. The loop runs it.
type worker struct {
	*Follower
	f       *store.File // nil while none is open
	cursors map[store.CursorKey]store.Cursor
	live    []*live // triggers that are followed, by id
	byNo    map[int64]*live
	gone    []int64 // numbers of those to be swept away
	index   map[record.ID]map[string][]*live
	rows    rowCache
	rules   ruleCache
	held    int64 // bytes of live: see Memory
	names   nameCache
	reader  record.Reader
	spot    rule.Instance

	pos      follow.Position
	topics   []record.ID // that pos is of; the first two are those of definitions and firings
	complete map[record.ID]int64

	sees     bool      // this broker led before pos was taken: a topic that pos does not have is not in the log
	leads    bool      // since when firings were followed up to firmEnd
	recordIn record.ID // the topic of firings at the last position
	firmEnd  int64     // of the topic of firings, as of when this broker began to lead
	sent     int64     // firings up to here were appended and not read yet
	owed     bool      // something may be to be recorded
	listed   bool      // the published list of triggers is as w.live
	old      pruning
	stuck    map[store.CursorKey]*stuck // of events
	left     int                        // of the work of a step
	turns    uint64
	caughtUp int64 // the log's time (ms) at the last position up to which all was done
	lags     lagging
	tickedAt time.Time
	keeper   keeper
	inline   bool         // copies are saved by whoever has it go on
	unsent   follow.Retry // with appending
}

// shut withdraws the file and closes it.
func (w *worker) shut(why error) {
	w.keeper.leave()
	w.reading.Lock() // waits for whoever reads it
	w.file = nil
	w.reading.Unlock()
	w.fault(why)
	if w.f != nil {
		if err := w.f.Close(); err != nil {
			w.opt.Logger.Warn("closing the file of triggers", "err", err)
		}
	}
	w.f = nil
}

// Close closes the file at the end.
func (w *worker) Close() { w.shut(ErrClosed) }

// Work is a turn of the loop.
func (w *worker) Work(ctx context.Context) (wait time.Duration, err error) {
	w.busy.Store(w.opt.Now().UnixMilli())
	defer w.busy.Store(0)
	if err := w.found(); err != nil {
		return 0, err
	}
	return w.work(ctx)
}

// Failed handles an error. What is in memory may be ahead of the file, so the file is opened anew, unless it was the log's; a
// damaged one is made anew.
func (w *worker) Failed(err error, _ bool) {
	var u *unreadable
	switch {
	case !errors.Is(err, errLog):
		w.shut(errors.Join(ErrUnavailable, err))
	case errors.As(err, &u) && u.batch: // of definitions or firings: nothing may be done without them
		w.fault(errors.Join(ErrUnavailable, err))
		w.listed = false
	}
	w.met.failures.Inc()
	if errors.Is(err, localdb.ErrDamaged) {
		w.met.rebuilds.Inc()
		w.opt.Logger.Warn("the file of triggers is made anew, from a snapshot or the log", "path", w.opt.Path, "err", err)
		w.keeper.refuse()
	}
}

// open opens the file, or makes it, and loads what is in it.
func (w *worker) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(w.opt.Path), 0o700); err != nil {
		return err
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	f, err := store.Open(ctx, store.Options{
		Path: w.opt.Path, Cluster: w.opt.Log.Cluster().String(), CacheBytes: w.opt.CacheBytes, Unsafe: w.opt.Sizes.Unsafe,
	})
	if err != nil {
		return err
	}
	w.f = f
	w.rows, w.rules = rowCache{limit: w.opt.RowBytes}, ruleCache{limit: w.opt.MemoryBytes / rulesShare}
	w.names, w.complete = nameCache{}, map[record.ID]int64{}
	w.live, w.gone, w.byNo, w.index, w.held = nil, nil, map[int64]*live{}, map[record.ID]map[string][]*live{}, 0
	w.leads, w.sent = false, 0
	w.owed, w.listed, w.old = true, false, pruning{}
	w.stuck = map[store.CursorKey]*stuck{}
	if w.cursors, err = f.Cursors(ctx); err != nil {
		return err
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	if err := w.sameLog(); err != nil {
		return err
	}
	w.reading.Lock()
	w.file = f
	w.reading.Unlock()
	w.opened()
	return nil
}

// load reads the triggers of the file, one by one.
func (w *worker) load(ctx context.Context) error {
	for no := int64(0); ; {
		g, err := w.f.NextTrigger(ctx, no)
		if err != nil || g == nil {
			return err
		}
		if no = g.No; g.Status == store.Gone {
			w.gone = append(w.gone, no)
			continue
		}
		d, err := rule.ParseDefinition([]byte(g.ID), g.Def)
		if err != nil {
			return errors.Join(localdb.ErrDamaged, err)
		}
		l, err := w.newLive(g, &d)
		if err != nil {
			return errors.Join(localdb.ErrDamaged, err)
		}
		if l.due, err = w.f.FirstDue(ctx, no); err != nil {
			return err
		}
		w.addLive(l)
	}
}

// sameLog says whether what was read is what is in the log now: it may have been restored from an earlier state.
func (w *worker) sameLog() error {
	for k, c := range w.cursors {
		if _, same := follow.SameOrigin(w.opt.Log, k.Topic, k.Partition, c.Next, c.Origin); !same {
			return localdb.Damaged("it was made from records that are no more")
		}
	}
	return nil
}

// work brings the file a step nearer to the log.
func (w *worker) work(ctx context.Context) (wait time.Duration, err error) {
	if w.f == nil {
		if _, ok := w.opt.Log.Topic(w.opt.Triggers); !ok { // nothing is made for those who have no triggers
			w.idle()
			return follow.Idle, nil
		}
		if err := w.open(ctx); err != nil {
			return 0, err
		}
	}
	leads := w.opt.Log.Leads() // before the position is taken, so that this holds what others have written
	w.sees = leads
	if known, err := w.position(ctx); err != nil || !known {
		return follow.Idle, err
	}
	switch {
	case !leads:
		w.leads, w.keeper.known = false, false
	case !w.leads:
		w.elected()
	}
	more := false
	w.turns++
	for _, step := range []func(context.Context) (bool, error){
		w.definitions, w.firings, w.mainEvents, w.allDeadlines, w.histories, w.sweep,
	} {
		w.left = w.opt.Sizes.Work
		again, err := step(ctx)
		if err != nil {
			return 0, err
		}
		more = more || again
	}
	unreadable, again := w.unstick()
	if !more && unreadable == 0 {
		if more, err = w.prune(ctx); err != nil {
			return 0, err
		}
	}
	w.publish(unreadable)
	wait = follow.Idle
	if leads {
		if wait, err = w.lead(ctx); err != nil {
			return 0, err
		}
	}
	if leads {
		save, err := w.keep(ctx)
		if err != nil {
			return 0, err
		}
		wait = min(wait, save)
	}
	if more {
		again = 0
	}
	return min(wait, again), nil
}

func contains(list []record.ID, id record.ID) bool { return slices.Contains(list, id) }

// sweep takes away some of what is left of triggers that are gone.
func (w *worker) sweep(ctx context.Context) (more bool, err error) {
	if len(w.gone) == 0 {
		return false, nil
	}
	no := w.gone[0]
	var left int64
	err = w.f.Update(ctx, func(tx *store.Tx) (err error) {
		left, err = tx.SweepInst(no, w.opt.Sizes.Sweep)
		if err == nil && left == 0 {
			err = tx.DropTrigger(no)
		}
		return err
	})
	if err == nil && left == 0 {
		w.gone = w.gone[1:]
	}
	return true, err
}
