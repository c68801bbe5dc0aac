package trigger

import (
	"context"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// A trigger that costs more than all others of its topic together, while there is more to read than a turn may cost, is late: it leaves the
// main reader and reads on by itself, as one does that reads the history, from where the main reader is. So only its own firings are
// late. Once it has caught up it is served by the main reader again. What it does to an entity is the same either way.

const (
	lateMax     = 4      // triggers that are late at once; each has a turn's work for its deadlines
	lateSeenMax = 50_000 // ids of events that are copied for one
)

// lag makes the trigger late that has cost the most of what was read of a topic, of those that were served.
func (w *worker) lag(ctx context.Context, topic record.ID, lives []*live) error {
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
	w.alter(most, func(h *Head) { h.Late = true })
	if now := w.opt.Now(); now.Sub(most.told).Abs() >= lagAgain {
		most.told = now
		w.opt.Logger.Warn("a trigger is behind: evaluating it costs more than all others of its topic", "trigger", most.ID, "topic", most.Topic)
	}
	return nil
}

// pastBorder is whether a trigger that reads by itself has read all that was there before it: it is late.
func (w *worker) pastBorder(l *live, d *rule.Definition) bool {
	for part, next := range d.From {
		if w.cursors[store.CursorKey{Reader: l.No, Topic: l.Events, Partition: uint32(part)}].Next < next {
			return false
		}
	}
	return l.status == store.Behind && len(d.From) > 0
}

// lateDeadlines passes the deadlines of triggers that are late, as far as they have read.
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
