package triggers

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/triggers/store"
	"github.com/sebbroker/seb/record"
)

// errLog says that the log could not be read. What is in memory is as the file is.
var errLog = errors.New("reading the log")

// piece is what was read of a partition, and how far that goes.
type piece struct {
	key    store.CursorKey
	cursor store.Cursor // behind it
	to     int64        // records from here on are not looked at
	parts  [][]byte
	free   func()
}

func (p *piece) release() {
	if p.free != nil {
		p.free()
	}
}

// next reads what follows a cursor, if there is anything up to the end of a span. The caller releases it.
func (w *worker) next(ctx context.Context, key store.CursorKey, span Span) (p *piece, err error) {
	c := w.cursors[key]
	from := max(c.Next, span.Start)
	if from >= span.Next {
		return nil, nil
	}
	b, err := w.opt.Log.Read(ctx, key.Topic, key.Partition, from, w.opt.sizes.readBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: partition %d, offset %d: %w", errLog, key.Partition, from, err)
	}
	p = &piece{key: key, cursor: c, to: span.Next, parts: b.Parts, free: b.Release}
	p.cursor.Next = from
	for _, part := range b.Parts {
		for rest := part; len(rest) > 0; {
			var one record.Batch
			if one, rest, err = record.Split(rest); err != nil {
				p.release()
				return nil, err
			}
			p.cursor.Next = min(max(p.cursor.Next, one.BaseOffset()+one.Span()), span.Next)
		}
	}
	if p.cursor.Next == from { // nothing there after all
		p.release()
		return nil, nil
	}
	p.cursor.Origin = w.opt.Log.Origin(key.Topic, key.Partition, p.cursor.Next-1)
	return p, nil
}

// each calls f for the records of a piece that were not read before. stamped is whether a record's timestamp is its append
// time. What r points at is valid during the call.
func (w *worker) each(p *piece, f func(r *record.Record, stamped bool) error) error {
	from := w.cursors[p.key].Next
	for _, part := range p.parts {
		for rest := part; len(rest) > 0; {
			one, more, err := record.Split(rest)
			if err != nil {
				return err
			}
			stamped := one.Attributes()&record.AttrLogAppendTime != 0
			for w.reader.Reset(one, from); w.reader.Next() && w.reader.Offset() < p.to; {
				if err := f(w.reader.Record(), stamped); err != nil {
					return err
				}
			}
			if err := w.reader.Err(); err != nil {
				return err
			}
			rest = more
		}
	}
	return nil
}

// done notes how far a piece goes, in its transaction.
func (p *piece) done(tx *store.Tx) error { return tx.PutCursor(p.key, p.cursor) }

// apply runs a transaction over the records of a piece, and moves on behind it.
func (w *worker) apply(ctx context.Context, p *piece, change func(tx *store.Tx) error) error {
	err := w.f.Update(ctx, func(tx *store.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return p.done(tx)
	})
	if err == nil {
		w.cursors[p.key] = p.cursor
	}
	return err
}
