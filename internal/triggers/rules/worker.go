package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// worker keeps the file up to date with the log. The loop runs it.
type worker struct {
	*Follower
	f       *store.File // nil while none is open
	cursors map[store.CursorKey]store.Cursor
	live    []*live // followed triggers, by ID
	byNo    map[int64]*live
	groups  map[int64]*group
	gone    []*gone
	index   map[record.ID]map[string][]*live
	rows    rowCache
	rules   ruleCache
	held    int64 // bytes of live: see Memory
	names   nameCache
	reader  record.Reader
	inst    rule.Instance
	instRow rule.Row // of inst

	pos      views.Position
	topics   []record.ID // the topics of pos: definitions, firings, then events
	complete map[record.ID]int64

	authoritative bool      // led before pos: topics without spans are gone
	epoch         uint32    // the epoch in which this broker leads, to which electedEnd belongs; 0: none
	recordIn      record.ID // the topic of firings at the last position
	electedEnd    int64     // the end of the topic of firings when this broker started to lead
	sent          int64     // the end of the appended firings
	outboxPending bool      // the outbox may have entries
	listed        bool      // the published list of triggers is current
	pruning       pruning
	blocked       map[store.CursorKey]*blockedPartition // partitions of events
	left          int                                   // work left in this step
	turn          uint64
	caughtUp      int64 // the log's time (ms) at the last position with no lag
	lags          lagLog
	tickedAt      time.Time
	snapshotter   snapshotter
	inline        bool        // Step saves copies itself
	sendRetry     views.Retry // backoff of appends
	marks         Marks
}

// closeFile withdraws the file and closes it.
func (w *worker) closeFile(why error) {
	w.snapshotter.stopSave()
	w.fileLock.Lock() // waits for running queries
	w.file = nil
	w.fileLock.Unlock()
	w.setErr(why)
	if w.f != nil {
		if err := w.f.Close(); err != nil {
			w.opt.Logger.Warn("trigger file not closed cleanly", "err", err)
		}
	}
	w.f = nil
}

// Close closes the file at the end.
func (w *worker) Close() { w.closeFile(ErrClosed) }

// Work runs one turn of the loop.
func (w *worker) Work(ctx context.Context) (wait time.Duration, err error) {
	w.busy.Store(w.opt.Now().UnixMilli())
	defer w.busy.Store(0)
	if err := w.brokenErr(); err != nil {
		return 0, err
	}
	return w.work(ctx)
}

// Failed handles an error of a turn. Memory may be ahead of the file, so the file is opened again,
// unless the log had the error. A damaged file is rebuilt.
func (w *worker) Failed(err error, _ bool) {
	var u *unreadable
	switch {
	case !errors.Is(err, errLog):
		w.closeFile(errors.Join(ErrUnavailable, err))
	case errors.As(err, &u) && u.batch: // of definitions or firings: the engine needs all of them
		w.setErr(errors.Join(ErrUnavailable, err))
		w.listed = false
	}
	w.met.failures.Inc()
	if errors.Is(err, localdb.ErrDamaged) {
		w.met.rebuilds.Inc()
		w.opt.Logger.Warn("trigger file rebuilt from a snapshot or the log", "path", w.opt.Path, "err", err)
		w.snapshotter.refuse()
	}
}

// open opens or creates the file, and loads its state.
func (w *worker) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(w.opt.Path), 0o700); err != nil { // for a snapshot
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
	w.live, w.gone, w.byNo, w.groups = nil, nil, map[int64]*live{}, map[int64]*group{}
	w.index, w.held = map[record.ID]map[string][]*live{}, 0
	w.epoch, w.sent = 0, 0
	w.outboxPending, w.listed, w.pruning = true, false, pruning{}
	w.blocked = map[store.CursorKey]*blockedPartition{}
	if w.cursors, err = f.Cursors(ctx); err != nil {
		return err
	}
	if err := errors.Join(w.load(ctx), w.loadMarks(ctx)); err != nil {
		return err
	}
	if err := w.sameLog(); err != nil {
		return err
	}
	w.fileLock.Lock()
	w.file = f
	w.fileLock.Unlock()
	w.setOpen()
	return nil
}

// load reads the triggers of the file.
func (w *worker) load(ctx context.Context) error {
	for no := int64(0); ; {
		g, err := w.f.NextTrigger(ctx, no)
		if err != nil || g == nil {
			return err
		}
		if no = g.No; g.Status == store.Gone {
			w.gone = append(w.gone, &gone{no: no, group: g.Group})
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
		w.joinGroup(l, g.Group, d.TopicID)
		if err := w.loadRows(ctx, l); err != nil {
			return err
		}
		w.addLive(l)
	}
}

// loadRows finds out which rows a trigger of the file may have.
func (w *worker) loadRows(ctx context.Context, l *live) (err error) {
	l.shared = true
	if l.alone, err = w.f.HasInst(ctx, -l.No); err != nil {
		return err
	}
	if l.due, err = w.f.FirstDue(ctx, -l.No); err == nil && l.group.members == 1 {
		l.group.due, err = w.f.FirstDue(ctx, l.group.no)
	}
	return err
}

// sameLog returns an error unless the records behind the file are still in the log: an earlier
// state of the log may have been restored.
func (w *worker) sameLog() error {
	for k, c := range w.cursors {
		if _, same := views.SameOrigin(w.opt.Log, k.Topic, k.Partition, c.Next, c.Origin); !same {
			return localdb.Damaged("it contains records that are not in the log")
		}
	}
	return nil
}

// work brings the file a step closer to the end of the log.
func (w *worker) work(ctx context.Context) (wait time.Duration, err error) {
	if w.f == nil {
		if _, ok := w.opt.Log.Topic(w.opt.Triggers); !ok { // without triggers there is no file
			w.setIdle()
			return views.Idle, nil
		}
		if err := w.open(ctx); err != nil {
			return 0, err
		}
	}
	epoch := w.opt.Log.LeadingEpoch() // before pos: it then has all earlier records
	leads := epoch != 0
	w.authoritative = leads
	if known, err := w.position(ctx); err != nil || !known {
		return views.Idle, err
	}
	switch {
	case !leads:
		w.epoch, w.snapshotter.known = 0, false
	case w.epoch != epoch:
		w.elected(epoch)
	}
	more := false
	w.turn++
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
	unreadable, again := w.pruneBlocked()
	if !more && unreadable == 0 {
		if more, err = w.prune(ctx); err != nil {
			return 0, err
		}
	}
	if err := w.keepMarks(ctx, leads); err != nil {
		return 0, err
	}
	w.publish(unreadable)
	wait = views.Idle
	if leads {
		if wait, err = w.lead(ctx); err != nil {
			return 0, err
		}
	}
	if leads {
		save, err := w.maintainSnapshot(ctx)
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

// sweep deletes some of the rows of removed triggers.
func (w *worker) sweep(ctx context.Context) (more bool, err error) {
	if len(w.gone) == 0 {
		return false, nil
	}
	g := w.gone[0]
	err = w.f.Update(ctx, func(tx *store.Tx) (err error) {
		if more, err = w.sweepSome(tx, g); err == nil && !more {
			err = tx.DropTrigger(g.no)
		}
		return err
	})
	if err == nil && !more {
		w.gone = w.gone[1:]
	}
	return true, err
}

// Work measures evaluation in units of about 0.1 µs, counted the same on every machine. Each step
// of a turn does a bounded amount of work, so that no trigger delays the others; the rest waits for
// the next turn. A piece of events for simple triggers fits into a turn, because each transaction
// costs as much as many events.
const (
	recordWork = 25 // reading a record
	stepWork   = 25 // an event or deadline of a trigger, without the size of its rule and state
	stateShare = 2  // bytes of state per unit

	workDefault = 1_000_000 // a step of a turn: about 100 ms
	// costlyDefault is the work of one event from which a trigger's deadlines pass separately.
	costlyDefault = 1000
)

// spend counts the work of an event or a deadline of a trigger.
func (w *worker) spend(l *live, r *rule.Rule, row *rule.Row) {
	n := stepWork + r.Nodes() + len(row.State)/stateShare
	w.left -= n
	l.spent += n
	l.avgWork += (n - l.avgWork) / 8
	if l.avgWork < n/8 {
		l.avgWork = n / 8
	}
}

// costly reports whether the deadlines of a trigger pass separately.
func (w *worker) costly(l *live) bool { return l.avgWork >= w.opt.Sizes.Costly }

// rotated returns the i-th of n in an order that starts one later in each turn, so that each is
// sometimes the first.
func (w *worker) rotated(i, n int) int { return int((w.turn + uint64(i)) % uint64(n)) }

// unreadable is the place in the log that could not be read or parsed. It is errLog.
type unreadable struct {
	key    store.CursorKey
	offset int64
	batch  bool // the read succeeded, but returned an invalid batch
	err    error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("%v: topic %s, partition %d, offset %d: %v", errLog, u.key.Topic, u.key.Partition, u.offset, u.err)
}

func (u *unreadable) Unwrap() []error { return []error{errLog, u.err} }

// blockedAfter is the number of failed reads after which a partition is blocked: the store may be
// down for a moment.
const blockedAfter = 3

// blockedPartition is a partition of events with unreadable records.
type blockedPartition struct {
	failures int
	readTo   int64 // reads end before this batch; 0: no limit
	logged   bool
	retry    views.Retry
}

// tryEvents applies events. An unreadable record blocks only its partition. No instant of its topic
// completes, because the record may be an event that a trigger waits for. blocked reports that the
// partition waits for its next attempt.
func (w *worker) tryEvents(ctx context.Context, key store.CursorKey, span views.Span, lives []*live) (blocked bool, err error) {
	s, now := w.blocked[key], w.opt.Now()
	if s != nil {
		if s.retry.Left(now, w.opt.Sizes.Retry) > 0 && max(w.cursors[key].Next, span.Start) < span.Next {
			return true, nil
		}
	}
	err = w.events(ctx, key, span, lives)
	if err == nil {
		if s != nil && s.logged {
			w.opt.Logger.Info("event partition readable again", "topic", w.topicName(key.Topic), "partition", key.Partition)
		}
		delete(w.blocked, key)
		return false, nil
	}
	var u *unreadable
	if !errors.As(err, &u) || ctx.Err() != nil {
		return false, err
	}
	if s == nil {
		s = &blockedPartition{}
		w.blocked[key] = s
	}
	if u.batch && u.offset > max(w.cursors[key].Next, span.Start) { // earlier records come first
		s.readTo = u.offset
		return false, nil
	}
	if s.failures++; !u.batch && s.failures < blockedAfter {
		return false, err
	}
	w.met.failures.Inc()
	s.retry.Again(now, w.opt.Sizes.Retry)
	if !s.logged {
		s.logged = true
		w.opt.Logger.Error("event partition unreadable; deadlines of its topic are blocked until it can be read or is trimmed",
			"topic", w.topicName(key.Topic), "partition", key.Partition, "offset", u.offset, "err", u.err)
	}
	return true, nil
}

// topicName returns the name of a topic that triggers follow.
func (w *worker) topicName(id record.ID) string {
	for _, l := range w.live {
		if l.Events == id {
			return l.Topic
		}
	}
	return id.String()
}

// readBytes bounds one read of a partition: a single batch after a failed read.
func (w *worker) readBytes(key store.CursorKey) int {
	if s := w.blocked[key]; s != nil && s.failures > 0 {
		return 1
	}
	return w.opt.Sizes.ReadBytes
}

// pruneBlocked drops the blocked partitions of removed readers. It returns the number of blocked
// partitions, and the time until the next attempt.
func (w *worker) pruneBlocked() (n int, wait time.Duration) {
	wait = views.Idle
	for key, s := range w.blocked {
		switch {
		case !contains(w.topics, key.Topic), w.deleted(key.Topic), key.Reader != store.Main && w.byNo[key.Reader] == nil:
			delete(w.blocked, key)
		case s.logged:
			n++
			wait = min(wait, s.retry.Left(w.opt.Now(), w.opt.Sizes.Retry))
		}
	}
	return n, wait
}
