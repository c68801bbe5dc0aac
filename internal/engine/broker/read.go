package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

var errNoRange = errors.New("no range holds the offset")

// read reads a plan's pieces concurrently. A part's chunks end at its first piece that failed.
func (b *Broker) read(ctx context.Context, p *plan) (*Fetched, error) {
	pieces := p.cut()
	b.readPieces(ctx, p, pieces)
	f := &Fetched{Parts: make([]FetchedPart, len(p.parts))}
	var releases []func()
	f.release = func() {
		for _, r := range releases {
			r()
		}
	}
	over := false
	for i := range p.parts {
		pp, out := &p.parts[i], &f.Parts[i]
		out.Err, out.Start, out.HighWatermark, out.LastStable = pp.err, pp.start, pp.next, pp.stable
		if p.wants[i].Isolation == Committed {
			out.HighWatermark = pp.stable
		}
		if len(pp.ranges) == 0 && pp.lost > 0 {
			out.Chunks = []Chunk{{Base: p.wants[i].Offset, End: pp.lost}} // so that its reader reaches the end
		}
		ended := false // a piece is missing
		for ; len(pieces) > 0 && pieces[0].Part == i; pieces = pieces[1:] {
			c := &pieces[0]
			switch {
			case c.Err == nil && !ended && out.follows(c):
				whole, err := out.add(&pp.visible, c)
				releases = append(releases, c.Release)
				if err == nil {
					ended = !whole
					continue
				}
				if errors.As(err, new(*damage)) {
					err = b.corrupt(&p.wants[i], c, err)
				}
				if len(out.Chunks) == 0 {
					out.Err = err
				}
			case c.Err == nil:
				c.Release()
			case errors.Is(c.Err, state.ErrOverBudget):
				over, ended = true, true
			case len(out.Chunks) == 0 && !ended:
				out.fail(c.Err)
			}
			ended = true
		}
		out.setAborted(pp.aborted)
		if pp.stored {
			b.ahead.done(pp.reader, pp.id, out.Chunks)
		}
	}
	if over && f.empty() {
		f.Release()
		return nil, state.ErrOverBudget
	}
	if err := ctx.Err(); err != nil {
		f.Release()
		return nil, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	b.met.fetched(f)
	return f, nil
}

// fail sets a part's error, and with *BelowStartError the current start.
func (p *FetchedPart) fail(err error) {
	p.Err = err
	if below, ok := errors.AsType[*BelowStartError](err); ok {
		p.Start = below.Start
	}
}

// follows reports whether a chunk continues where the chunks before it end.
func (p *FetchedPart) follows(c *Piece) bool {
	n := len(p.Chunks)
	return p.Err == nil && (n == 0 && c.Offset >= c.Chunk.Base || n > 0 && p.Chunks[n-1].End == c.Chunk.Base)
}

func (f *Fetched) empty() bool {
	for i := range f.Parts {
		if len(f.Parts[i].Chunks) > 0 {
			return false
		}
	}
	return true
}

// cut returns the pieces of a plan: for each want, ranges until MaxBytes are reached. Only a want's
// last piece may be cut short, because each piece must continue where the one before it ends.
func (p *plan) cut() []Piece {
	var pieces []Piece
	most := max(1, readsMax/max(1, len(p.parts))) // so that the first wants do not use all reads
	for i := range p.parts {
		pp, w := &p.parts[i], &p.wants[i]
		rest := int64(w.MaxBytes)
		for j, r := range pp.ranges {
			c := Piece{Part: i, Range: r.Range, Key: r.key, Offset: max(w.Offset, r.Base), Max: rest}
			rest -= left(&r.Range, c.Offset, pp.visible.end)
			last := j == len(pp.ranges)-1 || j == most-1 || rest <= 0
			if !last {
				c.Max = int64(r.Len)
			}
			pieces = append(pieces, c)
			if last {
				break
			}
		}
	}
	return pieces
}

// readPieces reads the pieces in the tail first, the others from the store.
func (b *Broker) readPieces(ctx context.Context, p *plan, pieces []Piece) {
	missing := false
	for i := range pieces {
		c := &pieces[i]
		w, pp := &p.wants[c.Part], &p.parts[c.Part]
		if b.readTail(w, c) {
			continue
		}
		missing = true
		if pp.stored {
			continue
		}
		pp.stored = true
		if pp.reader = b.ahead.find(pp.id, w.Offset); pp.reader != nil {
			b.fetchAhead(pp.reader, pp.id, c.Offset, min(pp.bytes, int64(w.MaxBytes)))
		}
	}
	if missing {
		b.reader.Read(ctx, catalog{b, *p}, pieces)
		b.noteFault(ctx, pieces)
	}
}

// noteFault lets a standby know that the store does not answer it, so that its leader answers.
func (b *Broker) noteFault(ctx context.Context, pieces []Piece) {
	for i := range pieces {
		if err, ok := errors.AsType[*StoreError](pieces[i].Err); ok && ctx.Err() == nil && b.LedElsewhere() {
			b.log.NoteFault(pieces[i].Key, err)
			return
		}
	}
}

// readTail reads a piece from the tail, and returns false if it is not there. get has retained the
// object, so it stays valid until Release even if it is evicted.
func (b *Broker) readTail(w *Want, c *Piece) bool {
	o := b.tail.get(slotKey{c.Range.Epoch, c.Range.Slot, c.Range.Pack})
	if o == nil {
		return false
	}
	pos, end := int64(c.Range.Pos), int64(c.Range.Pos)+int64(c.Range.Len)
	mark := o.At(pos, end, c.Offset)
	parts := o.Slice(mark.Pos, end-mark.Pos)
	cut, err := Cut(parts, mark.Base, c.Offset, c.Max)
	if err != nil { // unreachable: these are the bytes that were sent
		o.Release()
		c.Err = b.corrupt(w, c, err)
		return true
	}
	c.Finish(cut, o.Release)
	b.met.tailReads.Inc()
	return true
}
