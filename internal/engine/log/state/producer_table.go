package state

import (
	"cmp"
	"iter"
	"slices"
)

// producerTable holds the producers of a partition by ID, in chunks. Views share chunks, so a chunk
// of an older generation is copied before it is changed. The zero value is empty.
type producerTable struct {
	chunks []*producerChunk // none is empty
	n      int
}

type producerChunk struct {
	gen  uint64
	list []Producer // by ID
}

// producersChunk bounds a chunk: it is copied as a whole, and the list of chunks is copied for a
// partition that a view shares.
const producersChunk = 64

// All yields the producers by ID. They must not be changed.
func (t *producerTable) All() iter.Seq[*Producer] {
	return func(yield func(*Producer) bool) {
		for _, c := range t.chunks {
			for i := range c.list {
				if !yield(&c.list[i]) {
					return
				}
			}
		}
	}
}

// find returns where a producer is or belongs: a chunk, and a position in it.
func (t *producerTable) find(id int64) (chunk, at int, found bool) {
	chunk, _ = slices.BinarySearchFunc(t.chunks, id, func(c *producerChunk, id int64) int {
		return cmp.Compare(c.list[len(c.list)-1].ID, id)
	})
	if chunk == len(t.chunks) {
		if chunk--; chunk < 0 {
			return 0, 0, false
		}
	}
	at, found = slices.BinarySearchFunc(t.chunks[chunk].list, id, func(p Producer, id int64) int { return cmp.Compare(p.ID, id) })
	return chunk, at, found
}

// get returns a producer, which must not be changed, or nil.
func (t *producerTable) get(id int64) *Producer {
	if chunk, at, found := t.find(id); found {
		return &t.chunks[chunk].list[at]
	}
	return nil
}

// put adds or replaces a producer.
func (t *producerTable) put(gen uint64, p Producer) {
	if t.n == 0 {
		t.chunks, t.n = []*producerChunk{{gen, []Producer{p}}}, 1
		return
	}
	chunk, at, found := t.find(p.ID)
	if found {
		t.owned(gen, chunk).list[at] = p
		return
	}
	t.n++
	if full := t.chunks[chunk]; len(full.list) == producersChunk {
		if chunk == len(t.chunks)-1 && at == producersChunk { // ascending IDs leave full chunks
			t.chunks = append(t.chunks, &producerChunk{gen, []Producer{p}})
			return
		}
		const half = producersChunk / 2
		t.chunks[chunk] = &producerChunk{gen, slices.Clone(full.list[:half])}
		t.chunks = slices.Insert(t.chunks, chunk+1, &producerChunk{gen, slices.Clone(full.list[half:])})
		if at > half {
			chunk, at = chunk+1, at-half
		}
	}
	c := t.owned(gen, chunk)
	if n := len(c.list); n == cap(c.list) { // append would double it
		c.list = append(make([]Producer, 0, n+1+n/4), c.list...)
	}
	c.list = slices.Insert(c.list, at, p)
}

// owned returns a chunk that no view shares.
func (t *producerTable) owned(gen uint64, chunk int) *producerChunk {
	c := t.chunks[chunk]
	if c.gen != gen {
		c = &producerChunk{gen, slices.Clone(c.list)}
		t.chunks[chunk] = c
	}
	return c
}

// setOwners sets the owners of the producers, by ID. It refuses another number of owners, or none that
// is known.
func (t *producerTable) setOwners(of []uint32) bool {
	if len(of) != t.n || !slices.ContainsFunc(of, func(owner uint32) bool { return owner != 0 }) {
		return false
	}
	for _, c := range t.chunks {
		for i := range c.list {
			c.list[i].Owner, of = of[0], of[1:]
		}
	}
	return true
}

// drop removes the producers that f selects.
func (t *producerTable) drop(gen uint64, f func(*Producer) bool) {
	kept := make([]*producerChunk, 0, len(t.chunks))
	t.n = 0
	for _, c := range t.chunks {
		list := make([]Producer, 0, len(c.list))
		for i := range c.list {
			if !f(&c.list[i]) {
				list = append(list, c.list[i])
			}
		}
		switch n := len(list); {
		case n == len(c.list):
			kept = append(kept, c)
		case n > 0:
			kept = append(kept, &producerChunk{gen, slices.Clone(list)})
		}
		t.n += len(list)
	}
	t.chunks = slices.Clip(kept)
}
