package broker

import (
	"cmp"
	"context"
	"slices"
)

// runs groups pieces that lie side by side in one object and are wanted as a whole, as those of a topic's partitions often
// are: each group is read with one request.
func runs(pieces []*piece) [][]*piece {
	order := slices.Clone(pieces)
	slices.SortStableFunc(order, func(a, b *piece) int {
		return cmp.Or(cmp.Compare(a.r.Epoch, b.r.Epoch), cmp.Compare(a.r.Slot, b.r.Slot), cmp.Compare(a.r.Pos, b.r.Pos))
	})
	var out [][]*piece
	var bytes int64
	for i, c := range order {
		n := len(out) - 1
		if i > 0 && follows(order[i-1], c) && bytes+int64(c.r.Len) <= runMax {
			out[n] = append(out[n], c)
			bytes += int64(c.r.Len)
			continue
		}
		out = append(out, []*piece{c})
		bytes = int64(c.r.Len)
	}
	slices.SortStableFunc(out, func(a, b []*piece) int { return cmp.Compare(a[0].part, b[0].part) })
	return out
}

func follows(a, b *piece) bool {
	return a.r.key == b.r.key && a.r.Pos+a.r.Len == b.r.Pos && a.whole() && b.whole()
}

// whole says whether all of a range is wanted, and is too little to be handed out as a section of a file.
func (c *piece) whole() bool {
	return c.offset == c.r.Base && c.max >= int64(c.r.Len) && c.r.Len < sectionMin
}

// readRun reads the pieces of a run at once. Whatever is wrong with that, each is then read for itself.
func (b *Broker) readRun(ctx context.Context, run []*piece) {
	if len(run) > 1 {
		if mem := b.readSide(ctx, run); mem != nil {
			at := uint32(0)
			for _, c := range run {
				c.take(mem, mem.buf[at:at+c.r.Len])
				at += c.r.Len
			}
			mem.release()
		}
	}
	for _, c := range run {
		if c.release == nil {
			b.readFar(ctx, c)
		}
	}
}

// readSide reads what a run's pieces cover into one buffer; nil if that does not work.
func (b *Broker) readSide(ctx context.Context, run []*piece) *memory {
	all := *run[0]
	all.r.Len = 0
	for _, c := range run {
		all.r.Len += c.r.Len
	}
	size := int64(all.r.Len)
	mem, err := b.reserve(size, size)
	if err != nil {
		return nil
	}
	ctx, cancel := b.timeout(ctx, size)
	defer cancel()
	body, err := b.get(ctx, &all, 0, size)
	if err == nil {
		defer body.Close()
		err = b.fill(&all, body, mem.buf)
	}
	if err != nil {
		mem.release()
		return nil
	}
	return mem
}

// take makes a piece's chunk from its part of a buffer, if that is what it must be.
func (c *piece) take(mem *memory, buf []byte) {
	v := verifier{piece: c, base: c.r.Base}
	found, err := v.verify(buf)
	if err != nil || found.End != c.r.End() {
		return
	}
	mem.retain(1)
	c.chunk, c.release = found, mem.release
}
