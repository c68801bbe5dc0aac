package state

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Partitions holds the partitions of a topic by number. Unwritten partitions take no memory. The
// zero value is empty. Read-only outside this package.
type Partitions struct {
	n int
	// chunks hold partitionChunk partitions each. Partitions that a short or nil chunk lacks are
	// unwritten. Views share chunks, so set copies a chunk when it replaces a partition.
	chunks [][]*Partition
}

const partitionChunk = 64

// unwritten represents every partition in its initial state. All states share it, so it must not be
// modified.
var unwritten = &Partition{gen: math.MaxUint64}

// Len is the number of partitions.
func (p *Partitions) Len() int { return p.n }

// At returns a partition of [0, Len). It is never nil.
func (p *Partitions) At(i int) *Partition {
	if uint(i) >= uint(p.n) {
		panic(fmt.Sprintf("state: partition %d of %d", i, p.n))
	}
	if c := p.chunks[i/partitionChunk]; i%partitionChunk < len(c) {
		return c[i%partitionChunk]
	}
	return unwritten
}

// All yields all partitions by number.
func (p *Partitions) All() iter.Seq2[int, *Partition] {
	return func(yield func(int, *Partition) bool) {
		for i := range p.n {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Written yields the partitions that are not unwritten, by number.
func (p *Partitions) Written() iter.Seq2[int, *Partition] {
	return func(yield func(int, *Partition) bool) {
		for i, c := range p.chunks {
			for j, q := range c {
				if q != unwritten && !yield(i*partitionChunk+j, q) {
					return
				}
			}
		}
	}
}

// grow adds unwritten partitions until there are n.
func (p *Partitions) grow(n int) {
	if n <= p.n {
		return
	}
	chunks := make([][]*Partition, (n+partitionChunk-1)/partitionChunk)
	copy(chunks, p.chunks)
	p.n, p.chunks = n, chunks
}

// set replaces a partition, in a copy of its chunk.
func (p *Partitions) set(i int, q *Partition) {
	chunk := &p.chunks[i/partitionChunk]
	c := make([]*Partition, max(len(*chunk), min(partitionChunk, p.n-i/partitionChunk*partitionChunk)))
	for j := copy(c, *chunk); j < len(c); j++ {
		c[j] = unwritten
	}
	c[i%partitionChunk] = q
	*chunk = c
}

// partitionsOf builds Partitions from a list.
func partitionsOf(list []*Partition) (p Partitions) {
	p.grow(len(list))
	for at := 0; at < len(list); at += partitionChunk {
		c := list[at:min(at+partitionChunk, len(list))]
		if slices.ContainsFunc(c, func(q *Partition) bool { return q != unwritten }) {
			p.chunks[at/partitionChunk] = slices.Clone(c)
		}
	}
	return p
}

// catalog returns a copy without ranges.
func (p *Partitions) catalog() (c Partitions) {
	c.grow(p.n)
	for i, chunk := range p.chunks {
		c.chunks[i] = slices.Clone(chunk)
		for j, q := range chunk {
			if q != unwritten {
				c.chunks[i][j] = &Partition{Start: q.Start, Next: q.Next}
			}
		}
	}
	return c
}

// EpochsKept is how many epochs before the current one a state always knows. Garbage collection
// looks up the epoch of each name: for a known epoch it need not read the object.
const EpochsKept = 16

// forgetEpochs drops the epochs whose names are no longer needed: no range or pack lies in them, no
// partition's newest record is theirs, and they are not among the newest. Only their SEALs remain
// in the store, and nothing reads those. The function visits every range, once per epoch.
func (s *State) forgetEpochs() {
	old := len(s.Epochs) - EpochsKept
	if old <= 0 {
		return
	}
	used := s.usedEpochs()
	kept := make([]Epoch, 0, EpochsKept+len(used)+1)
	for i, e := range s.Epochs {
		if used[e.Number] || i >= old {
			kept = append(kept, e)
		}
	}
	s.Epochs = kept
}

// usedEpochs returns the epochs that hold data, and those of the newest records. By the latter a
// follower of the log recognizes that it is still the same log.
func (s *State) usedEpochs() map[uint32]bool {
	used := map[uint32]bool{}
	for id := range s.packs {
		used[id.Epoch] = true
	}
	for _, t := range s.topics {
		for _, p := range t.Partitions.Written() {
			if n := len(p.Epochs); n > 0 {
				used[p.Epochs[n-1].Epoch] = true
			}
			last, any := uint32(0), false // neighbors mostly lie in the same epoch
			for i := range p.Ranges {
				if e := p.Ranges[i].Epoch; e != last || !any {
					used[e], last, any = true, e, true
				}
			}
		}
	}
	return used
}

// KeepFrom returns the first offset of a partition that its topic's settings keep. A whole range is
// trimmed if it was appended longer than retention-time ago, or if retention-bytes or more follow
// it. So at least retention-bytes stay, and an overdue record stays until all of its range is
// overdue. What an open transaction holds back from readers of committed records stays, because they have not been
// able to read it. A topic that is only compacted keeps everything, as in Kafka.
func (p *Partition) KeepFrom(s *Settings, now time.Time) int64 {
	start := p.Start
	if !strings.Contains(s.CleanupPolicy, "delete") {
		return start
	}
	before := now.Add(-s.RetentionTime).UnixMicro()
	left, stable := p.Bytes, p.LastStable()
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.End() > stable {
			break
		}
		left -= int64(r.Len)
		old := s.RetentionTime != Unlimited && r.AppendTime < before
		many := s.RetentionBytes != Unlimited && left >= s.RetentionBytes
		if !old && !many {
			break
		}
		start = r.End()
	}
	return start
}
