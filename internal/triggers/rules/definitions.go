package rules

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// resolveDefinition parses a definition, and resolves its border and its offset. value is that of the
// file.
func resolveDefinition(r *record.Record, stamped bool) (d rule.Definition, value []byte, err error) {
	d, err = rule.ParseDefinition(r.Key, r.Value)
	if err != nil {
		return d, nil, err
	}
	if stamped {
		d.ResolveBorder(r.Timestamp)
	}
	d.Border, d.Offset = rule.BorderGiven, r.Offset
	value, err = d.EncodeRow()
	return d, value, err
}

// addLive adds a trigger to those that are followed.
func (w *worker) addLive(l *live) {
	i, _ := w.search(l.ID)
	w.live = slices.Insert(w.live, i, l)
	w.byNo[l.No] = l
	w.held += l.memory()
	w.listed = false
	w.serve(l)
}

func (w *worker) dropLive(l *live) {
	w.live = slices.DeleteFunc(w.live, func(x *live) bool { return x == l })
	delete(w.byNo, l.No)
	w.leaveGroup(l)
	w.rules.drop(l.No)
	w.held -= l.memory()
	w.listed = false
	w.unserve(l)
}

// unserve is the opposite of serve.
func (w *worker) unserve(l *live) {
	if l.status != store.Joined {
		return
	}
	names := w.index[l.Events]
	for _, name := range l.Names {
		if names[name] = slices.DeleteFunc(names[name], func(x *live) bool { return x == l }); len(names[name]) == 0 {
			delete(names, name)
		}
	}
}

// serve adds a trigger that the main reader serves to the index by event name. The triggers of a
// name have the order of w.live, so that they fire in this order.
func (w *worker) serve(l *live) {
	if l.status != store.Joined {
		return
	}
	names := w.index[l.Events]
	if names == nil {
		names = map[string][]*live{}
		w.index[l.Events] = names
	}
	for _, name := range l.Names {
		i, _ := slices.BinarySearchFunc(names[name], l.ID, byID)
		names[name] = slices.Insert(names[name], i, l)
	}
}

func byID(l *live, id string) int { return cmp.Compare(l.ID, id) }

func (w *worker) search(id string) (i int, there bool) {
	return slices.BinarySearchFunc(w.live, id, byID)
}

func (w *worker) find(id string) *live {
	i, ok := w.search(id)
	if !ok {
		return nil
	}
	return w.live[i]
}

// definitions reads the topic of definitions to its end.
func (w *worker) definitions(ctx context.Context) (more bool, err error) {
	for {
		p, err := w.readSystem(ctx, 0)
		if p == nil {
			return more, err
		}
		more = true                                                      // pos lacks new topics
		err = w.each(p, func(*record.Record, bool) error { return nil }) // fail before define
		if err == nil {
			err = w.apply(ctx, p, func(tx *store.Tx) error {
				return w.each(p, func(r *record.Record, stamped bool) error { return w.define(tx, r, stamped) })
			})
		}
		p.Release()
		if err != nil {
			return false, err
		}
	}
}

// readSystem reads a piece of one of the engine's own topics, given as an index of w.topics.
func (w *worker) readSystem(ctx context.Context, i int) (*piece, error) {
	spans := w.pos.Topics[i]
	if len(spans) == 0 {
		return nil, nil
	}
	return w.next(ctx, store.CursorKey{Topic: w.topics[i]}, spans[0])
}

// define applies a record of the topic of definitions. stamped reports whether its timestamp is the
// append time.
func (w *worker) define(tx *store.Tx, r *record.Record, stamped bool) error {
	id := string(r.Key)
	old := w.find(id)
	if r.Value == nil {
		if old == nil {
			return nil
		}
		if err := w.outdated(tx, old.Secrets, secrets.Status{}, r.Offset); err != nil {
			return err
		}
		return w.remove(tx, old)
	}
	var was rule.Definition
	if old != nil {
		var err error
		if was, err = definition(tx, old.No); err != nil {
			return errors.Join(localdb.ErrDamaged, err)
		}
	}
	d, value, err := resolveDefinition(r, stamped)
	if err == nil {
		_, err = record.ParseID(d.TopicID)
	}
	if err == nil {
		_, err = rule.Compile(d)
	}
	if err == nil && old != nil && was.Version == d.Version && !was.SameResults(&d) {
		err = fmt.Errorf("version %d exists with a different definition", d.Version)
	}
	if err == nil && old != nil && d.Version < was.Version {
		err = fmt.Errorf("version %d is older than version %d", d.Version, was.Version)
	}
	if err != nil {
		w.met.skipped.Inc()
		w.opt.Logger.Warn("invalid trigger definition skipped", "trigger", id, "offset", r.Offset, "err", err)
		return nil
	}
	if old != nil && was.Version == d.Version { // only the delivery or the status may differ
		was.Status, was.Deliver, was.Text, was.Offset = d.Status, d.Deliver, d.Text, d.Offset
		g := &store.Trigger{No: old.No, Group: old.Group, ID: id, Version: old.Version, Status: old.status}
		if g.Def, err = was.EncodeRow(); err != nil {
			return err
		}
		before := old.Secrets
		w.changeHead(old, func(h *Head) { w.setDelivery(h, old, g, &was) })
		if err := w.outdated(tx, before, old.Secrets, r.Offset); err != nil {
			return err
		}
		return tx.PutTrigger(g)
	}
	if old != nil {
		if err := w.outdated(tx, old.Secrets, secrets.Inspect(d.Deliver), r.Offset); err != nil {
			return err
		}
		if err := w.replace(tx, old, &was, &d); err != nil {
			return err
		}
	} else if err := w.cancel(tx, id, d.Created); err != nil {
		return err
	}
	return w.install(tx, &d, value)
}

// replace stops following a version because a later one replaces it.
func (w *worker) replace(tx *store.Tx, old *live, was, d *rule.Definition) error {
	if err := w.retire(tx, old); err != nil {
		return err
	}
	if err := w.dropUnrecorded(tx, d.ID, func(x *store.Firing) bool { return d.Cut().After(x.Cause, was.TopicID, x.At) }); err != nil {
		return err
	}
	return w.settleCarried(tx, old)
}

// settleCarried marks the unrecorded firings of a version that are carried, because carry_fired of
// its successor may differ.
func (w *worker) settleCarried(tx *store.Tx, old *live) error {
	for after := int64(0); ; {
		list, err := tx.TriggerOutbox(old.ID, after, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			x := &list[i]
			after = x.Seq
			if x.Recorded != 0 || x.State != rule.Computed || x.Version != old.Version {
				continue
			}
			carried, err := w.carried(tx, old, x)
			if err != nil {
				return err
			}
			if carried {
				x.State = rule.Carried
				if err := tx.UpdateFiring(x); err != nil {
					return err
				}
			}
		}
	}
}

// install starts to follow a version.
func (w *worker) install(tx *store.Tx, d *rule.Definition, value []byte) error {
	g := &store.Trigger{ID: d.ID, Version: d.Version, Group: w.groupFor(d.TopicID, d.Expr.Names()), Status: store.Behind, Def: value}
	if id, err := record.ParseID(d.TopicID); err == nil && w.unread(id) {
		g.Status = store.Joined
	}
	if err := tx.PutTrigger(g); err != nil {
		return err
	}
	l, err := w.newLive(g, d)
	if err == nil {
		w.joinGroup(l, g.Group, d.TopicID)
		w.addLive(l)
	}
	return err
}

// unread reports whether the main reader has read nothing of a topic yet.
func (w *worker) unread(topic record.ID) bool {
	for k, c := range w.cursors {
		if k.Reader == store.Main && k.Topic == topic && c.Next > 0 {
			return false
		}
	}
	return true
}

// retire stops following a trigger. sweep deletes its rows later.
func (w *worker) retire(tx *store.Tx, l *live) error {
	if err := tx.SetStatus(l.No, store.Gone); err != nil {
		return err
	}
	if err := tx.DropReader(l.No); err != nil {
		return err
	}
	maps.DeleteFunc(w.cursors, func(k store.CursorKey, _ store.Cursor) bool { return k.Reader == l.No })
	w.dropLive(l)
	w.gone = append(w.gone, &gone{no: l.No, group: l.Group})
	return nil
}

// remove deletes a trigger and cancels its undelivered firings.
func (w *worker) remove(tx *store.Tx, l *live) error {
	if err := w.retire(tx, l); err != nil {
		return err
	}
	if err := w.dropUnrecorded(tx, l.ID, func(*store.Firing) bool { return true }); err != nil {
		return err
	}
	w.pruning.began = 0 // prune examines its firings again
	return w.cancel(tx, l.ID, math.MaxInt64)
}

// chunk is the number of rows of one read. A firing may have some KiB.
const chunk = 250

// dropUnrecorded deletes unrecorded firings of a trigger.
func (w *worker) dropUnrecorded(tx *store.Tx, id string, which func(x *store.Firing) bool) error {
	for after := int64(0); ; {
		list, err := tx.TriggerOutbox(id, after, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if after = list[i].Seq; list[i].Recorded == 0 && which(&list[i]) {
				if err := tx.DeleteFiring(list[i].ID); err != nil {
					return err
				}
			}
		}
	}
}

// cancel cancels the pending firings of a trigger that were recorded before an instant (ms).
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
			x.State = rule.Cancelled
			if err := tx.UpdateFiring(x); err != nil {
				return err
			}
		}
	}
}

// Condition reports whether a change may follow the stored trigger; nil: there is no trigger. No
// other change comes between.
type Condition func(stored *Head) bool

// ConditionError: the stored trigger does not meet the Condition of a change, which changed nothing.
type ConditionError struct {
	ID     string
	Stored *Head // nil: there is no trigger
}

func (e *ConditionError) Error() string {
	if e.Stored == nil {
		return fmt.Sprintf("there is no trigger %q", e.ID)
	}
	return fmt.Sprintf("trigger %q: version %d is stored now, with the tag %s", e.ID, e.Stored.Version, e.Stored.Tag())
}

// met returns a *ConditionError if the stored trigger does not meet a condition, unless it already is
// as d: then an earlier attempt of the change has succeeded, and met returns the trigger. The caller
// holds e.change.
func (e *Engine) met(ctx context.Context, d *rule.Definition, is Condition) (done *Head, err error) {
	if is == nil {
		return nil, nil
	}
	if !e.opt.Log.Leads() {
		return nil, ErrNotLeader
	}
	if err := e.caughtUp(ctx); err != nil {
		return nil, err
	}
	h, err := e.Head(d.ID)
	if err != nil && !errors.Is(err, ErrUnknownTrigger) {
		return nil, err
	}
	if is(h) {
		return nil, nil
	}
	if h != nil {
		stored, err := e.Trigger(ctx, d.ID)
		if err != nil {
			return nil, err
		}
		if t, ok := e.opt.Log.Topic(d.Topic); ok && t.ID == h.Events && e.same(&stored.Definition, d) {
			return h, nil
		}
	}
	return nil, &ConditionError{d.ID, h}
}

// same reports whether a stored definition is the one that a client gives.
func (e *Engine) same(stored, given *rule.Definition) bool {
	d := *given
	d.TopicID = stored.TopicID
	if !d.SameResults(stored) || d.Text != stored.Text || d.Status != stored.Status {
		return false
	}
	deliver, err := e.Opened(stored)
	return err == nil && sameJSON(deliver, d.Deliver)
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var values [2]any
	for i, text := range [][]byte{a, b} {
		in := json.NewDecoder(bytes.NewReader(text))
		in.UseNumber()
		if in.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
