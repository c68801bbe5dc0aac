package state

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// Partitions are the partitions of a topic, by number. Those to which nothing was written take no memory. The zero value
// has none. Read-only outside this package.
type Partitions struct {
	n int
	// chunks hold partitionChunk partitions each. One that is too short, or nil, lacks only unwritten ones. Views share them:
	// a chunk is copied when a partition in it is replaced.
	chunks [][]*Partition
}

const partitionChunk = 64

// unwritten stands for every partition that is as it was made. All states share it, so it is copied before it is changed.
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

// All goes over all partitions, by number.
func (p *Partitions) All() iter.Seq2[int, *Partition] {
	return func(yield func(int, *Partition) bool) {
		for i := range p.n {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Written goes over the partitions that are not as they were made, by number.
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

// partitionsOf makes partitions of a list of them.
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

// catalog returns a copy without where the data lies.
func (p *Partitions) catalog() (c Partitions) {
	c.grow(p.n)
	for i, chunk := range p.chunks {
		c.chunks[i] = slices.Clone(chunk)
		for j, q := range chunk {
			if q != unwritten {
				c.chunks[i][j] = &Partition{Start: q.Start, Next: q.Next, Producers: maps.Clone(q.Producers)}
			}
		}
	}
	return c
}
