package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// PackID identifies a pack: the epoch that installed it, and its number there.
type PackID struct {
	Epoch uint32
	ID    uint64
}

// Pack is an installed pack. A pack of the current epoch stays in the state after its last live
// range is gone. Only then may it be deleted, because an unknown pack of the current epoch may
// still be installed (rule R7).
type Pack struct {
	Size      int64 // bytes of its batches
	Live      int64 // bytes of its batches that ranges of the state refer to
	Installed bool  // always true in the state: the zero value means "unknown"
}

// PackOf returns an installed pack; ok is false if it is unknown.
func (s *State) PackOf(id PackID) (Pack, bool) {
	p, ok := s.packs[id]
	return p, ok
}

// Packs returns the installed packs by epoch and number.
func (s *State) Packs() []PackID {
	return sorting.Sorted(maps.Keys(s.packs), func(a, b PackID) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.ID, b.ID))
	})
}

// packsForWrite returns a map of packs that no view shares.
func (s *State) packsForWrite() map[PackID]Pack {
	if s.packsGen != s.gen {
		s.packs, s.packsGen = maps.Clone(s.packs), s.gen
	}
	return s.packs
}

// installPack replaces ranges by a pack's content where they are unchanged since the merger read
// them (rule R8). It skips ranges that were trimmed, deleted or moved since.
func (s *State) installPack(epoch uint32, c *PackContent) {
	if s.noRange {
		return
	}
	id := PackID{epoch, c.ID}
	size := int64(0)
	for i := range c.Entries {
		size += int64(c.Entries[i].Range.Len)
	}
	s.packsForWrite()[id] = Pack{Size: size, Installed: true}
	for i := range c.Entries {
		e := &c.Entries[i]
		t := s.topics[e.Topic]
		if t == nil || e.Partition >= uint32(t.Partitions.Len()) {
			continue
		}
		from, to, ok := t.Partitions.At(int(e.Partition)).sources(e)
		if !ok {
			continue
		}
		p := s.partitionForWrite(s.topicForWrite(e.Topic), e.Partition)
		for j := from; j < to; j++ {
			s.dereference(&p.Ranges[j])
			p.count(&p.Ranges[j], -1)
		}
		r := e.Range
		r.Epoch, r.Slot, r.Pack = epoch, c.ID, true
		s.tally.ranges += 1 - (to - from)
		// a new slice, because views share the old one
		p.Ranges = slices.Concat(p.Ranges[:from], []Range{r}, p.Ranges[to:])
		p.count(&r, 1)
		pack := s.packs[id]
		pack.Live += int64(r.Len)
		s.packs[id] = pack
	}
}

// sources finds the ranges [from, to) that an entry replaces. Ranges below the start offset may be
// gone; all others must lie where the merger read them.
func (p *Partition) sources(e *PackEntry) (from, to int, ok bool) {
	end := e.Range.End()
	from, _ = slices.BinarySearchFunc(p.Ranges, e.Range.Base, func(r Range, o int64) int { return cmp.Compare(r.Base, o) })
	for to = from; to < len(p.Ranges) && p.Ranges[to].End() <= end; to++ {
	}
	n := to - from
	if n == 0 || n > len(e.Sources) || p.Ranges[to-1].End() != end || from > 0 && p.Ranges[from-1].End() > e.Range.Base {
		return 0, 0, false
	}
	if n < len(e.Sources) && from > 0 || n == len(e.Sources) && p.Ranges[from].Base != e.Range.Base {
		return 0, 0, false
	}
	for i, src := range e.Sources[len(e.Sources)-n:] {
		if p.Ranges[from+i].Source() != src {
			return 0, 0, false
		}
	}
	return from, to, true
}

// dereference subtracts a range's bytes from its pack. A pack of an earlier epoch without live
// bytes is dropped.
func (s *State) dereference(r *Range) {
	if !r.Pack {
		return
	}
	id := PackID{r.Epoch, r.Slot}
	packs := s.packsForWrite()
	p := packs[id]
	p.Live -= int64(r.Len)
	if packs[id] = p; p.Live <= 0 && id.Epoch < s.Pos.Epoch {
		delete(packs, id)
	}
}

// forgetPacks drops packs without live bytes when their epoch ends.
func (s *State) forgetPacks() {
	for _, id := range s.Packs() {
		if s.packs[id].Live <= 0 {
			delete(s.packsForWrite(), id)
		}
	}
}

// packRow is an installed pack in a snapshot.
type packRow struct {
	PackID
	Pack
}

func packRowFields(_, p *packRow, c *protobuf.Codec) {
	protobuf.Varint(c, &p.Epoch)
	protobuf.Varint(c, &p.ID)
	protobuf.Varint(c, &p.Size)
	if protobuf.Varint(c, &p.Live); p.Size < 0 || p.Live < 0 {
		c.Fail(fmt.Errorf("pack %d of epoch %d with %d of %d bytes: %w", p.ID, p.Epoch, p.Live, p.Size, errWire))
	}
}

// packFields lists the installed packs as a field of packed varints.
func (s *State) packFields(c *protobuf.Codec, num protowire.Number) {
	var list []packRow
	if !c.Decoding() {
		for _, id := range s.Packs() {
			list = append(list, packRow{id, s.packs[id]})
		}
	}
	protobuf.Rows(c, num, "packs", &list, packRowFields)
	if c.Decoding() {
		for _, p := range list {
			p.Installed = true
			s.packs[p.PackID] = p.Pack
		}
	}
}

// fields lists the fields of a pack's content (FORMAT.md).
func (p *PackContent) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	protobuf.Int(c, 1, "number", &p.ID)
	protobuf.Int(c, 2, "size", &p.Size)
	protobuf.Messages(c, 3, "entry", &p.Entries, (*PackEntry).fields)
}

func (e *PackEntry) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.Fixed(1, "topic", e.Topic[:])
	protobuf.Int(c, 2, "partition", &e.Partition)
	r := &e.Range
	if !c.Decoding() {
		r = new(e.Range)
		r.Epoch, r.Slot, r.Pack = 0, 0, true
	}
	protobuf.Row(c, 3, "range", r, (*Range).row)
	protobuf.Rows(c, 4, "sources", &e.Sources, sourceRow)
	if c.Done() && (len(e.Sources) == 0 || e.Range.Span == 0) {
		c.Fail(fmt.Errorf("entry of a pack without range or sources: %w", errWire))
	}
}

func sourceRow(_, s *Source, c *protobuf.Codec) {
	protobuf.Varint(c, &s.Epoch)
	protobuf.Varint(c, &s.Slot)
	at := uint64(s.Pos)<<1 | uint64(bit(s.Pack))
	if protobuf.Varint(c, &at); c.Decoding() {
		if s.Pos, s.Pack = uint32(at>>1), at&1 != 0; at>>1 > math.MaxUint32 {
			c.Fail(fmt.Errorf("position %d: %w", at>>1, errWire))
		}
	}
}

// compacted records a finished compaction. Marks are copied, because views share them.
func (p *Partition) compacted(c *Compaction) {
	p.Clean = max(p.Clean, min(c.To, p.Next))
	p.Swept = max(p.Swept, min(c.Swept, p.Clean))
	marks := make([]Mark, 0, len(p.Marks)+1)
	for _, m := range p.Marks {
		if m.Offset > c.Swept {
			marks = append(marks, m)
		}
	}
	if n := len(marks); c.Tombstones > 0 && (n == 0 || marks[n-1].Offset < p.Clean) {
		marks = append(marks, Mark{Offset: p.Clean, Time: c.Time})
	}
	if len(marks) > MarksMax {
		marks = joinMarks(marks)
	}
	p.Marks = slices.Clip(marks)
}

// joinMarks removes the mark that lies closest in time to its successor. Its tombstones then belong
// to the successor, so they wait the shortest time longer.
func joinMarks(marks []Mark) []Mark {
	least := 0
	for i := 1; i < len(marks)-1; i++ {
		if marks[i+1].Time-marks[i].Time < marks[least+1].Time-marks[least].Time {
			least = i
		}
	}
	return slices.Delete(marks, least, least+1)
}

// Sweepable is the offset below which tombstones may be removed: a compaction that finished at or
// before the given time (µs) removed everything older than them.
func (p *Partition) Sweepable(before int64) int64 {
	to := int64(0)
	for _, m := range p.Marks {
		if m.Time > before {
			break
		}
		to = m.Offset
	}
	return to
}

func (o *Compaction) row(c *protobuf.Codec) {
	protobuf.Varint(c, &o.To)
	protobuf.Varint(c, &o.Swept)
	protobuf.Varint(c, &o.Tombstones)
	if protobuf.Varint(c, &o.Time); o.To < 0 || o.Swept < 0 {
		c.Fail(fmt.Errorf("compaction to %d, swept to %d: %w", o.To, o.Swept, errWire))
	}
}

func markRow(_, m *Mark, c *protobuf.Codec) {
	protobuf.Varint(c, &m.Offset)
	protobuf.Varint(c, &m.Time)
}
