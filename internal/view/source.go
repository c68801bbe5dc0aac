package view

import (
	"bytes"
	"math"
)

// source is a sorted list of entries in chunks: a run in the file, or a list in memory.
type source interface {
	// seek returns the number of the chunk in which e is, or would be.
	seek(e *entry) (int, error)
	chunks() int
	chunk(number int) ([]entry, error)
}

// memory is a source of one chunk.
type memory []entry

func (m memory) seek(*entry) (int, error) { return 0, nil }

func (m memory) chunks() int { return min(1, len(m)) }

func (m memory) chunk(int) ([]entry, error) { return m, nil }

// reading is a run for one query, which often reads a chunk several times.
type reading struct {
	*run
	number int
	list   []entry
}

func (r *reading) chunk(number int) (list []entry, err error) {
	if r.list == nil || number != r.number {
		if list, err = r.run.chunk(number); err != nil {
			return nil, err
		}
		r.number, r.list = number, list
	}
	return r.list, nil
}

// cursor goes through a source. It belongs to one goroutine.
type cursor struct {
	source
	number int
	list   []entry
	i      int // -1 and len(list) are before the first and behind the last entry of the source
}

// at is the entry under the cursor, or nil.
func (c *cursor) at() *entry {
	if c.i < 0 || c.i >= len(c.list) {
		return nil
	}
	return &c.list[c.i]
}

// load goes to a chunk.
func (c *cursor) load(number int) error {
	list, err := c.chunk(number)
	c.number, c.list = number, list
	return err
}

// seek goes to the first entry that is not before e.
func (c *cursor) seek(e *entry) error {
	if c.chunks() == 0 {
		c.list, c.i = nil, 0
		return nil
	}
	number, err := c.source.seek(e)
	if err == nil && (c.list == nil || number != c.number) {
		err = c.load(number)
	}
	if err != nil {
		return err
	}
	if c.i = find(c.list, e); c.i == len(c.list) && number+1 < c.chunks() {
		c.i = 0
		return c.load(number + 1)
	}
	return nil
}

// seekBefore goes to the last entry before e.
func (c *cursor) seekBefore(e *entry) error {
	if err := c.seek(e); err != nil {
		return err
	}
	return c.prev()
}

func (c *cursor) next() error {
	if c.i++; c.i < len(c.list) || c.number+1 >= c.chunks() {
		return nil
	}
	c.i = 0
	return c.load(c.number + 1)
}

func (c *cursor) prev() error {
	if c.i--; c.i >= 0 || c.number == 0 {
		return nil
	}
	if err := c.load(c.number - 1); err != nil {
		return err
	}
	c.i = len(c.list) - 1
	return nil
}

// merged goes through several sources, oldest first, as if they were one: where they speak of the same record, the newest
// is believed.
type merged []*cursor

func newMerged(sources []source) merged {
	m := make(merged, len(sources))
	for i, s := range sources {
		m[i] = &cursor{source: s}
	}
	return m
}

func (m merged) seek(e *entry) error {
	for _, c := range m {
		if err := c.seek(e); err != nil {
			return err
		}
	}
	return nil
}

func (m merged) seekBefore(e *entry) error {
	for _, c := range m {
		if err := c.seekBefore(e); err != nil {
			return err
		}
	}
	return nil
}

// first is the smallest entry under the cursors, nil if there is none.
func (m merged) first() *entry {
	var least *entry
	for _, c := range m {
		if e := c.at(); e != nil && (least == nil || compare(e, least) <= 0) {
			least = e
		}
	}
	return least
}

// last is the greatest.
func (m merged) last() *entry {
	var most *entry
	for _, c := range m {
		if e := c.at(); e != nil && (most == nil || compare(e, most) >= 0) {
			most = e
		}
	}
	return most
}

// next goes on behind e, which first has given; prev before e, which last has given.
func (m merged) next(e *entry) error { return m.move(*e, (*cursor).next) }

func (m merged) prev(e *entry) error { return m.move(*e, (*cursor).prev) }

func (m merged) move(e entry, step func(*cursor) error) error {
	for _, c := range m {
		if at := c.at(); at != nil && compare(at, &e) == 0 {
			if err := step(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest holds the newest entry of a key in each partition.
type newest []entry

// note takes an entry from a source that is no older than those noted before.
func (n *newest) note(e *entry) {
	for i := range *n {
		if have := &(*n)[i]; have.part == e.part {
			if e.offset >= have.offset {
				*have = *e
			}
			return
		}
	}
	*n = append(*n, *e)
}

// collect notes the newest entries of a key in a source, partition by partition from the highest.
func (n *newest) collect(c *cursor, topic uint32, key []byte) error {
	at := highest(topic, key, math.MaxUint32)
	for {
		if err := c.seekBefore(&at); err != nil {
			return err
		}
		e := c.at()
		if e == nil || e.topic != topic || !bytes.Equal(e.key, key) {
			return nil
		}
		n.note(e)
		at = lowest(topic, key, e.part)
	}
}
