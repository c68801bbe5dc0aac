package fold

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/triggers/entry"
	"github.com/sebbroker/seb/internal/triggers/rule"
	"github.com/sebbroker/seb/internal/triggers/store"
	"github.com/sebbroker/seb/record"
)

// newLive makes a trigger of the file ready.
func newLive(g store.Trigger) (*live, error) {
	d, err := rule.ParseDefinition([]byte(g.ID), g.Def)
	if err != nil {
		return nil, err
	}
	r, err := rule.Compile(d)
	if err != nil {
		return nil, err
	}
	l := &live{trig: g, rule: r, due: math.MaxInt64}
	l.crossed = d.Backfill != rule.Current
	if l.topic, err = record.ParseID(d.TopicID); err != nil {
		return nil, fmt.Errorf("topic_id: %w", err)
	}
	return l, nil
}

// resolved is the value of a definition's record with its border resolved.
func resolved(r *record.Record, stamped bool) ([]byte, error) {
	value := slices.Clone(r.Value)
	d, err := rule.ParseDefinition(r.Key, value)
	if err != nil || d.Border == rule.BorderGiven {
		return value, err
	}
	if stamped && !bug(bugBorder) {
		d.Appended(r.Timestamp)
	}
	d.Border = rule.BorderGiven
	return d.Encode()
}

// addLive puts a trigger on the list.
func (w *worker) addLive(l *live) {
	w.live = append(w.live, l)
	slices.SortFunc(w.live, func(a, b *live) int { return cmp.Compare(a.trig.ID, b.trig.ID) })
	w.byNo[l.trig.No] = l
	w.listed = false
	w.reindex()
}

func (w *worker) dropLive(l *live) {
	w.live = slices.DeleteFunc(w.live, func(x *live) bool { return x == l })
	delete(w.byNo, l.trig.No)
	w.listed = false
	w.reindex()
}

// reindex notes which triggers the main reader serves, by the names of events that they mention.
func (w *worker) reindex() {
	w.index = map[record.ID]map[string][]*live{}
	for _, l := range w.live {
		if l.trig.Status != store.Joined {
			continue
		}
		if w.index[l.topic] == nil {
			w.index[l.topic] = map[string][]*live{}
		}
		for _, name := range l.rule.Names() {
			w.index[l.topic][name] = append(w.index[l.topic][name], l)
		}
	}
}

func (w *worker) find(id string) *live {
	i, ok := slices.BinarySearchFunc(w.live, id, func(l *live, id string) int { return cmp.Compare(l.trig.ID, id) })
	if !ok {
		return nil
	}
	return w.live[i]
}

// definitions follows the topic of definitions to its end.
func (w *worker) definitions(ctx context.Context) (more bool, err error) {
	for {
		p, err := w.system(ctx, 0)
		if p == nil {
			return more, err
		}
		more = true                                                      // the position has no topics that were not known
		err = w.each(p, func(*record.Record, bool) error { return nil }) // what comes of the first can not be undone in memory
		if err == nil {
			err = w.apply(ctx, p, func(tx *store.Tx) error {
				return w.each(p, func(r *record.Record, stamped bool) error { return w.define(tx, r, stamped) })
			})
		}
		p.release()
		if err != nil {
			return false, err
		}
	}
}

// system reads a piece of one of the engine's own topics, by its place in w.topics.
func (w *worker) system(ctx context.Context, i int) (*piece, error) {
	spans := w.pos.Topics[i]
	if len(spans) == 0 {
		return nil, nil
	}
	return w.next(ctx, store.CursorKey{Topic: w.topics[i]}, spans[0])
}

// define applies a record of the topic of definitions. stamped is whether its timestamp is its append time.
func (w *worker) define(tx *store.Tx, r *record.Record, stamped bool) error {
	id := string(r.Key)
	old := w.find(id)
	if r.Value == nil {
		if old == nil {
			return nil
		}
		return w.remove(tx, old)
	}
	var l *live
	def, err := resolved(r, stamped)
	if err == nil {
		l, err = newLive(store.Trigger{ID: id, Status: store.Behind, Def: def})
	}
	if err == nil && old != nil && old.rule.Def.Version == l.rule.Def.Version && !old.rule.Def.Evaluated(&l.rule.Def) {
		err = fmt.Errorf("version %d is there already, with another meaning", l.rule.Def.Version)
	}
	if err == nil && old != nil && l.rule.Def.Version < old.rule.Def.Version {
		err = fmt.Errorf("version %d is there already", old.rule.Def.Version)
	}
	if err != nil {
		w.met.skipped.Inc()
		w.opt.Logger.Warn("definition of a trigger is left out", "trigger", id, "offset", r.Offset, "err", err)
		return nil
	}
	d := &l.rule.Def
	if old != nil && old.rule.Def.Version == d.Version { // it may be delivered otherwise, or be paused
		w.listed = false
		old.rule.Def.Status, old.rule.Def.Deliver, old.rule.Def.Text = d.Status, d.Deliver, d.Text
		if old.trig.Def, err = old.rule.Def.Encode(); err != nil {
			return err
		}
		return tx.PutTrigger(&old.trig)
	}
	return w.install(tx, l, old)
}

// install begins to follow a version, and stops following an earlier one.
func (w *worker) install(tx *store.Tx, l, old *live) error {
	d := &l.rule.Def
	if old != nil {
		if err := w.retire(tx, old); err != nil {
			return err
		}
		behind := func(x *store.Fire) bool { return d.Cut().Behind(x.Cause, old.rule.Def.TopicID, x.At) }
		if err := w.dropOut(tx, d.ID, behind); err != nil {
			return err
		}
	} else if err := w.cancel(tx, d.ID, d.Created); err != nil {
		return err
	}
	l.trig.Version = d.Version
	if w.untouched(l.topic) {
		l.trig.Status = store.Joined
	}
	if err := tx.PutTrigger(&l.trig); err != nil {
		return err
	}
	w.addLive(l)
	return nil
}

// untouched is whether the main reader has read nothing of a topic yet.
func (w *worker) untouched(topic record.ID) bool {
	for k, c := range w.cursors {
		if k.Reader == store.Main && k.Topic == topic && c.Next > 0 {
			return false
		}
	}
	return true
}

// retire stops following a trigger. Its rows are swept away later.
func (w *worker) retire(tx *store.Tx, l *live) error {
	l.trig.Status = store.Gone
	if err := tx.PutTrigger(&l.trig); err != nil {
		return err
	}
	if err := tx.DropReader(l.trig.No); err != nil {
		return err
	}
	for k := range w.cursors {
		if k.Reader == l.trig.No {
			delete(w.cursors, k)
		}
	}
	w.dropLive(l)
	w.gone = append(w.gone, l.trig.No)
	return nil
}

// remove deletes a trigger: what was not delivered is not delivered any more.
func (w *worker) remove(tx *store.Tx, l *live) error {
	if err := w.retire(tx, l); err != nil {
		return err
	}
	if err := w.dropOut(tx, l.trig.ID, func(*store.Fire) bool { return true }); err != nil {
		return err
	}
	w.old.began = 0 // its firings are looked at anew
	return w.cancel(tx, l.trig.ID, math.MaxInt64)
}

// chunk is how many rows are read at a time.
const chunk = 1000

// dropOut deletes firings of a trigger that were not recorded yet.
func (w *worker) dropOut(tx *store.Tx, id string, which func(x *store.Fire) bool) error {
	for after := int64(0); ; {
		list, err := tx.TriggerOut(id, after, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if after = list[i].Seq; list[i].Recorded == 0 && which(&list[i]) {
				if err := tx.DropFire(list[i].ID); err != nil {
					return err
				}
			}
		}
	}
}

// cancel gives up what is to be delivered of a trigger, as far as it was recorded before an instant (ms).
func (w *worker) cancel(tx *store.Tx, id string, before int64) error {
	for after := int64(0); ; {
		list, err := tx.TriggerPending(id, after, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			x := &list[i]
			if after = x.Seq; x.Recorded > before {
				continue
			}
			x.State = entry.Cancelled
			if err := tx.SetFire(x); err != nil {
				return err
			}
		}
	}
}
