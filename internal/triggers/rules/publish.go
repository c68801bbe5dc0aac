package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// Progress is the state that each turn publishes. It must not be changed.
type Progress struct {
	Open              bool                  // a file is open
	Defined, Followed int64                 // next offsets of the topics of definitions and firings
	Applied           map[record.ID][]int64 // next offsets of the main reader
	Complete          map[record.ID]int64   // instants (ms)
	Triggers          []*Head               // by id
	Held              int64                 // estimated memory of all triggers: see Memory
	Lag               int64                 // records
	Behind            int64                 // append time (ms) of the lag; 0: none
	ReadyIn           uint32                // see readyIn
	Unreadable        int                   // partitions of events with unreadable records
	Secrets           Secrets
	Marks             Marks
}

// Find returns a trigger by its ID, or nil.
func (p *Progress) Find(id string) *Head {
	i, ok := slices.BinarySearchFunc(p.Triggers, id, func(h *Head, id string) int { return cmp.Compare(h.ID, id) })
	if !ok {
		return nil
	}
	return p.Triggers[i]
}

// Trigger is a followed trigger with its definition.
type Trigger struct {
	rule.Definition
	Backfilling, Late, Missing bool // as in Head
	No, Group                  int64
	Events                     record.ID
}

// Trigger reads a trigger from the file; nil if no trigger has the ID.
func (e *Follower) Trigger(ctx context.Context, id string) (*Trigger, error) {
	h, value, err := e.Definition(ctx, id)
	if err != nil || h == nil {
		return nil, err
	}
	d, err := rule.ParseDefinition([]byte(id), value)
	return &Trigger{d, h.Backfilling, h.Late, h.Missing, h.No, h.Group, h.Events}, err
}

// Definition reads the definition of a trigger from the file; nil if no trigger has the ID.
func (e *Follower) Definition(ctx context.Context, id string) (h *Head, value []byte, err error) {
	for {
		p, _, err := e.Peek()
		if h = p.Find(id); err != nil || h == nil {
			return nil, nil, err
		}
		g, err := query(e, func(q store.Queries) (*store.Trigger, error) { return q.Trigger(ctx, h.No) })
		if err != nil {
			return nil, nil, err
		}
		if g != nil {
			return h, g.Def, nil
		}
		// The trigger was replaced or deleted: the next turn publishes that.
		if err := e.Wait(ctx, func(p *Progress) bool { x := p.Find(id); return x == nil || x.No != h.No }); err != nil {
			return nil, nil, err
		}
	}
}

// publish publishes the state of the file.
func (w *worker) publish(unreadable int) {
	p := Progress{
		Open: true, Defined: w.cursors[store.CursorKey{Topic: w.topics[0]}].Next, Followed: w.followed(),
		Applied: map[record.ID][]int64{}, Complete: map[record.ID]int64{}, Unreadable: unreadable, ReadyIn: w.readyIn(),
		Held: w.held, Marks: w.marks,
	}
	for i, id := range w.topics {
		p.Held += cursorMemory * int64(len(w.pos.Topics[i]))
		for part, span := range w.pos.Topics[i] {
			next := max(w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}].Next, span.Start)
			p.Lag += max(span.Next-next, 0)
			p.Applied[id] = append(p.Applied[id], next)
		}
		if at, ok := w.complete[id]; ok {
			p.Complete[id] = w.settled(id, at)
		}
	}
	p.Behind = w.behind()
	w.mu.Lock()
	p.Triggers, p.Secrets = w.pub.Triggers, w.pub.Secrets
	if !w.listed {
		p.Triggers, w.listed = make([]*Head, len(w.live)), true
		p.Secrets = countSecrets(w.live, w.opt.Keys)
		w.logSecrets(&w.pub.Secrets, &p.Secrets)
		for i, l := range w.live {
			p.Triggers[i] = l.Head
		}
	}
	w.pub, w.err = p, nil
	close(w.ch)
	w.ch = make(chan struct{})
	w.mu.Unlock()
	lag := time.Duration(0)
	if p.Behind != 0 {
		lag = w.opt.Now().Sub(time.UnixMilli(p.Behind))
	}
	w.lags.observe(w, lag, p.Lag)
}

// settled returns the instant up to which all deadlines of a topic's triggers have passed. at is
// the instant up to which all events were read.
func (w *worker) settled(topic record.ID, at int64) int64 {
	for _, l := range w.served(topic) {
		if at = min(at, l.firstDue()-1); !l.startChecked {
			at = min(at, l.At)
		}
	}
	return at
}

// setOpen notes that the file is open. Its contents count from the next publish.
func (e *Follower) setOpen() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken, e.new = nil, false
}

// setErr sets the reason why no file is open.
func (e *Follower) setErr(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.broken, e.new = err, nil, false
	if err != nil {
		e.pub = Progress{}
	}
	close(e.ch)
	e.ch = make(chan struct{})
}

// setIdle notes that no trigger was ever created.
func (e *Follower) setIdle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.new = nil, true
}

// brokenErr returns the error that a query found in the file.
func (e *Follower) brokenErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

// Peek returns the last published state, and a channel that closes when there is a newer one.
func (e *Follower) Peek() (p Progress, newer <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pub, e.ch, e.err
}

// Wait waits until ok accepts the published state.
func (e *Follower) Wait(ctx context.Context, ok func(p *Progress) bool) error {
	for {
		p, newer, err := e.Peek()
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err == nil && ok(&p) {
			return nil
		}
		if e.park != nil {
			if e.park(ctx); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.loop.Done():
			return ErrClosed
		}
	}
}

// Query calls f with the file. It does not call f while no trigger was ever created, because there
// is no file.
func (e *Follower) Query(f func(q store.Queries) error) error {
	e.fileLock.RLock()
	defer e.fileLock.RUnlock()
	if e.file == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case e.err != nil:
			return e.err
		case e.new:
			return nil
		}
		return ErrUnavailable
	}
	err := f(e.file.Queries)
	if errors.Is(err, localdb.ErrDamaged) {
		e.mu.Lock()
		e.broken = err
		e.mu.Unlock()
		e.loop.Wake()
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// query returns the result of a query for one value.
func query[T any](e *Follower, ask func(q store.Queries) (T, error)) (v T, err error) {
	err = e.Query(func(q store.Queries) (err error) {
		v, err = ask(q)
		return err
	})
	return v, err
}

// Lag returns the number of records of its topics that the engine has not read yet.
func (e *Follower) Lag() int64 {
	p, _, _ := e.Peek()
	return p.Lag
}

const (
	// lagWarn is the lag from which the engine logs a warning, at most once per lagLogEvery.
	lagWarn     = 10 * time.Second
	lagLogEvery = time.Minute
)

// behind returns the append time (ms) up to which all events were applied and all deadlines passed;
// 0: up to the position. Triggers that read the history by themselves do not count. Before the
// first record was read it is the time of the first position.
func (w *worker) behind() (since int64) {
	since = math.MaxInt64
	for i, id := range w.topics {
		if i < 2 {
			continue
		}
		for part, span := range w.pos.Topics[i] {
			if c := w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}]; max(c.Next, span.Start) < span.Next {
				since = min(since, max(c.Clock, w.caughtUp))
			}
		}
		for _, l := range w.served(id) {
			if due := l.firstDue(); due <= w.pos.Complete() {
				since = min(since, max(due, w.caughtUp))
			}
		}
	}
	if since == math.MaxInt64 {
		w.caughtUp = w.pos.Time / 1000
		return 0
	}
	return max(since, 1)
}

// LagTime returns the lag of the triggers: an upper bound on the age of the oldest event or
// deadline that is not applied yet. It grows during a long turn.
func (e *Follower) LagTime() time.Duration {
	p, _, err := e.Peek()
	since := p.Behind
	if busy := e.busy.Load(); since == 0 {
		since = busy
	}
	if err != nil || since == 0 {
		return 0
	}
	return max(0, e.opt.Now().Sub(time.UnixMilli(since)))
}

// lagLog logs that the triggers are behind, and that they have caught up.
type lagLog struct {
	began, logged time.Time
}

// observe checks the current lag.
func (x *lagLog) observe(w *worker, lag time.Duration, records int64) {
	now := w.opt.Now()
	switch {
	case lag < lagWarn/2 && !x.began.IsZero():
		w.opt.Logger.Info("trigger engine caught up", "took", now.Sub(x.began).Round(time.Millisecond))
		*x = lagLog{}
	case lag >= lagWarn && now.Sub(x.logged).Abs() >= lagLogEvery:
		if x.logged = now; x.began.IsZero() {
			x.began = now
		}
		w.opt.Logger.Warn("trigger engine behind; firings are late, none are lost", "lag", lag.Round(time.Millisecond), "records", records)
	}
}

// firings reads the topic of firings, a bounded number of pieces.
func (w *worker) firings(ctx context.Context) (more bool, err error) {
	for range w.opt.Sizes.Pieces {
		if err := w.skipTrimmed(ctx); err != nil {
			return false, err
		}
		p, err := w.readSystem(ctx, 1)
		if p == nil {
			return false, err
		}
		err = w.apply(ctx, p, func(tx *store.Tx) error {
			return w.applyRecords(tx, p)
		})
		p.Release()
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// skipTrimmed moves past records of firings that were trimmed before they were read. Their firings
// are unknown, so the floor rises to the first record that is left.
func (w *worker) skipTrimmed(ctx context.Context) error {
	if len(w.pos.Topics[1]) == 0 {
		return nil
	}
	span := w.pos.Topics[1][0]
	key := store.CursorKey{Topic: w.topics[1]}
	c := w.cursors[key]
	if span.Start <= c.Next {
		return nil
	}
	floor, there, err := w.firstTime(ctx, key.Topic, span)
	if err != nil {
		return err
	}
	if !there {
		floor = w.pos.Time / 1000
	}
	floor++ // a trimmed record may have the same millisecond
	w.opt.Logger.Warn("firings trimmed before they were read; older unknown firings are left out",
		"offset", c.Next, "start", span.Start, "before_ms", floor)
	if err := w.f.SetFloor(ctx, max(floor, w.f.Floor())); err != nil {
		return err
	}
	c.Next = span.Start
	err = w.f.Update(ctx, func(tx *store.Tx) error { return tx.PutCursor(key, c) })
	if err == nil {
		w.cursors[key] = c
	}
	return err
}

// firingRecord is a parsed record of the topic of firings.
type firingRecord struct {
	rule.Record
	id rule.ID
	at int64 // append time (ms)
}

// applyRecords applies a piece of the topic of firings.
func (w *worker) applyRecords(tx *store.Tx, p *piece) error {
	var some []firingRecord
	var ids []rule.ID
	apply := func() error {
		if err := tx.HoldFirings(ids); err != nil {
			return err
		}
		for i := range some {
			if err := w.applyRecord(tx, &some[i]); err != nil {
				return err
			}
		}
		some, ids = some[:0], ids[:0]
		return nil
	}
	err := w.each(p, func(r *record.Record, stamped bool) error {
		rec, id, err := rule.ParseRecord(r.Value)
		if err == nil && (!stamped || rec.At > r.Timestamp) {
			err = fmt.Errorf("%w: at: %d is after its append time %d", rule.ErrRecord, rec.At, r.Timestamp)
		}
		switch {
		case err != nil:
			w.met.skipped.Inc()
			w.opt.Logger.Warn("invalid firing record skipped", "offset", r.Offset, "err", err)
		case rec.Kind != rule.Tick:
			some, ids = append(some, firingRecord{rec, id, r.Timestamp}), append(ids, id)
		}
		if len(some) < store.HeldMax {
			return nil
		}
		return apply()
	})
	if err != nil {
		return err
	}
	return apply()
}

// applyRecord applies a record of the topic of firings.
func (w *worker) applyRecord(tx *store.Tx, rec *firingRecord) error {
	x, err := tx.Firing(rec.id)
	if err != nil {
		return err
	}
	if rec.Kind == rule.FiredRecord {
		return w.applyFired(tx, x, rec)
	}
	if x == nil || x.Recorded == 0 || !x.Follow(&rec.Record, rec.at) {
		return nil
	}
	if rec.Kind == rule.Retract {
		if err := tx.DeleteRetraction(x.ID); err != nil {
			return err
		}
	}
	x.Changed = rec.at
	return tx.UpdateFiring(x)
}

// applyFired applies the record of a firing. x is the known firing with its ID, or nil.
func (w *worker) applyFired(tx *store.Tx, x *store.Firing, rec *firingRecord) error {
	if x != nil && x.Recorded != 0 {
		return nil // the first record counts
	}
	if x == nil {
		if gone, err := w.erased(tx, &entityKey{rec.Topic, rec.Partition, rec.Entity}, rec.Cause, rec.At); err != nil || gone {
			return err
		}
		x = &store.Firing{
			ID: rec.id, Trigger: rec.Trigger, Entity: rec.Entity, Version: rec.Version, Topic: rec.Topic, Partition: rec.Partition,
			At: rec.At, Cause: rec.Cause, Witness: rec.Witness,
		}
		if _, err := tx.AddFiring(x); err != nil {
			return err
		}
	}
	x.Recorded, x.State, x.NextTry = rec.at, rec.State, 0
	if x.State == rule.Pending {
		x.NextTry = rec.at
		if l := w.find(x.Trigger); l != nil && rec.at <= l.Created { // of a deleted trigger
			x.State, x.NextTry = rule.Cancelled, 0
		}
	}
	w.met.recorded.Inc()
	return tx.UpdateFiring(x)
}

// entityKey is an entity in a partition of a topic of events.
type entityKey struct {
	topic     string
	partition uint32
	entity    string
}

// erased reports whether an entity was erased after a cause at an instant (ms).
func (w *worker) erased(tx *store.Tx, p *entityKey, cause string, happened int64) (bool, error) {
	t, ok := w.opt.Log.Topic(p.topic)
	if !ok {
		return false, nil
	}
	x, ok, err := tx.Erased(rule.Hash(t.ID, p.partition, p.entity, ""))
	return ok && rule.Before(cause, happened, rule.Mark{Offset: x.Offset, At: x.Time}), err
}
