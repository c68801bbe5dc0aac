package trigger

import (
	"context"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/store"
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
			w.recordIn, w.term = w.topics[1], 0
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
		w.reindex()
	}
	return added
}

// deleted reports whether a topic is not in the log.
func (w *worker) deleted(id record.ID) bool {
	i := slices.Index(w.topics, id)
	return w.authoritative && i >= 0 && len(w.pos.Topics[i]) == 0
}
