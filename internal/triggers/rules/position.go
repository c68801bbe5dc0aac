package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// position reads the log's position of all followed topics. known is false while there is none.
//
// It looks up the topic names before the next position. A topic that was created in between, whose
// events may be older than that position, is thus never taken for a missing one.
func (w *worker) position(ctx context.Context) (known bool, err error) {
	for {
		n := w.listTopics()
		if w.topics[1] != w.recordIn { // the offsets in memory are those of another topic
			w.recordIn, w.epoch = w.topics[1], 0
		}
		was := w.pos.Time
		if w.pos, known = w.opt.Log.Position(w.topics...); !known {
			return false, nil
		}
		if w.pos.Time < was { // an operator has reset the log's time
			for id, at := range w.complete {
				w.complete[id] = min(at, w.pos.Complete())
			}
		}
		if err := w.checkCursors(ctx); err != nil {
			return false, err
		}
		w.topics = w.topics[:n]
		if !w.rebind() {
			return true, nil
		}
	}
}

// listTopics lists the followed topics, then those of other cursors. It returns the number of
// followed topics.
func (w *worker) listTopics() (followed int) {
	w.topics = w.topics[:0]
	for _, name := range []string{w.opt.Triggers, w.opt.Firings} {
		t, _ := w.opt.Log.Topic(name)
		w.topics = append(w.topics, t.ID)
	}
	for _, l := range w.live {
		if !contains(w.topics[2:], l.Events) {
			w.topics = append(w.topics, l.Events)
		}
	}
	followed = len(w.topics)
	for k := range w.cursors {
		if !contains(w.topics, k.Topic) {
			w.topics = append(w.topics, k.Topic)
		}
	}
	return followed
}

// checkCursors compares the cursors with the position. The cursors of a deleted topic of events
// stay, so that a broker that knows less of the log than the file never reads its events twice.
func (w *worker) checkCursors(ctx context.Context) error {
	for i, id := range w.topics {
		for part, span := range w.pos.Topics[i] {
			if c := w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}]; c.Next > span.Next {
				return fmt.Errorf("%w: offset %d was read, but the log ends at %d", localdb.ErrDamaged, c.Next-1, span.Next)
			}
		}
	}
	if _, read := w.cursors[store.CursorKey{Topic: w.topics[0]}]; !read && len(w.live) > 0 {
		return fmt.Errorf("%w: the topic of definitions was replaced", localdb.ErrDamaged)
	}
	return nil
}

// rebind makes each trigger whose topic was deleted follow the topic that has the name now: from
// its start, because all its events are new. It reports whether it added a topic, so that another
// position is needed.
func (w *worker) rebind() (added bool) {
	if !w.authoritative {
		return false
	}
	for _, l := range w.live {
		i := slices.Index(w.topics, l.Events)
		there := len(w.pos.Topics[i]) > 0
		t, named := w.opt.Log.Topic(l.Topic)
		if !there && named && t.ID != l.Events {
			w.opt.Logger.Info("trigger follows its recreated topic", "trigger", l.ID, "topic", l.Topic)
			w.changeHead(l, func(h *Head) { h.Events = t.ID })
			l.rebound = true
			w.rules.drop(l.No)
			added = true
		}
		if missing := !there && !named; l.Missing != missing {
			w.changeHead(l, func(h *Head) { h.Missing = missing })
		}
	}
	if added {
		w.index = map[record.ID]map[string][]*live{}
		for _, l := range w.live {
			w.serve(l)
		}
	}
	return added
}

// deleted reports whether a topic is not in the log.
func (w *worker) deleted(id record.ID) bool {
	i := slices.Index(w.topics, id)
	return w.authoritative && i >= 0 && len(w.pos.Topics[i]) == 0
}

// A late trigger costs more than all others of its topic together, while the unread records cost
// more than a turn may. It leaves the main reader and reads separately from there on, as triggers
// read the history. So only its own firings are late. The main reader takes it back once it has
// caught up. Its firings are the same either way.

const (
	lateMax     = 4      // late triggers; the deadlines of each have a step of work
	lateSeenMax = 50_000 // event IDs that are copied for a late trigger
)

// makeLate makes a trigger late: the costliest of those served while a topic was read.
func (w *worker) makeLate(ctx context.Context, topic record.ID, lives []*live) error {
	most, total, late := (*live)(nil), 0, 0
	for _, l := range lives {
		if total += l.spent; most == nil || l.spent > most.spent {
			most = l
		}
	}
	for _, l := range w.live {
		if l.Late {
			late++
		}
	}
	if len(lives) < 2 || late >= lateMax || most.rebound || most.spent < w.opt.Sizes.Work/2 || most.spent <= total/2 {
		return nil
	}
	cursors := map[store.CursorKey]store.Cursor{}
	for k, c := range w.cursors {
		if k.Reader == store.Main && k.Topic == topic {
			k.Reader = most.No
			cursors[k] = c
		}
	}
	leaves := false
	err := w.f.Update(ctx, func(tx *store.Tx) (err error) {
		if leaves, err = tx.CopySeen(most.No, lateSeenMax); err != nil || !leaves {
			return err
		}
		for k, c := range cursors {
			if err := tx.PutCursor(k, c); err != nil {
				return err
			}
		}
		return tx.SetStatus(most.No, store.Behind)
	})
	if err != nil || !leaves {
		return err
	}
	for k, c := range cursors {
		w.cursors[k] = c
	}
	w.unserve(most)
	most.status = store.Behind
	w.held += most.cursors
	w.changeHead(most, func(h *Head) { h.Late = true })
	if now := w.opt.Now(); now.Sub(most.logged).Abs() >= lagLogEvery {
		most.logged = now
		w.opt.Logger.Warn("trigger behind: its evaluation costs more than all others of its topic", "trigger", most.ID, "topic", most.Topic)
	}
	return nil
}

// pastBorder reports whether a trigger that reads separately has read all events before its border:
// it is late.
func (w *worker) pastBorder(l *live, d *rule.Definition) bool {
	for part, next := range d.From {
		if w.cursors[store.CursorKey{Reader: l.No, Topic: l.Events, Partition: uint32(part)}].Next < next {
			return false
		}
	}
	return l.status == store.Behind && len(d.From) > 0
}

// lateDeadlines passes the deadlines of late triggers, as far as they have read.
func (w *worker) lateDeadlines(ctx context.Context) (more bool, err error) {
	for _, l := range w.live {
		if !l.Late {
			continue
		}
		at, known := w.complete[l.Events]
		for k, c := range w.cursors {
			if k.Reader == l.No && k.Topic == l.Events && c.Next < w.cursors[store.CursorKey{Topic: k.Topic, Partition: k.Partition}].Next {
				at = min(at, c.Clock-1, w.untilReset(c.Clock))
			}
		}
		if !known {
			continue
		}
		if l.shared { // the main reader first gives it rows of its own
			at = min(at, l.group.due-1)
		}
		again, err := w.topicDeadlines(ctx, nil, []*live{l}, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}
