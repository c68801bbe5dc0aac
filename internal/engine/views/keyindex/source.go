package keyindex

import (
	"bytes"
	"math"
)

// Source is a sorted list of entries in chunks: a Run, or a list in Memory.
type Source interface {
	// seek returns the number of the chunk in which e is or would be.
	seek(e *RunEntry) (int, error)
	chunks() int
	chunk(number int) ([]RunEntry, error)
	// before returns the last entry before e, or nil. have is the blocks that prefetch has read.
	before(e *RunEntry, have []*cached) (*RunEntry, error)
}

// Memory is a source of sorted entries in memory.
type Memory []RunEntry

func (m Memory) seek(*RunEntry) (int, error) { return 0, nil }

func (m Memory) chunks() int { return min(1, len(m)) }

func (m Memory) chunk(int) ([]RunEntry, error) { return m, nil }

func (m Memory) before(e *RunEntry, _ []*cached) (*RunEntry, error) {
	if i := find(m, e); i > 0 {
		return &m[i-1], nil
	}
	return nil, nil
}

// Cursor is a position in a source. It must not be used concurrently. With only Source set it is
// not positioned.
type Cursor struct {
	Source
	number int
	list   []RunEntry
	i      int // -1 is before the first entry of the source, len(list) after the last
}

// At is the entry at the cursor, or nil. It is immutable, and may be used after the cursor moves.
func (c *Cursor) At() *RunEntry {
	if c.i < 0 || c.i >= len(c.list) {
		return nil
	}
	return &c.list[c.i]
}

// load moves to a chunk.
func (c *Cursor) load(number int) error {
	list, err := c.chunk(number)
	c.number, c.list = number, list
	return err
}

// Seek goes to the first entry that is not before e.
func (c *Cursor) Seek(e *RunEntry) error {
	if c.chunks() == 0 {
		c.list, c.i = nil, 0
		return nil
	}
	number, err := c.seek(e)
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

// SeekBefore goes to the last entry before e.
func (c *Cursor) SeekBefore(e *RunEntry) error {
	if err := c.Seek(e); err != nil {
		return err
	}
	return c.Prev()
}

// Next moves to the next entry.
func (c *Cursor) Next() error {
	if c.i++; c.i < len(c.list) || c.number+1 >= c.chunks() {
		return nil
	}
	c.i = 0
	return c.load(c.number + 1)
}

// Prev moves to the previous entry.
func (c *Cursor) Prev() error {
	if c.i--; c.i >= 0 || c.number == 0 {
		return nil
	}
	if err := c.load(c.number - 1); err != nil {
		return err
	}
	c.i = len(c.list) - 1
	return nil
}

// Merged is a position in several sources, oldest first, as if they were one: for a record in
// several sources the newest decides.
type Merged []*Cursor

// NewMerged returns cursors that are not positioned.
func NewMerged(sources []Source) Merged {
	m := make(Merged, len(sources))
	for i, s := range sources {
		m[i] = &Cursor{Source: s}
	}
	return m
}

// Seek goes to the first entry that is not before e.
func (m Merged) Seek(e *RunEntry) error {
	for _, c := range m {
		if err := c.Seek(e); err != nil {
			return err
		}
	}
	return nil
}

// SeekBefore goes to the last entry before e.
func (m Merged) SeekBefore(e *RunEntry) error {
	for _, c := range m {
		if err := c.SeekBefore(e); err != nil {
			return err
		}
	}
	return nil
}

// First is the next entry upwards, nil if there is none.
func (m Merged) First() *RunEntry {
	var least *RunEntry
	for _, c := range m {
		if e := c.At(); e != nil && (least == nil || Compare(e, least) <= 0) {
			least = e
		}
	}
	return least
}

// Last is the next entry downwards, nil if there is none.
func (m Merged) Last() *RunEntry {
	var most *RunEntry
	for _, c := range m {
		if e := c.At(); e != nil && (most == nil || Compare(e, most) >= 0) {
			most = e
		}
	}
	return most
}

// Next moves behind e, which First has returned.
func (m Merged) Next(e *RunEntry) error { return m.move(*e, (*Cursor).Next) }

// Prev moves before e, which Last has returned.
func (m Merged) Prev(e *RunEntry) error { return m.move(*e, (*Cursor).Prev) }

func (m Merged) move(e RunEntry, step func(*Cursor) error) error {
	for _, c := range m {
		if at := c.At(); at != nil && Compare(at, &e) == 0 {
			if err := step(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// TakeKey returns the newest entries of a key, at which some of the cursors are, and moves them
// behind the key.
func (m Merged) TakeKey(k RunEntry) (Newest, error) {
	var n Newest
	for _, c := range m {
		for e := c.At(); e != nil && CompareKey(e, &k) == 0; e = c.At() {
			n.note(e)
			if c.i+1 < len(c.list) || c.number+1 >= c.chunks() {
				c.i++
				continue
			}
			// The key's entries may fill many chunks: skip those between the newest ones.
			if err := n.collect(c.Source, k.Topic, k.Key, nil); err != nil {
				return nil, err
			}
			behind := Lowest(k.Topic, After(k.Key), 0)
			if err := c.Seek(&behind); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// After is the smallest key that is greater than key.
func After(key []byte) []byte { return append(bytes.Clone(key), 0) }

// Newest is the newest entry of a key in each partition.
type Newest []RunEntry

// note adds an entry of a source that is not older than the sources before.
func (n *Newest) note(e *RunEntry) {
	for i := range *n {
		if have := &(*n)[i]; have.Part == e.Part {
			if e.Offset >= have.Offset {
				*have = *e
			}
			return
		}
	}
	*n = append(*n, *e)
}

// collect adds the newest entries of a key in a source, partition by partition from the highest.
// Call it for the oldest source first.
func (n *Newest) collect(s Source, topic uint32, key []byte, have []*cached) error {
	at := Highest(topic, key, math.MaxUint32)
	for {
		e, err := s.before(&at, have)
		if err != nil || e == nil || e.Topic != topic || !bytes.Equal(e.Key, key) {
			return err
		}
		n.note(e)
		at = Lowest(topic, key, e.Part)
	}
}
