package trigger

import (
	"context"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// position takes the log's position, of all topics that are followed. known is false while there is none.
//
// The names of topics are looked up after the position was taken. So a topic that was created since, and may have events that
// are older than a later position, is never taken for one that is missing.
func (w *worker) position(ctx context.Context) (known bool, err error) {
	for {
		n := w.listTopics()
		if w.topics[1] != w.recordIn { // what is known of its offsets is of another topic
			w.recordIn, w.leads = w.topics[1], false
		}
		was := w.pos.Time
		if w.pos, known = w.opt.Log.Position(w.topics...); !known {
			return false, nil
		}
		if w.pos.Time < was { // an operator has ended a false future
			for id, at := range w.complete {
				w.complete[id] = min(at, w.pos.Complete())
			}
		}
		if err := w.checkCursors(ctx); err != nil {
			return false, err
		}
		w.topics = w.topics[:n]
		if !w.bind() {
			return true, nil
		}
	}
}

// listTopics lists the topics that are followed, then those of other cursors, and returns how many are followed.
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

// checkCursors compares the cursors with the position. A topic of events may have been deleted: its cursors stay, so that a
// broker that knows less of the log than the file never reads its events a second time.
func (w *worker) checkCursors(ctx context.Context) error {
	for i, id := range w.topics {
		for part, span := range w.pos.Topics[i] {
			if c := w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}]; c.Next > span.Next {
				return fmt.Errorf("%w: offset %d was read, the log ends at %d", localdb.ErrDamaged, c.Next-1, span.Next)
			}
		}
	}
	if _, read := w.cursors[store.CursorKey{Topic: w.topics[0]}]; !read && len(w.live) > 0 {
		return fmt.Errorf("%w: the topic of definitions is not the one that was read", localdb.ErrDamaged)
	}
	return nil
}

// bind has each trigger follow the topic that has its name now, if the one that it follows was deleted: from the beginning,
// since all that is in it is new. It reports whether a topic was added, so that another position is needed.
func (w *worker) bind() (added bool) {
	if !w.sees {
		return false
	}
	for _, l := range w.live {
		i := slices.Index(w.topics, l.Events)
		there := len(w.pos.Topics[i]) > 0
		t, named := w.opt.Log.Topic(l.Topic)
		if !there && named && t.ID != l.Events {
			w.opt.Logger.Info("a trigger follows the topic that was created again", "trigger", l.ID, "topic", l.Topic)
			w.alter(l, func(h *Head) { h.Events = t.ID })
			l.rebound = true
			w.rules.drop(l.No)
			added = true
		}
		if missing := !there && !named; l.Missing != missing {
			w.alter(l, func(h *Head) { h.Missing = missing })
		}
	}
	if added {
		w.reindex()
	}
	return added
}

// lost is whether a topic is not in the log.
func (w *worker) lost(id record.ID) bool {
	i := slices.Index(w.topics, id)
	return w.sees && i >= 0 && len(w.pos.Topics[i]) == 0
}
