package trigger

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/secrets"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// Marks are offsets of the topic of definitions. Below Replaced are records with secrets that are
// readable, or encrypted with a replaced key. No copy of the file has those below Copied, and no
// object of the log those below Purged.
//
//	readable secrets are replaced -> Replaced
//	the file is vacuumed, a copy is saved, older copies are deleted -> Copied
//	the topic is compacted, packs with its dead records are merged  -> Purged
type Marks struct{ Replaced, Copied, Purged int64 }

// copyDue reports whether a copy must replace the older ones. Secrets that are still readable come
// first, and so do rows of removed triggers.
func (m *Marks) copyDue(w *worker) bool {
	return m.Replaced > m.Copied && len(w.gone) == 0 && countSecrets(w.live, w.opt.Keys).Readable == 0
}

func (w *worker) loadMarks(ctx context.Context) error {
	var errs [3]error
	w.marks.Replaced, errs[0] = w.f.Mark(ctx, store.Replaced)
	w.marks.Copied, errs[1] = w.f.Mark(ctx, store.Copied)
	w.marks.Purged, errs[2] = w.f.Mark(ctx, store.Purged)
	return errors.Join(errs[:]...)
}

// mark stores a mark that is ahead of the current one.
func (w *worker) mark(ctx context.Context, m store.Mark, offset int64) error {
	at := map[store.Mark]*int64{store.Replaced: &w.marks.Replaced, store.Copied: &w.marks.Copied, store.Purged: &w.marks.Purged}[m]
	if offset <= *at {
		return nil
	}
	err := w.f.Update(ctx, func(tx *store.Tx) error { return tx.PutMark(m, offset) })
	if err == nil {
		*at = offset
	}
	return err
}

// outdated marks the record of a definition that replaces secrets which are readable, or encrypted
// with a key that is not active.
func (w *worker) outdated(tx *store.Tx, was, now secrets.Status, offset int64) error {
	old := was.Readable || was.Sealed && was.Key != w.opt.Keys.Active()
	if w.opt.Keys == nil || !old || was == now || now.Readable {
		return nil
	}
	w.marks.Replaced = offset + 1 // read again if the transaction fails
	return tx.PutMark(store.Replaced, offset+1)
}

// keepMarks stores the marks of a leader. With the first key, all records may be readable.
func (w *worker) keepMarks(ctx context.Context, leads bool) error {
	if w.opt.Keys == nil || !leads {
		return nil
	}
	if next := w.cursors[store.CursorKey{Topic: w.topics[0]}].Next; w.marks.Replaced == 0 {
		if err := w.mark(ctx, store.Replaced, next); err != nil {
			return err
		}
	}
	return w.mark(ctx, store.Purged, w.purged.Load())
}

// Unpurged returns the topic of definitions, and the offset below which objects of the log may have
// outdated secrets; 0: none.
func (e *Engine) Unpurged() (topic record.ID, below int64) {
	p, _, err := e.follower.Peek()
	t, ok := e.opt.Log.Topic(e.opt.Triggers)
	if e.opt.Keys == nil || err != nil || !ok || !e.opt.Log.Leads() || p.Secrets.Readable > 0 || p.Marks.Purged >= p.Marks.Replaced {
		return topic, 0
	}
	return t.ID, p.Marks.Replaced
}

// Purged notes that no object of the log has outdated secrets below an offset.
func (e *Engine) Purged(below int64) {
	e.follower.purged.Store(below)
	e.follower.loop.Wake()
}
