package state

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

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
