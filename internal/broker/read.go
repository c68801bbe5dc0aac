package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var errNoRange = errors.New("no range holds an offset that should be there")

// piece is one range of one want, to be read for itself.
type piece struct {
	part   int // of the plan
	want   *Want
	id     partKey
	r      planRange
	offset int64 // the first that is wanted
	max    int64 // bytes, soft

	chunk   Chunk
	release func()
	err     error
}

func (c *piece) rangeKey() rangeKey { return rangeKey{slotKey{c.r.Epoch, c.r.Slot, c.r.Pack}, c.r.Pos} }

// read reads what was planned. Pieces are read at once; those of a part count up to the first that fails.
func (b *Broker) read(ctx context.Context, p *plan) (*Fetched, error) {
	pieces := p.cut()
	b.readPieces(ctx, pieces)
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
		out.Err, out.Start, out.HighWatermark = pp.err, pp.start, pp.next
		ended := false // by a piece that is not there
		for ; len(pieces) > 0 && pieces[0].part == i; pieces = pieces[1:] {
			c := &pieces[0]
			switch {
			case c.err == nil && !ended && out.follows(c):
				c.chunk.Records = min(c.chunk.End-c.chunk.Base, int64(c.r.Records))
				out.Chunks = append(out.Chunks, c.chunk)
				releases = append(releases, c.release)
				continue
			case c.err == nil:
				c.release()
			case errors.Is(c.err, ErrOverBudget):
				over, ended = true, true
			case len(out.Chunks) == 0 && !ended:
				out.fail(c.err)
			}
			ended = true
		}
	}
	if over && f.empty() {
		f.Release()
		return nil, ErrOverBudget
	}
	if err := ctx.Err(); err != nil {
		f.Release()
		return nil, fmt.Errorf("fetch: %w", context.Cause(ctx))
	}
	b.met.fetched(f)
	return f, nil
}

// fail notes why nothing could be read, and with *BelowStartError the start as it is now.
func (p *FetchedPart) fail(err error) {
	p.Err = err
	var below *BelowStartError
	if errors.As(err, &below) {
		p.Start = below.Start
	}
}

// follows says whether a chunk goes on where the ones before it ended.
func (p *FetchedPart) follows(c *piece) bool {
	n := len(p.Chunks)
	return p.Err == nil && (n == 0 && c.offset >= c.chunk.Base || n > 0 && p.Chunks[n-1].End == c.chunk.Base)
}

func (f *Fetched) empty() bool {
	for i := range f.Parts {
		if len(f.Parts[i].Chunks) > 0 {
			return false
		}
	}
	return true
}

// cut makes the pieces of a plan: for each want, ranges until MaxBytes are reached. Only the last may be cut short, since
// what follows must go on where it ends.
func (p *plan) cut() []piece {
	var pieces []piece
	most := max(1, readsMax/max(1, len(p.parts))) // so that the first wants do not take it all
	for i := range p.parts {
		pp, w := &p.parts[i], &p.wants[i]
		rest := int64(w.MaxBytes)
		for j, r := range pp.ranges {
			c := piece{part: i, want: w, id: pp.id, r: r, offset: max(w.Offset, r.Base), max: rest}
			rest -= left(&r.Range, c.offset)
			last := j == len(pp.ranges)-1 || j == most-1 || rest <= 0
			if !last {
				c.max = int64(r.Len)
			}
			pieces = append(pieces, c)
			if last {
				break
			}
		}
	}
	return pieces
}

// readPieces reads the pieces that are in memory first, the others a few at a time.
func (b *Broker) readPieces(ctx context.Context, pieces []piece) {
	var far []*piece
	for i := range pieces {
		if !b.readTail(&pieces[i]) {
			far = append(far, &pieces[i])
		}
	}
	jobs := runs(far)
	if len(jobs) < 2 {
		for _, job := range jobs {
			b.readRun(ctx, job)
		}
		return
	}
	var next atomic.Int32
	var wg sync.WaitGroup
	for range min(readsAtOnce, len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(jobs); i = next.Add(1) - 1 {
				b.readRun(ctx, jobs[i])
			}
		})
	}
	wg.Wait()
	b.readStarved(ctx, pieces)
}

// readStarved reads the first piece of a want again, if the others have taken the memory that it needed: without it they
// are of no use.
func (b *Broker) readStarved(ctx context.Context, pieces []piece) {
	for i := range pieces {
		c := &pieces[i]
		if !errors.Is(c.err, ErrOverBudget) || i > 0 && pieces[i-1].part == c.part {
			continue
		}
		for j := i + 1; j < len(pieces) && pieces[j].part == c.part; j++ {
			if later := &pieces[j]; later.release != nil {
				later.release()
				later.release, later.err = nil, c.err
			}
		}
		b.readFar(ctx, c)
	}
}

// readTail reads a piece from the newest objects' buffers, if it is there.
func (b *Broker) readTail(c *piece) bool {
	o := b.tail.get(slotKey{c.r.Epoch, c.r.Slot, c.r.Pack})
	if o == nil {
		return false
	}
	pos, end := int64(c.r.Pos), int64(c.r.Pos)+int64(c.r.Len)
	mark := o.At(pos, end, c.offset)
	parts := o.Slice(mark.Pos, end-mark.Pos)
	cut, err := cutBatches(parts, mark.Base, c.offset, c.max)
	if err != nil { // can not be: these bytes were sent and have not changed since
		o.Release()
		b.corrupt(c, err)
		return true
	}
	c.chunk, c.release = cut, o.Release
	b.met.tailReads.Inc()
	return true
}
