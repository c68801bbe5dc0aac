package keyindex

import (
	"bytes"
	"math"
)

// Source is a sorted list of entries in chunks: a Run, or a list in Memory.
type Source interface {
	// seek returns the number of the chunk in which e is, or would be.
	seek(e *RunEntry) (int, error)
	chunks() int
	chunk(number int) ([]RunEntry, error)
}

// Memory is a source of sorted entries in memory.
type Memory []RunEntry

func (m Memory) seek(*RunEntry) (int, error) { return 0, nil }

func (m Memory) chunks() int { return min(1, len(m)) }

func (m Memory) chunk(int) ([]RunEntry, error) { return m, nil }

// Reading is a run for one query, which often reads a chunk several times. It belongs to one goroutine.
type Reading struct {
	*Run
	number int
	list   []RunEntry
}

func (r *Reading) chunk(number int) (list []RunEntry, err error) {
	if r.list == nil || number != r.number {
		if list, err = r.Run.chunk(number); err != nil {
			return nil, err
		}
		r.number, r.list = number, list
	}
	return r.list, nil
}

// Cursor goes through a source. It belongs to one goroutine, and its zero value but for Source stands nowhere.
type Cursor struct {
	Source
	number int
	list   []RunEntry
	i      int // -1 and len(list) are before the first and behind the last entry of the source
}

// At is the entry under the cursor, or nil. It is not changed, but the cursor does not keep it.
func (c *Cursor) At() *RunEntry {
	if c.i < 0 || c.i >= len(c.list) {
		return nil
	}
	return &c.list[c.i]
}

// load goes to a chunk.
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

// Next goes on to the next entry.
func (c *Cursor) Next() error {
	if c.i++; c.i < len(c.list) || c.number+1 >= c.chunks() {
		return nil
	}
	c.i = 0
	return c.load(c.number + 1)
}

// Prev goes back to the entry before.
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

// Merged goes through several sources, oldest first, as if they were one: where they speak of the same record, the newest
// is believed.
type Merged []*Cursor

// NewMerged returns cursors that stand nowhere.
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

// First is the entry that comes next, nil if there is none.
func (m Merged) First() *RunEntry {
	var least *RunEntry
	for _, c := range m {
		if e := c.At(); e != nil && (least == nil || Compare(e, least) <= 0) {
			least = e
		}
	}
	return least
}

// Last is the entry that comes next on the way back, nil if there is none.
func (m Merged) Last() *RunEntry {
	var most *RunEntry
	for _, c := range m {
		if e := c.At(); e != nil && (most == nil || Compare(e, most) >= 0) {
			most = e
		}
	}
	return most
}

// Next goes on behind e, which First has given.
func (m Merged) Next(e *RunEntry) error { return m.move(*e, (*Cursor).Next) }

// Prev goes on before e, which Last has given.
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

// TakeKey returns the newest entries of a key, under which some of the cursors stand, and moves them behind it.
func (m Merged) TakeKey(k RunEntry) (Newest, error) {
	var n Newest
	for _, c := range m {
		for e := c.At(); e != nil && CompareKey(e, &k) == 0; e = c.At() {
			n.note(e)
			if c.i+1 < len(c.list) || c.number+1 >= c.chunks() {
				c.i++
				continue
			}
			// The key's entries may fill many chunks: those between the newest ones are passed over.
			if err := n.Collect(c, k.Topic, k.Key); err != nil {
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

// After is the smallest key behind another.
func After(key []byte) []byte { return append(bytes.Clone(key), 0) }

// Newest holds the newest entry of a key in each partition.
type Newest []RunEntry

// note takes an entry from a source that is no older than those noted before.
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

// Collect notes the newest entries of a key in a source, partition by partition from the highest. Sources come oldest
// first.
func (n *Newest) Collect(c *Cursor, topic uint32, key []byte) error {
	at := Highest(topic, key, math.MaxUint32)
	for {
		if err := c.SeekBefore(&at); err != nil {
			return err
		}
		e := c.At()
		if e == nil || e.Topic != topic || !bytes.Equal(e.Key, key) {
			return nil
		}
		n.note(e)
		at = Lowest(topic, key, e.Part)
	}
}
