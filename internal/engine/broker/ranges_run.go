package broker

import (
	"cmp"
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// runMax is the largest request for several pieces.
const runMax = 4 << 20

// runs groups pieces that are adjacent in one object and wanted as a whole, as those of a topic's
// partitions often are. Each group is read with one request.
func runs(pieces []*Piece) [][]*Piece {
	order := slices.Clone(pieces)
	slices.SortStableFunc(order, func(a, b *Piece) int {
		return cmp.Or(cmp.Compare(a.Range.Epoch, b.Range.Epoch), cmp.Compare(a.Range.Slot, b.Range.Slot), cmp.Compare(a.Range.Pos, b.Range.Pos))
	})
	var out [][]*Piece
	var bytes int64
	for i, p := range order {
		n := len(out) - 1
		if i > 0 && follows(order[i-1], p) && bytes+int64(p.Range.Len) <= runMax {
			out[n] = append(out[n], p)
			bytes += int64(p.Range.Len)
			continue
		}
		out = append(out, []*Piece{p})
		bytes = int64(p.Range.Len)
	}
	sorting.Stable(out, func(a, b []*Piece) int { return cmp.Compare(a[0].Part, b[0].Part) })
	return out
}

func follows(a, b *Piece) bool {
	return a.Key == b.Key && a.Range.Pos+a.Range.Len == b.Range.Pos && a.whole() && b.whole()
}

// whole reports whether all of a range is wanted, and is too small for a section of a file.
func (p *Piece) whole() bool {
	return p.Offset == p.Range.Base && p.Max >= int64(p.Range.Len) && p.Range.Len < sectionMin
}

// readRun reads the pieces of a run with one request. If that fails, it reads each piece
// separately.
func (r *Reader) readRun(ctx context.Context, where Catalog, run []*Piece) {
	if len(run) > 1 {
		if mem := r.readAdjacent(ctx, run); mem != nil {
			at := uint32(0)
			for _, p := range run {
				p.useBuffer(mem, mem.buf[at:at+p.Range.Len])
				at += p.Range.Len
			}
			mem.release()
		}
	}
	for _, p := range run {
		if p.Release == nil {
			r.readPiece(ctx, where, p)
		}
	}
}

// readAdjacent reads all pieces of a run into one buffer; nil on any error.
func (r *Reader) readAdjacent(ctx context.Context, run []*Piece) *memory {
	all := *run[0]
	all.Range.Len = 0
	for _, p := range run {
		all.Range.Len += p.Range.Len
	}
	size := int64(all.Range.Len)
	mem, err := r.reserve(size, size)
	if err != nil {
		return nil
	}
	ctx, cancel := r.timeout(ctx, size)
	defer cancel()
	body, err := r.get(ctx, &all, 0, size)
	if err == nil {
		defer body.Close()
		err = all.fill(body, mem.buf)
	}
	if err != nil {
		mem.release()
		return nil
	}
	return mem
}

// useBuffer makes a piece's chunk from its part of a buffer, if that verifies as the whole range.
func (p *Piece) useBuffer(mem *memory, buf []byte) {
	v := verifier{Piece: p, base: p.Range.Base}
	found, err := v.verify(buf)
	if err != nil || found.End != p.Range.End() {
		return
	}
	mem.retain(1)
	p.Finish(found, mem.release)
}
