package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// worker keeps the file up to date with the log. The loop runs it.
type worker struct {
	*Index
	f           *file // nil while none is open
	reader      record.Reader
	event       Event
	subscribers map[*Subscription]struct{}

	// the epoch of an append with an unknown outcome, in which this broker appends no more
	uncertain uint32
	contended bool // the last append at an expected offset was refused
	retry     views.Retry
}

// shut withdraws the file from queries, ends the subscriptions, which a rebuilt file would repeat,
// and closes it.
func (w *worker) shut(why error) {
	w.fileLock.Lock() // waits for queries
	w.file = nil
	w.fileLock.Unlock()
	for s := range w.subscribers {
		w.end(s, why)
	}
	w.publish(progress{}, why)
	if w.f != nil {
		if err := w.f.Close(); err != nil {
			w.opt.Logger.Warn("closing the index of Riemann events failed", "err", err)
		}
	}
	w.f = nil
}

// Close closes the file at the end.
func (w *worker) Close() { w.shut(ErrClosed) }

// Failed closes the file after any error, because the counts in memory may be ahead of it.
func (w *worker) Failed(err error, _ bool) {
	w.shut(fmt.Errorf("%w: %w", ErrUnavailable, err))
	if errors.Is(err, localdb.ErrDamaged) {
		w.met.rebuilds.Inc()
		w.opt.Logger.Warn("rebuilding the index of Riemann events from the log", "path", w.opt.Path, "err", err)
	}
}

// Work is a turn of the loop.
func (w *worker) Work(ctx context.Context) (wait time.Duration, err error) {
	w.busy.Store(w.opt.Now().UnixMilli())
	defer w.busy.Store(0)
	w.mu.Lock()
	broken := w.broken
	w.mu.Unlock()
	if broken != nil {
		return 0, broken
	}
	topic, ok := w.opt.Log.Topic(w.opt.Topic)
	switch {
	case !ok && w.f == nil:
		w.publish(progress{}, nil)
		return views.Idle, nil
	case !ok && w.opt.Log.LeadingEpoch() == 0:
		return views.Idle, nil // this broker may know too little of the log
	case !ok || w.f != nil && w.f.topic != topic:
		return 0, localdb.Damaged("its topic was deleted")
	}
	epoch := w.opt.Log.LeadingEpoch() // before the position, which then has all earlier records
	pos, known := w.opt.Log.Position(topic)
	if !known || len(pos.Topics[0]) == 0 {
		return views.Idle, nil
	}
	if w.f == nil {
		if w.f, err = openFile(ctx, &w.opt, topic); err != nil {
			return 0, err
		}
		w.fileLock.Lock()
		w.file = w.f
		w.fileLock.Unlock()
	}
	more, err := w.read(ctx, pos.Topics[0])
	if err != nil {
		return 0, err
	}
	w.published(&pos)
	switch {
	case more:
		return 0, nil
	case epoch == 0 || w.uncertain == epoch, hidden(pos.Topics[0]):
		return views.Idle, nil
	}
	return w.expire(ctx, &pos, epoch)
}

// hidden reports whether an open transaction hides events: they may replace an event before its deadline.
func hidden(spans []views.Span) bool {
	return slices.ContainsFunc(spans, func(s views.Span) bool { return s.Open != 0 })
}

// published publishes how much of a position the file has, and its sizes.
func (w *worker) published(pos *views.Position) {
	spans := pos.Topics[0]
	p := progress{topic: w.f.topic, next: make([]int64, len(spans))}
	for i := range p.next {
		c := w.f.cursors[uint32(i)]
		if p.next[i] = c.next; max(c.next, spans[i].Start) < spans[i].Next && (p.behind == 0 || c.time < p.behind) {
			p.behind = c.time
		}
	}
	w.met.entries.Store(w.f.entries)
	w.met.bytes.Store(w.f.bytes)
	w.publish(p, nil) // wakes those that wait, who may read the sizes
}

// read reads a piece of each partition. more reports that there is more to read.
func (w *worker) read(ctx context.Context, spans []views.Span) (more bool, err error) {
	for i, span := range spans {
		part := uint32(i)
		was := w.f.cursors[part].next
		if was > span.Next {
			return false, localdb.Damaged("offset %d was read, but the log ends at %d", was-1, span.Next)
		}
		if was == span.Next {
			continue
		}
		if err := w.piece(ctx, part, views.Span{Start: max(was, span.Start), Next: span.Next}); err != nil {
			return false, err
		}
		now := w.f.cursors[part].next
		more = more || now > was && now < span.Next // else a change wakes the loop
	}
	return more, nil
}

// change is what the records of a piece do to a key.
type change struct {
	entry // the new one, unless gone
	gone  bool
}

// piece is a part of a partition that is applied in one transaction.
type piece struct {
	part    uint32
	next    int64 // the offset after it
	time    int64 // append time of its last batch, ms
	size    int   // of its records
	changes map[string]*change
	order   []string // the keys of changes, in the order of the log
	news    []*entry // for subscribers
}

// piece reads records at the start of a span, and applies them in one transaction.
func (w *worker) piece(ctx context.Context, part uint32, span views.Span) error {
	b, err := w.opt.Log.Read(ctx, w.f.topic, part, span.Start, w.opt.ReadBytes)
	if err != nil {
		return fmt.Errorf("read offset %d of partition %d: %w", span.Start, part, err)
	}
	defer b.Release()
	p := &piece{part: part, next: min(max(span.Start, b.From), span.Next), changes: map[string]*change{}}
	whole := true
	for batch, err := range b.All() {
		if err == nil {
			err = w.batch(ctx, p, batch, span)
		}
		if err != nil {
			return fmt.Errorf("read offset %d of partition %d: %w", p.next, part, err)
		}
		if whole = p.size <= w.opt.ReadBytes; !whole {
			break
		}
	}
	if whole { // what is left out behind the last batch
		p.next = min(max(p.next, b.End), span.Next)
	}
	if p.next == w.f.cursors[part].next {
		return nil // no batch after all
	}
	c := cursor{next: p.next, time: p.time, origin: w.opt.Log.Origin(w.f.topic, part, p.next-1)}
	if err := w.f.Update(ctx, func(ctx context.Context) error { return w.write(ctx, p, c) }); err != nil {
		return err
	}
	w.f.cursors[part] = c
	w.tell(p.news)
	return nil
}

// batch applies the records of a batch, or as many of them as fit into the piece.
func (w *worker) batch(ctx context.Context, p *piece, batch record.Batch, span views.Span) error {
	stamped := batch.Attributes()&record.AttrLogAppendTime != 0
	if stamped {
		p.time = batch.MaxTimestamp()
	}
	for w.reader.Reset(batch, span.Start); w.reader.Next() && w.reader.Offset() < span.Next; {
		r := w.reader.Record()
		if err := w.apply(ctx, p, r, stamped); err != nil {
			return err
		}
		if p.size += len(r.Key) + len(r.Value) + entryBytes; p.size > w.opt.ReadBytes {
			p.next = r.Offset + 1
			return nil
		}
	}
	if err := w.reader.Err(); err != nil {
		return err
	}
	p.next = min(max(p.next, batch.BaseOffset()+batch.Span()), span.Next)
	return nil
}

// apply adds what a record does to a piece: nothing if it is no event, or expires an event that is
// not in the index.
func (w *worker) apply(ctx context.Context, p *piece, r *record.Record, stamped bool) error {
	w.met.records.Inc()
	e, err := rule.ParseEvent(r.Key, r.Value)
	if err != nil || !stamped {
		w.met.skipped.Inc()
		return nil
	}
	if len(e.Data) == 0 {
		e.Data = []byte("{}")
	}
	e.Data = bytes.ToValidUTF8(e.Data, []byte("\uFFFD")) // a WebSocket's text must be valid
	key := keyOf(nil, e.EntityID, e.Name)
	c := &change{entry: entry{key: key, part: p.part, offset: r.Offset, at: r.Timestamp, time: noTime, data: e.Data}}
	if e.OccurredAt.Given {
		c.time = e.OccurredAt.UnixMicro()
	}
	w.event.set(&c.entry)
	if w.event.expired() {
		c.gone = true
		if of, ok := expires(e.ID); ok {
			key = keyOf(nil, e.EntityID, string(w.event.Field("service").Text))
			c.key = key
			at, there, err := w.current(ctx, key, p.changes)
			if err != nil || !there || at.part != p.part || at.offset != of {
				return err
			}
			w.met.expired.Inc()
		}
	} else {
		c.due = w.event.deadline(w.opt.TTL)
	}
	if p.changes[string(key)] == nil {
		p.order = append(p.order, string(key))
	}
	p.changes[string(key)] = c
	if len(w.subscribers) > 0 {
		p.news = append(p.news, &c.entry)
	}
	return nil
}

// current returns the entry of a key after changes.
func (w *worker) current(ctx context.Context, key []byte, changes map[string]*change) (e entry, there bool, err error) {
	if c := changes[string(key)]; c != nil {
		return c.entry, !c.gone, nil
	}
	e, size, err := w.f.find(ctx, key)
	return e, size > 0, err
}

// write writes the changes of a piece and the position after it.
func (w *worker) write(ctx context.Context, p *piece, to cursor) error {
	for _, key := range p.order {
		c := p.changes[key]
		_, size, err := w.f.find(ctx, c.key)
		there := size > 0
		switch {
		case err != nil:
			return err
		case c.gone && !there:
		case c.gone:
			err = w.f.remove(ctx, c.key, size)
		case !there && w.f.entries >= w.opt.EntriesMax, w.f.bytes-size+c.size() > w.opt.BytesMax:
			w.met.refused.Inc()
			if there { // the old event is no longer the newest
				err = w.f.remove(ctx, c.key, size)
			}
		default:
			err = w.f.store(ctx, &c.entry, size)
		}
		if err != nil {
			return err
		}
	}
	return w.f.putCursor(ctx, p.part, to)
}
