package broker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// stable reports whether a reader ends at the last stable offset.
func (i Isolation) stable() bool { return i == Committed || i == RawCommitted }

// end is the end of a partition for a reader.
func (i Isolation) end(p *state.Partition) int64 {
	if i.stable() {
		return p.LastStable()
	}
	return p.Next
}

// visible says which batches of a partition a want returns. It is from the state of the plan, which knows how each
// transaction below its last stable offset ended.
type visible struct {
	// end is the end of the partition for this want.
	end int64
	// from is the offset from which batches must be looked at; below it the want returns all.
	from int64
	// markers: they are left out.
	markers bool
	// aborted are the aborted transactions whose batches are left out, by producer and first offset.
	aborted []state.AbortedTransaction
}

// visibleIn returns what a want returns of a partition, without the aborted transactions.
func visibleIn(part *state.Partition, i Isolation) visible {
	v := visible{end: i.end(part), markers: i != RawCommitted && i != Raw}
	v.from = v.end
	if v.markers && part.Transactional > 0 {
		v.from = min(v.end, part.Transactional-1)
	}
	if i == Raw {
		v.from = math.MaxInt64
	}
	return v
}

// leaveOut sets the aborted transactions of the planned offsets.
func (v *visible) leaveOut(aborted []state.AbortedTransaction) {
	v.aborted = aborted
	sorting.Sort(v.aborted, func(a, b state.AbortedTransaction) int {
		return cmp.Or(cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.First, b.First))
	})
}

// hides reports whether a batch is left out.
func (v *visible) hides(head record.Batch) bool {
	switch {
	case !v.markers || !head.Transactional() && !head.Control():
		return false
	case head.Control():
		return true
	}
	// The transactions of one producer do not overlap.
	i, found := slices.BinarySearchFunc(v.aborted, head, func(a state.AbortedTransaction, b record.Batch) int {
		return cmp.Or(cmp.Compare(a.Producer, b.ProducerID()), cmp.Compare(a.First, b.BaseOffset()))
	})
	if !found {
		i--
	}
	return i >= 0 && v.aborted[i].Producer == head.ProducerID() && head.BaseOffset() <= v.aborted[i].Last
}

// add adds the visible runs of a piece's chunk. whole is false if the chunk extends beyond the end of what is
// visible.
func (p *FetchedPart) add(v *visible, of *Piece) (whole bool, err error) {
	c := &of.Chunk
	if c.End <= v.from {
		p.Chunks = append(p.Chunks, *c)
		return true, nil
	}
	p.Chunks, err = v.split(p.Chunks, of)
	n := len(p.Chunks)
	return n > 0 && p.Chunks[n-1].End == c.End, err
}

// setAborted sets the transactions of a list, by first offset, that have batches in the chunks.
func (p *FetchedPart) setAborted(list []state.AbortedTransaction) {
	if len(list) == 0 || len(p.Chunks) == 0 {
		return
	}
	end := p.Chunks[len(p.Chunks)-1].End
	n := 0
	for n < len(list) && list[n].First < end {
		n++
	}
	p.Aborted = list[:n]
}

// split appends to list the runs of batches of a piece's chunk that are returned or left out, from the wanted
// offset up to v.end. The runs have the chunk's memory; one without bytes is left out.
func (v *visible) split(list []Chunk, of *Piece) ([]Chunk, error) {
	c := &of.Chunk
	first, next := len(list), c.Base
	var buf [record.BatchHeadSize]byte
	for i := range max(1, len(c.Parts)) {
		size := c.Size
		if c.Section == nil {
			size = int64(len(c.Parts[i]))
		}
		for at := int64(0); at < size; {
			head, n, err := c.head(i, at, buf[:])
			if err != nil {
				return list[:first], err
			}
			end := next + head.Span()
			if end > v.end {
				return list, nil
			}
			if end <= of.Offset { // a section may begin before the wanted batch
				next, at = end, at+n
				continue
			}
			hidden := v.hides(head)
			if k := len(list) - 1; k < first || (list[k].Size == 0) != hidden {
				list = append(list, Chunk{Base: next, End: next, Verified: c.Verified})
			}
			run := &list[len(list)-1]
			if run.End = end; !hidden {
				run.Records += int64(head.Count())
				run.extend(c, i, at, n)
			}
			next, at = end, at+n
		}
	}
	return list, nil
}

// head returns the header and the length of the batch at a position in part i, or in the section. The header may be
// in buf.
func (c *Chunk) head(i int, at int64, buf []byte) (head record.Batch, n int64, err error) {
	if c.Section == nil {
		batch, _, err := record.Split(c.Parts[i][at:])
		if err != nil {
			return nil, 0, damaged("batch after offset %d: %w", c.Base, err)
		}
		return batch, int64(batch.Len()), nil
	}
	switch _, err := c.Section.File.ReadAt(buf, c.Section.Off+at); {
	case errors.Is(err, io.EOF):
		return nil, 0, damaged("object is truncated")
	case err != nil:
		return nil, 0, &StoreError{"read " + c.Section.File.Name(), err}
	}
	if n = int64(binary.BigEndian.Uint32(buf[8:])) + 12; n < record.BatchHeadSize || n > c.Section.Len-at {
		return nil, 0, damaged("batch after offset %d has %d bytes", c.Base, n)
	}
	return buf, n, nil
}

// extend adds the batch at a position in part i of a chunk, or in its section. It follows the batches that c has.
func (c *Chunk) extend(of *Chunk, i int, at, n int64) {
	first := c.Size == 0
	c.Size += n
	switch {
	case of.Section != nil && first:
		c.Section = &objstore.Section{File: of.Section.File, Off: of.Section.Off + at, Len: n}
	case of.Section != nil:
		c.Section.Len += n
	case first || at == 0:
		c.Parts = append(c.Parts, of.Parts[i][at:at+n])
	default:
		k := len(c.Parts) - 1
		c.Parts[k] = c.Parts[k][:int64(len(c.Parts[k]))+n]
	}
}
