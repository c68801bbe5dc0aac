package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/sorting"
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

func (s *State) encodePacks() []byte {
	var b []byte
	for _, id := range s.Packs() {
		p := s.packs[id]
		for _, v := range [...]uint64{uint64(id.Epoch), id.ID, uint64(p.Size), uint64(p.Live)} {
			b = protowire.AppendVarint(b, v)
		}
	}
	return b
}

func (s *State) decodePacks(b []byte) error {
	for len(b) > 0 {
		var v [4]uint64
		var ok bool
		if b, ok = consumeVarints(b, v[:]); !ok {
			return errWire
		}
		epoch, err := uint32Of(v[0])
		p := Pack{Size: int64(v[2]), Live: int64(v[3]), Installed: true}
		if err != nil || p.Size < 0 || p.Live < 0 {
			return fmt.Errorf("pack %d of epoch %d with %d of %d bytes: %w", v[1], v[0], v[3], v[2], errWire)
		}
		s.packs[PackID{epoch, v[1]}] = p
	}
	return nil
}

// Field numbers of a pack's content (FORMAT.md).
const (
	packNumber = 1
	packSize   = 2
	packEntry  = 3 // repeated

	entryTopic     = 1
	entryPartition = 2
	entryRange     = 3 // as a partition's ranges in a snapshot
	entrySources   = 4 // packed varints: epoch, slot or id, position << 1 | pack
)

func encodePack(c *PackContent) []byte {
	b := appendVarint(nil, packNumber, c.ID)
	b = appendVarint(b, packSize, uint64(c.Size))
	for i := range c.Entries {
		e := &c.Entries[i]
		m := appendBytes(nil, entryTopic, e.Topic[:])
		m = appendVarint(m, entryPartition, uint64(e.Partition))
		r := e.Range
		r.Epoch, r.Slot, r.Pack = 0, 0, true
		m = appendBytes(m, entryRange, encodeRanges([]Range{r}))
		var src []byte
		for _, s := range e.Sources {
			src = protowire.AppendVarint(src, uint64(s.Epoch))
			src = protowire.AppendVarint(src, s.Slot)
			src = protowire.AppendVarint(src, uint64(s.Pos)<<1|uint64(bit(s.Pack)))
		}
		b = appendBytes(b, packEntry, appendBytes(m, entrySources, src))
	}
	return b
}

var (
	packFields  = schemaOf(packEntry, packNumber, packSize)
	entryFields = schemaOf(entrySources, entryPartition)
)

func decodePack(c *PackContent, b []byte) error {
	return fields(b, packFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case packNumber:
			c.ID = v
		case packSize:
			c.Size = int64(v)
		case packEntry:
			e, err := decodePackEntry(m)
			c.Entries = append(c.Entries, e)
			return err
		}
		return nil
	})
}

func decodePackEntry(b []byte) (e PackEntry, err error) {
	err = fields(b, entryFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case entryTopic:
			return copyID(&e.Topic, m)
		case entryPartition:
			e.Partition, err = uint32Of(v)
		case entryRange:
			var p Partition
			if err := p.decodeRanges(m); err != nil || len(p.Ranges) != 1 {
				return fmt.Errorf("range of a pack: %w", errWire)
			}
			e.Range = p.Ranges[0]
		case entrySources:
			for len(m) > 0 {
				var v [3]uint64
				var ok bool
				if m, ok = consumeVarints(m, v[:]); !ok || v[0] > math.MaxUint32 || v[2]>>1 > math.MaxUint32 {
					return fmt.Errorf("source of a pack: %w", errWire)
				}
				e.Sources = append(e.Sources, Source{uint32(v[0]), v[1], uint32(v[2] >> 1), v[2]&1 != 0})
			}
		}
		return err
	})
	if err == nil && (len(e.Sources) == 0 || e.Range.Span == 0) {
		err = fmt.Errorf("entry of a pack without range or sources: %w", errWire)
	}
	return e, err
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

func encodeCompaction(c *Compaction) []byte {
	return appendVarints(nil, uint64(c.To), uint64(c.Swept), uint64(c.Tombstones), uint64(c.Time))
}

func decodeCompaction(c *Compaction, b []byte) error {
	var v [4]uint64
	if rest, ok := consumeVarints(b, v[:]); !ok || len(rest) > 0 {
		return errWire
	}
	if int64(v[0]) < 0 || int64(v[1]) < 0 || v[2] > math.MaxUint32 {
		return fmt.Errorf("compaction to %d, swept to %d, %d tombstones: %w", v[0], v[1], v[2], errWire)
	}
	*c = Compaction{To: int64(v[0]), Swept: int64(v[1]), Tombstones: uint32(v[2]), Time: int64(v[3])}
	return nil
}

func encodeMarks(marks []Mark) []byte {
	var b []byte
	for _, m := range marks {
		b = appendVarints(b, uint64(m.Offset), uint64(m.Time))
	}
	return b
}

func (p *Partition) decodeMarks(b []byte) error {
	for len(b) > 0 {
		var v [2]uint64
		var ok bool
		if b, ok = consumeVarints(b, v[:]); !ok || len(p.Marks) == MarksMax {
			return errWire
		}
		p.Marks = append(p.Marks, Mark{Offset: int64(v[0]), Time: int64(v[1])})
	}
	return nil
}

func appendVarints(b []byte, v ...uint64) []byte {
	for _, u := range v {
		b = protowire.AppendVarint(b, u)
	}
	return b
}

// consumeVarints reads len(v) varints.
func consumeVarints(b []byte, v []uint64) (rest []byte, ok bool) {
	for i := range v {
		u, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, false
		}
		v[i], b = u, b[n:]
	}
	return b, true
}
