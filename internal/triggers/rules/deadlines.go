package rules

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// allDeadlines passes some of the deadlines that are complete.
func (w *worker) allDeadlines(ctx context.Context) (more bool, err error) {
	for topic, at := range w.complete {
		again, err := w.topicDeadlines(ctx, w.dueGroups(topic, at), w.served(topic), at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	again, err := w.lateDeadlines(ctx)
	return more || again, err
}

// dueGroups returns the groups of the triggers of a topic with rows that may be due at an instant.
func (w *worker) dueGroups(topic record.ID, at int64) (list []*group) {
	for _, l := range w.live {
		if l.group.due <= at && l.Events == topic && !slices.Contains(list, l.group) {
			list = append(list, l.group)
		}
	}
	return list
}

// topicDeadlines passes the deadlines of groups and triggers of one topic. A costly trigger comes
// after the others, in a transaction of its own, so that the others do not wait for it.
func (w *worker) topicDeadlines(ctx context.Context, groups []*group, lives []*live, at int64) (more bool, err error) {
	w.left = w.opt.Sizes.Work
	p := deadlinePass{worker: w, cut: at}
	if len(lives) > 0 {
		p.topic = lives[0].Events
	}
	for _, g := range groups {
		p.from = append(p.from, source{g.no, &g.due})
	}
	for k := range lives {
		if l := lives[w.rotated(k, len(lives))]; !w.costly(l) {
			p.from = append(p.from, source{-l.No, &l.due})
		}
	}
	if more, err = p.run(ctx); err != nil {
		return false, err
	}
	w.left = w.opt.Sizes.Work // the costly triggers share the work of one step
	for k := range lives {
		l := lives[w.rotated(k, len(lives))]
		switch {
		case !w.costly(l) || l.due > at:
		case w.left <= 0:
			more = true
		default:
			p := deadlinePass{worker: w, cut: at, from: []source{{-l.No, &l.due}}}
			again, err := p.run(ctx)
			if err != nil {
				return false, err
			}
			more = more || again
		}
	}
	w.left = w.opt.Sizes.Work
	for k := range lives {
		l := lives[w.rotated(k, len(lives))]
		if l.startChecked || at <= l.At {
			continue
		}
		if w.left <= 0 {
			return true, nil
		}
		again, err := w.checkStart(ctx, l, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// source is a group of rows, with the time before which none is due.
type source struct {
	group int64
	due   *int64
}

// dueTransition is a transition at a deadline.
type dueTransition struct {
	live       *live
	place      place
	due        int64 // of the row before
	transition rule.Transition
}

// deadlinePass passes deadlines up to an instant, in one transaction.
type deadlinePass struct {
	*worker
	topic record.ID // in shared rows, the deadlines of the triggers pass that the main reader serves for it
	from  []source
	cut   int64

	tx          *store.Tx
	transitions []dueTransition
	nos         []int64 // reused
}

// run passes the deadlines of the sources.
func (p *deadlinePass) run(ctx context.Context) (more bool, err error) {
	from := slices.DeleteFunc(p.from, func(s source) bool { return *s.due > p.cut })
	if len(from) == 0 {
		return false, nil
	}
	slices.SortStableFunc(from, func(a, b source) int { return cmp.Compare(*a.due, *b.due) })
	err = p.f.Update(ctx, func(tx *store.Tx) error {
		p.tx = tx
		var rows []store.Due
		n, at := 0, p.cut
		for ; n < len(from); n++ {
			left := p.opt.Sizes.Dues - len(rows)
			if left == 0 { // the remaining sources have nothing due before that of from[n]
				p.cut, more = min(p.cut, *from[n].due), true
				break
			}
			before := len(rows)
			if rows, err = tx.Due(rows, from[n].group, at, left); err != nil {
				return err
			}
			if len(rows)-before == left { // it may have more: limit the others too
				p.cut, more = min(p.cut, rows[len(rows)-1].At), true
			}
		}
		done, err := p.passRows(rows)
		if err != nil {
			return err
		}
		more = more || !done
		for _, s := range from[:n] {
			if *s.due, err = tx.FirstDue(s.group); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}

// duesRead is the number of rows of one read, because a row may be large.
const duesRead = 32

// passRows passes the deadlines of rows as far as memory allows, earliest first.
func (p *deadlinePass) passRows(rows []store.Due) (all bool, err error) {
	sorting.Stable(rows, func(a, b store.Due) int { return cmp.Compare(a.At, b.At) })
	all = true
	keys := make([]store.InstKey, 0, duesRead)
	for i := range rows {
		if rows[i].At > p.cut {
			break
		}
		if i > 0 && p.full() {
			all = false
			break
		}
		if i%duesRead == 0 {
			keys = keys[:0]
			for _, d := range rows[i:min(i+duesRead, len(rows))] {
				keys = append(keys, d.Key)
			}
			if err := p.rows.fetch(p.tx, keys); err != nil {
				return false, err
			}
		}
		if err := p.passRow(rows[i].Key); err != nil {
			return false, err
		}
	}
	return all, p.end()
}

// full reports whether the transaction takes no more rows.
func (p *deadlinePass) full() bool { return p.rows.bytes > p.rows.limit || p.left <= 0 }

// passRow passes the deadlines of a row that is due.
func (p *deadlinePass) passRow(k store.InstKey) error {
	x, err := p.rows.get(p.tx, k)
	if err != nil {
		return err
	}
	p.nos = p.nos[:0]
	for i := range x.entries {
		if e := &x.entries[i]; e.row.Due != 0 && e.row.Due <= p.cut {
			p.nos = append(p.nos, e.no)
		}
	}
	at := place{k.Entity, k.Partition}
	for _, no := range p.nos {
		l := p.byNo[no]
		switch {
		case l == nil: // flush leaves it out
		case k.Group < 0, !p.costly(l) && l.status == store.Joined && l.Events == p.topic:
			err = p.pass(l, at)
		default: // its deadlines pass at another time
			i, _ := x.find(no)
			row := x.entries[i].row
			err = p.putRow(p.tx, l, at, &row, true)
		}
		if err != nil {
			return err
		}
	}
	p.rows.touch(k, x)
	return nil
}

// pass passes the deadlines of an entity for one trigger.
func (p *deadlinePass) pass(l *live, at place) error {
	row, _, err := p.row(p.tx, l, at)
	if err != nil {
		return err
	}
	r, err := p.rule(p.tx, l)
	if err != nil {
		return err
	}
	due, s := row.Due, p.instanceOf(at, row)
	if err := r.Until(s, p.cut); err != nil {
		return err
	}
	p.met.deadlines.Inc()
	p.spend(l, r, s.Row)
	for _, e := range s.Transitions {
		p.transitions = append(p.transitions, dueTransition{l, at, due, e})
	}
	return p.setRow(p.tx, l, at, s.Row)
}

// end applies the transitions in the order of time, trigger and entity, and writes the rows.
func (p *deadlinePass) end() error {
	sorting.Stable(p.transitions, func(a, b dueTransition) int {
		return cmp.Or(cmp.Compare(a.transition.At, b.transition.At), cmp.Compare(a.live.ID, b.live.ID),
			cmp.Compare(a.place.entity, b.place.entity), cmp.Compare(a.due, b.due), cmp.Compare(a.place.partition, b.place.partition))
	})
	for some := range slices.Chunk(p.transitions, store.HeldMax) {
		ids := make([]rule.ID, len(some))
		for i := range some {
			ids[i] = some[i].transition.ID
		}
		if err := p.tx.HoldFirings(ids); err != nil {
			return err
		}
		for i := range some {
			if err := p.applyTransition(p.tx, some[i].live, some[i].place, &some[i].transition); err != nil {
				return err
			}
		}
	}
	return p.flush(p.tx)
}

// startRows bounds the rows of one scan, because a row may be large.
const startRows = 100

// checkStart evaluates some of the rows of a trigger with backfill `current`, which also fires for
// entities that were true at its creation: those of its own, and then those of its group.
func (w *worker) checkStart(ctx context.Context, l *live, at int64) (more bool, err error) {
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		l.scanned.Group = cmp.Or(l.scanned.Group, -l.No)
		keys, rows, err := tx.Scan(l.scanned, startRows)
		if err != nil {
			return err
		}
		p := deadlinePass{worker: w, tx: tx, cut: at}
		for i := range keys {
			row, there, err := entryOf(&rows[i], l.No)
			if err != nil {
				return err
			}
			if !there || row.Flags&(rule.StartChecked|rule.Completed) != 0 {
				continue
			}
			if i > 0 && p.full() { // the next scan leaves out the rows that are done
				return p.end()
			}
			if err := p.pass(l, place{keys[i].Entity, keys[i].Partition}); err != nil {
				return err
			}
		}
		switch {
		case len(keys) == startRows:
			l.scanned = keys[len(keys)-1]
		case l.scanned.Group < 0 && l.shared:
			l.scanned = store.InstKey{Group: l.Group}
		default:
			l.startChecked = true
		}
		return p.end()
	})
	return !l.startChecked, err
}

// pruneEvery is the interval at which pruning starts again with the first firing, because more
// firings may be prunable.
const pruneEvery = int64(24 * time.Hour / time.Millisecond)

// pruneNewest bounds the search for a firing that stands for the earlier ones of its entity.
const pruneNewest = 100

// pruning is the progress of pruning firings whose records were trimmed.
type pruning struct {
	start int64 // start offset of the topic of firings
	since int64 // time (ms) of its first record then
	after int64 // Seq of the last examined firing
	began int64 // log time (ms) of the last start with the first firing
	done  bool
}

// prune deletes firings whose records were trimmed, and which no decision needs. Its caller has
// read and applied everything, so only a later version could compute such a firing again.
func (w *worker) prune(ctx context.Context) (more bool, err error) {
	spans, x := w.pos.Topics[1], &w.pruning
	if len(spans) == 0 || spans[0].Start == 0 {
		return false, nil
	}
	now := w.pos.Time / 1000
	if spans[0].Start != x.start {
		since, ok, err := w.firstTime(ctx, w.topics[1], spans[0])
		if err != nil || !ok {
			return false, err
		}
		if since > w.f.Floor() { // before the deletion, in case of a crash
			if err := w.f.SetFloor(ctx, since); err != nil {
				return false, err
			}
		}
		x.start, x.since, x.done = spans[0].Start, since, false
	}
	if now >= x.began+pruneEvery {
		x.began, x.after, x.done = now, 0, false
	}
	if x.done {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error { return w.pruneSome(tx) })
	return !x.done, err
}

// firstTime returns the time (ms) of the first record of a span of partition 0; ok is false if
// there is none.
func (w *worker) firstTime(ctx context.Context, topic record.ID, span views.Span) (at int64, ok bool, err error) {
	if span.Start >= span.Next {
		return 0, false, nil
	}
	p, err := w.readAt(ctx, store.CursorKey{Topic: topic}, span)
	if p == nil {
		return 0, false, err
	}
	defer p.Release()
	err = w.eachFrom(p, span.Start, func(r *record.Record, _ bool) error {
		if !ok {
			at, ok = r.Timestamp, true
		}
		return nil
	})
	return at, ok, err
}

// pair is a trigger, by its ID, and an entity.
type pair struct{ trigger, entity string }

// pruneSome examines a page of firings, and the earlier ones of the same entities.
func (w *worker) pruneSome(tx *store.Tx) error {
	list, err := tx.Firings(w.pruning.after, w.opt.Sizes.Prune)
	if err != nil {
		return err
	}
	w.pruning.done = len(list) < w.opt.Sizes.Prune
	to, pairs := w.pruning.after, map[pair]bool{}
	for i := range list {
		if list[i].Recorded >= w.pruning.since { // the rest is newer, but for a few
			w.pruning.done = true
			break
		}
		to, pairs[pair{list[i].Trigger, list[i].Entity}] = list[i].Seq, true
	}
	for k := range pairs {
		if err := w.prunePair(tx, k, to); err != nil {
			return err
		}
	}
	w.pruning.after = to
	return nil
}

// prunePair deletes firings of an entity up to a Seq.
func (w *worker) prunePair(tx *store.Tx, k pair, to int64) error {
	newest, err := tx.NewestFirings(k.entity, k.trigger, pruneNewest)
	if err != nil || len(newest) == 1 && newest[0].Recorded != 0 && w.find(k.trigger) != nil {
		return err
	}
	later := false // a later record shows that the trigger has fired
	for i := range newest {
		later = later || newest[i].Seq > to && newest[i].Recorded != 0
	}
	last, err := tx.LastFiring(k.trigger)
	if err != nil {
		return err
	}
	for {
		list, err := tx.FiringsUpTo(k.entity, k.trigger, to, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			x := &list[i]
			if to = x.Seq - 1; x.State == rule.Computed || x.State == rule.Carried && x.Recorded == 0 {
				return nil // it is not recorded yet, and its outcome depends on the earlier ones
			}
			drop := x.Seq != last // version numbers continue after the last firing
			if drop {
				drop, err = w.useless(tx, x, later)
			}
			if err != nil {
				return err
			}
			if !drop {
				later = later || x.Recorded != 0
				continue
			}
			w.met.pruned.Inc()
			if err := tx.DeleteFiring(x.ID); err != nil {
				return err
			}
		}
	}
}

// useless reports whether no decision depends on a firing. later: a later record shows that its
// trigger has fired for the entity, which matters to a version that fires once.
func (w *worker) useless(tx *store.Tx, x *store.Firing, later bool) (bool, error) {
	l := w.find(x.Trigger)
	last := max(x.Recorded, x.Changed, x.At)
	if x.Recorded == 0 && l != nil && l.Version == x.Version {
		last = max(last, l.At) // the time since which it is known
	}
	switch {
	case x.State == rule.Pending, last >= w.pruning.since:
		return false, nil
	case l == nil:
	case x.Recorded != 0 && !later: // the last firing may also be retracted
		return false, nil
	case w.opt.CapSpan != nil && last >= w.pos.Time/1000-l.capSpan.Milliseconds():
		return false, nil
	}
	pending, err := tx.InOutbox(x)
	return !pending, err
}
