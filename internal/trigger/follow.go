package trigger

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// errLog: the log cannot be read. The state in memory still agrees with the file.
var errLog = errors.New("read log")

// piece is the result of reading a partition.
type piece struct {
	follow.Batches
	key    store.CursorKey
	cursor store.Cursor // after the piece
	to     int64        // the piece ends before this offset
}

// next reads a piece after a cursor, up to the end of a span; nil if there are no records. The
// caller releases it.
func (w *worker) next(ctx context.Context, key store.CursorKey, span follow.Span) (p *piece, err error) {
	from := max(w.cursors[key].Next, span.Start)
	if from >= span.Next {
		return nil, nil
	}
	return w.readAt(ctx, key, follow.Span{Start: from, Next: span.Next})
}

// readAt reads a piece at the start of a span. The caller releases it.
func (w *worker) readAt(ctx context.Context, key store.CursorKey, span follow.Span) (p *piece, err error) {
	from := span.Start
	b, err := w.opt.Log.Read(ctx, key.Topic, key.Partition, from, w.readBytes(key))
	if err != nil {
		return nil, &unreadable{key: key, offset: from, err: err}
	}
	p = &piece{Batches: b, key: key, cursor: w.cursors[key], to: span.Next}
	p.cursor.Next = min(max(from, b.From), p.to)
	s := w.blocked[key]
	for one, err := range b.All() {
		if err != nil && p.cursor.Next == from { // else the batches before it come first
			p.Release()
			return nil, &unreadable{key: key, offset: from, batch: true, err: err}
		}
		if err != nil || s != nil && s.readTo > 0 && one.BaseOffset() >= s.readTo && p.cursor.Next > from {
			p.to = p.cursor.Next
			break
		}
		p.cursor.Next = min(max(p.cursor.Next, one.BaseOffset()+one.Span()), p.to)
	}
	if p.cursor.Next == from { // no batch after all
		p.Release()
		return nil, nil
	}
	p.cursor.Origin = w.opt.Log.Origin(key.Topic, key.Partition, p.cursor.Next-1)
	return p, nil
}

// each calls f for the unread records of a piece. stamped reports whether the timestamp is the
// append time. r is valid during the call.
func (w *worker) each(p *piece, f func(r *record.Record, stamped bool) error) error {
	return w.eachFrom(p, w.cursors[p.key].Next, f)
}

// eachFrom is each, from an offset on.
func (w *worker) eachFrom(p *piece, from int64, f func(r *record.Record, stamped bool) error) error {
	for one, err := range p.All() {
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
			return &unreadable{key: p.key, offset: max(one.BaseOffset(), from), batch: true, err: err}
		}
		if one.BaseOffset()+one.Span() >= p.to {
			break
		}
	}
	return nil
}

// saveCursor stores the end of the piece, in its transaction.
func (p *piece) saveCursor(tx *store.Tx) error { return tx.PutCursor(p.key, p.cursor) }

// apply runs a transaction over the records of a piece, and advances the cursor past it.
func (w *worker) apply(ctx context.Context, p *piece, change func(tx *store.Tx) error) error {
	err := w.f.Update(ctx, func(tx *store.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return p.saveCursor(tx)
	})
	if err == nil {
		w.cursors[p.key] = p.cursor
	}
	return err
}

// Log is the log of the engine. Its methods may be called concurrently.
type Log interface {
	follow.Log
	// Topic returns a topic by name; ok is false if it does not exist.
	Topic(name string) (t Topic, ok bool)
	// Create creates a topic. It returns nil if one with that name exists.
	Create(ctx context.Context, name string, partitions int, settings map[string]string) error
	// Stamp sets a topic to append time for new records.
	Stamp(ctx context.Context, name string) error
	// Position returns a committed position of one moment: the append time of the newest committed
	// slot, and the offsets at that time. Everything that is committed later has a later append
	// time. known is false if the state is unknown.
	Position(topics ...record.ID) (p follow.Position, known bool)
	// Append appends records to a partition atomically, and waits until they are committed. It
	// returns the offset of the first. After an error they may appear once, later, or never; on a
	// broker that is not the leader, never.
	Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record) (base int64, err error)
	// Term returns the epoch in which this broker leads, and so knows everything committed before;
	// 0: it does not lead. A fenced broker may lead again, in a later epoch.
	Term() uint32
	// Leads reports whether this broker leads, as Term does.
	Leads() bool
}

// Topic is a topic of the log.
type Topic struct {
	ID         record.ID
	Partitions int
	// AppendTime: the timestamps of its records are append times.
	AppendTime bool
}

// AppendTimes are the settings of topics whose timestamps the engine uses.
var AppendTimes = map[string]string{"timestamp-type": "append"}

// EventSettings are the settings of a topic that is created for events: append times, and a key
// index, which finds the events of an entity. No function changes the map.
var EventSettings = map[string]string{"timestamp-type": "append", "key-index": "true"}

// Ensure returns a topic, and creates it if it does not exist. ErrInvalid: it exists with other
// settings.
func Ensure(ctx context.Context, log Log, name string, partitions int, settings map[string]string) (Topic, error) {
	t, ok := log.Topic(name)
	if !ok {
		if err := log.Create(ctx, name, partitions, settings); err != nil {
			return t, fmt.Errorf("create topic %s: %w", name, err)
		}
		if t, ok = log.Topic(name); !ok {
			return t, fmt.Errorf("topic %q does not exist after its creation", name)
		}
	}
	if settings["timestamp-type"] != "" && !t.AppendTime {
		return t, fmt.Errorf("%w: topic %q must have timestamp-type=append: triggers use the append times of events",
			ErrInvalid, name)
	}
	return t, nil
}
