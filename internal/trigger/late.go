package trigger

import (
	"context"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

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
		again, err := w.topicDeadlines(ctx, []*live{l}, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}
