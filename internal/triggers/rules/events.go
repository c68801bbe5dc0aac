package rules

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// mainEvents reads a piece of each partition for the triggers that have caught up, and computes the
// complete instants.
func (w *worker) mainEvents(ctx context.Context) (more bool, err error) {
	n := len(w.topics) - 2
	for k := range n {
		i := 2 + w.rotated(k, n)
		id, spans := w.topics[i], w.pos.Topics[i]
		if len(spans) == 0 {
			if w.authoritative { // a deleted topic gets no more events, and time passes
				w.complete[id] = max(w.complete[id], w.pos.Complete())
			}
			continue
		}
		lives, behind := w.served(id), false
		for _, l := range lives {
			l.spent = 0
		}
		at := w.pos.CompleteIn(i) // bounded by unread records
		for j := range spans {
			part := w.rotated(j, len(spans))
			key, span := store.CursorKey{Topic: id, Partition: uint32(part)}, spans[part]
			blocked := false
			if w.left > 0 {
				if blocked, err = w.tryEvents(ctx, key, span, lives); err != nil {
					return false, err
				}
			}
			if c := w.cursors[key]; max(c.Next, span.Start) < span.Next {
				behind, more = true, more || !blocked
				at = min(at, c.Clock-1, w.untilReset(c.Clock))
			}
		}
		w.complete[id] = max(w.complete[id], at)
		if behind && w.left <= 0 {
			if err := w.makeLate(ctx, id, lives); err != nil {
				return false, err
			}
		}
	}
	return more, nil
}

// untilReset bounds the complete instants of a partition with unread records that was read up to a
// time. There is no bound while all unread records are newer. But a time ahead of the log's means
// that an operator has reset the log's time: no instant completes before all is read.
func (w *worker) untilReset(clock int64) int64 {
	if clock > w.pos.Time/1000 {
		return math.MinInt64
	}
	return math.MaxInt64
}

// served returns the triggers of a topic that the main reader serves.
func (w *worker) served(topic record.ID) (list []*live) {
	for _, l := range w.live {
		if l.Events == topic && l.status == store.Joined {
			list = append(list, l)
		}
	}
	return list
}

// histories reads a piece of each partition for each trigger that has not caught up with the main
// reader.
func (w *worker) histories(ctx context.Context) (more bool, err error) {
	var behind []*live
	for _, l := range w.live {
		if l.status == store.Behind {
			behind = append(behind, l)
		}
	}
	for k := range behind {
		if w.left <= 0 {
			return true, nil
		}
		again, err := w.history(ctx, behind[w.rotated(k, len(behind))])
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// history reads past events for one trigger until it catches up with the main reader.
func (w *worker) history(ctx context.Context, l *live) (more bool, err error) {
	i := 2 + slices.Index(w.topics[2:], l.Events)
	if i < 2 || len(w.pos.Topics[i]) == 0 && !w.authoritative {
		return false, nil
	}
	behind, spans := false, w.pos.Topics[i]
	for j := range spans {
		part := w.rotated(j, len(spans))
		key, span := store.CursorKey{Reader: l.No, Topic: l.Events, Partition: uint32(part)}, spans[part]
		end := span.Next
		span.Next = max(w.cursors[store.CursorKey{Topic: l.Events, Partition: uint32(part)}].Next, span.Start)
		blocked := false
		if w.left > 0 {
			if blocked, err = w.tryEvents(ctx, key, span, []*live{l}); err != nil {
				return false, err
			}
		}
		left := max(w.cursors[key].Next, span.Start) < span.Next
		behind, more = behind || left || l.Late && span.Next < end, more || left && !blocked // else late again
	}
	if behind {
		return more, nil
	}
	return true, w.join(ctx, l) // the main reader passes its deadlines
}

// join hands a trigger that has caught up to the main reader.
func (w *worker) join(ctx context.Context, l *live) (err error) {
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		if err := tx.DropReader(l.No); err != nil {
			return err
		}
		return tx.SetStatus(l.No, store.Joined)
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(w.cursors, func(k store.CursorKey, _ store.Cursor) bool { return k.Reader == l.No })
	l.status = store.Joined
	w.held -= l.cursors
	w.changeHead(l, func(h *Head) { h.Backfilling, h.Late = false, false })
	if l.due, err = w.f.FirstDue(ctx, -l.No); err != nil {
		return err
	}
	w.serve(l)
	return nil
}

// eventPass is a transaction over a piece of events, or over as many of its first ones as memory
// allows.
type eventPass struct {
	*worker
	tx    *store.Tx
	p     *piece
	lives []*live
	index map[string][]*live

	parsed []parsedRecord
	wanted map[int64][]store.InstKey // by group
	bytes  int64                     // estimated bytes of the rows of wanted
	work   int                       // estimated work of the records of parsed
}

// seenChunk bounds the event IDs that one transaction forgets.
const seenChunk = 1000

// errLimit: a transaction takes no more events.
var errLimit = errors.New("transaction is full")

// events applies the events after a cursor to triggers.
func (w *worker) events(ctx context.Context, key store.CursorKey, span views.Span, lives []*live) error {
	p, err := w.next(ctx, key, span)
	if p == nil {
		return err
	}
	defer p.Release()
	index := w.index[key.Topic]
	if key.Reader != store.Main {
		index = map[string][]*live{}
		for _, name := range lives[0].Names {
			index[name] = lives
		}
	}
	for {
		some := *p
		some.cursor.Clock = w.cursors[key].Clock
		r := &eventPass{worker: w, p: &some, lives: lives, index: index, wanted: map[int64][]store.InstKey{}}
		if err := w.apply(ctx, &some, r.apply); err != nil || some.cursor.Next == p.cursor.Next || w.left <= 0 {
			return err
		}
	}
}

// apply is the body of the transaction.
func (r *eventPass) apply(tx *store.Tx) error {
	r.tx = tx
	if err := r.each(r.p, r.parse); err != nil && !errors.Is(err, errLimit) {
		return err
	}
	for _, keys := range r.wanted {
		if err := r.rows.fetch(r.tx, keys); err != nil {
			return err
		}
	}
	for i := range r.parsed {
		if i > 0 && (r.rows.bytes > r.rows.limit || r.left <= 0) { // above the estimate
			r.end(r.parsed[i].offset)
			break
		}
		if err := r.record(&r.parsed[i]); err != nil {
			return err
		}
	}
	reader := r.p.key.Reader
	if err := tx.PruneSeen(reader, r.reached(reader, r.p)-rule.Horizon, seenChunk); err != nil {
		return err
	}
	return r.flush(tx)
}

// end ends the piece before an offset.
func (r *eventPass) end(offset int64) {
	c := &r.p.cursor
	c.Next, c.Origin = offset, r.opt.Log.Origin(r.p.key.Topic, r.p.key.Partition, offset-1)
}

// reached returns the time (ms) that a reader has reached with a piece, over all its partitions. A
// partition that was read to its end has no older records. The end is that of the log, because a
// reader of one trigger stops where the main reader is: its next records may be much older than
// those of other partitions.
func (w *worker) reached(reader int64, p *piece) int64 {
	at := p.cursor.Clock
	for i, id := range w.topics {
		if i < 2 || reader != store.Main && id != p.key.Topic {
			continue
		}
		for part, span := range w.pos.Topics[i] {
			key := store.CursorKey{Reader: reader, Topic: id, Partition: uint32(part)}
			if c := w.cursors[key]; key != p.key && max(c.Next, span.Start) < span.Next {
				at = min(at, c.Clock)
			}
		}
	}
	return at
}

// parsedRecord is a parsed record.
type parsedRecord struct {
	rule.Event
	offset, time int64
	erases       bool // the record erases EntityID
	skip         bool // the record is not an event
	unstamped    bool // it is older than the append times of its topic
}

// parse parses a record, and notes the rows that it will need.
func (r *eventPass) parse(rec *record.Record, stamped bool) error {
	if r.bytes > r.rows.limit/4 || r.work > r.left {
		r.end(rec.Offset)
		return errLimit
	}
	r.work += recordWork
	p := parsedRecord{offset: rec.Offset, time: rec.Timestamp, unstamped: !stamped}
	if p.unstamped {
	} else if rec.Value == nil {
		p.erases, p.EntityID = true, string(rec.Key)
	} else if e, err := rule.ParseEvent(rec.Key, rec.Value); err != nil {
		p.skip = true
	} else {
		p.Event = e
		for _, l := range r.index[e.Name] {
			r.want(l, e.EntityID)
			r.work += l.avgWork
		}
	}
	r.parsed = append(r.parsed, p)
	return nil
}

// want notes the rows of an entity that a trigger needs.
func (r *eventPass) want(l *live, entity string) {
	p := place{entity, r.p.key.Partition}
	if l.alone {
		r.wanted[-l.No] = append(r.wanted[-l.No], p.in(-l.No))
		r.bytes += rowBytes + entryBytes + int64(len(entity))
	}
	some := r.wanted[l.Group]
	if n := len(some); l.shared && (n == 0 || some[n-1].Entity != entity) { // else for another trigger
		r.wanted[l.Group] = append(some, p.in(l.Group))
		r.bytes += rowBytes + entryBytes*int64(l.group.members) + int64(len(entity))
	}
}

// record applies one record.
func (r *eventPass) record(p *parsedRecord) error {
	r.met.events.Inc()
	r.left -= recordWork
	if p.unstamped {
		r.met.unstamped.Inc()
		return nil
	}
	c := &r.p.cursor
	c.Clock = p.time // decreases only after a reset of the log's time
	if p.erases {
		return r.erase(p.EntityID, p.offset)
	}
	if p.skip {
		r.met.skipped.Inc()
		return nil
	}
	e := &p.Event
	if e.ID != "" {
		h := rule.Hash(r.p.key.Topic, r.p.key.Partition, e.EntityID, e.ID)
		fresh, err := r.tx.MarkSeen(r.p.key.Reader, h, store.SeenEvent{Time: c.Clock, Offset: p.offset}, c.Clock-rule.Horizon)
		if err != nil {
			return err
		}
		if !fresh {
			r.met.duplicates.Inc()
			return nil
		}
	}
	if err := r.rememberName(r.tx, r.p.key.Topic, e.Name); err != nil {
		return err
	}
	return r.event(e, p.offset)
}

// event applies an event to the triggers that mention it.
func (r *eventPass) event(e *rule.Event, offset int64) error {
	for _, l := range r.index[e.Name] {
		ready, err := r.rule(r.tx, l)
		if err != nil {
			return err
		}
		kinds := ready.Match(e)
		if kinds == 0 {
			continue
		}
		p := place{e.EntityID, r.p.key.Partition}
		row, _, err := r.row(r.tx, l, p)
		if err != nil {
			return err
		}
		if row.Flags&rule.Completed != 0 {
			continue
		}
		lossy := row.Flags & rule.Degraded
		s := r.instanceOf(p, row)
		if err := ready.Event(s, kinds, r.p.cursor.Clock, offset); err != nil {
			return err
		}
		r.met.steps.Inc()
		r.spend(l, ready, s.Row)
		if s.Row.Flags&rule.Degraded > lossy {
			r.met.degraded.Inc()
		}
		if err := r.setRow(r.tx, l, p, s.Row); err != nil {
			return err
		}
		for i := range s.Transitions {
			if err := r.applyTransition(r.tx, l, p, &s.Transitions[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// instanceOf returns the instance of a row. The next call overwrites it.
func (w *worker) instanceOf(p place, row rule.Row) *rule.Instance {
	w.instRow = row
	w.inst = rule.Instance{Entity: p.entity, Partition: p.partition, Row: &w.instRow, Transitions: w.inst.Transitions[:0]}
	return &w.inst
}

// applyTransition stores a firing, which is then in the outbox, or the retraction of one.
func (w *worker) applyTransition(tx *store.Tx, l *live, p place, e *rule.Transition) error {
	if e.Retracts {
		return w.applyRetraction(tx, e)
	}
	x := &store.Firing{
		ID: e.ID, Trigger: l.ID, Entity: p.entity, Version: l.Version, Topic: l.Topic, Partition: p.partition,
		At: e.At, Cause: e.Cause, Witness: e.Witness, State: e.State,
	}
	if floor := w.f.Floor(); e.At < floor && l.At < floor && x.State != rule.Historic { // not trimmed
		x.State = rule.Forgotten
	}
	added, err := tx.AddFiring(x)
	if err != nil || !added { // already recorded
		return err
	}
	if x.State == rule.Historic || x.State == rule.Forgotten {
		return nil
	}
	w.met.fired.Inc()
	w.outboxPending = true
	return nil
}

// applyRetraction adds the retraction of a firing to the outbox.
func (w *worker) applyRetraction(tx *store.Tx, e *rule.Transition) error {
	x, err := tx.Firing(e.ID)
	if err != nil || x == nil || x.RetractedAt != 0 {
		return err
	}
	switch x.State {
	case rule.Computed, rule.Pending, rule.Delivered, rule.Dead:
		w.met.retracted.Inc()
		w.outboxPending = true
		return tx.PutRetraction(e.ID, e.At, e.Cause)
	}
	return nil
}

// erase applies a record that erases an entity: its rows and its firings.
func (r *eventPass) erase(entity string, offset int64) error {
	p := place{entity, r.p.key.Partition}
	for _, l := range r.lives {
		_, there, err := r.row(r.tx, l, p)
		if err == nil && there {
			err = r.setRow(r.tx, l, p, &rule.Row{})
		}
		if err != nil {
			return err
		}
	}
	if r.p.key.Reader == store.Main {
		h := rule.Hash(r.p.key.Topic, p.partition, entity, "")
		if err := r.tx.Erase(h, store.Erasure{Offset: offset, Time: r.p.cursor.Clock}); err != nil {
			return err
		}
	}
	return r.eraseFirings(p, offset)
}

// eraseFirings deletes the firings of an entity before an offset.
func (r *eventPass) eraseFirings(p place, offset int64) error {
	for after := int64(0); ; {
		list, err := r.tx.EntityFirings(p.entity, "", after, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			x := &list[i]
			after = x.Seq
			if !r.ofTopic(x) || x.Partition != p.partition || !rule.Before(x.Cause, x.At, rule.Mark{Offset: offset, At: r.p.cursor.Clock}) {
				continue
			}
			if err := r.tx.DeleteFiring(x.ID); err != nil {
				return err
			}
		}
	}
}

// ofTopic reports whether a firing, by any version of its trigger, comes from the topic that is
// read.
func (r *eventPass) ofTopic(x *store.Firing) bool {
	if r.p.key.Reader != store.Main {
		return x.Trigger == r.lives[0].ID
	}
	t, ok := r.opt.Log.Topic(x.Topic)
	return ok && t.ID == r.p.key.Topic
}
