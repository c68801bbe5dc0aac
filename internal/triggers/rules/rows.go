package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// cached is a row in memory; the zero Row if the file has none.
type cached struct {
	row   rule.Row
	there bool // in the file
	dirty bool
	bytes int64 // counted in rowCache.bytes
}

// rowCache holds recently used rows: those of the current transaction, which writes them at its
// end, and others. When half of the limit is new, the rows that were not used meanwhile are
// dropped.
type rowCache struct {
	limit      int64
	young, old map[store.InstKey]*cached
	bytes      int64 // of young
	dirty      []store.InstKey
}

// rowBytes estimates the memory of a row without its state and entity.
const rowBytes = 240

// get returns the row of a key. After a change the caller calls touch.
func (c *rowCache) get(tx *store.Tx, k store.InstKey) (*cached, error) {
	if x, ok := c.young[k]; ok {
		return x, nil
	}
	x, ok := c.old[k]
	if !ok {
		x = &cached{}
		in, there, err := tx.Inst(k)
		if err != nil {
			return nil, err
		}
		if x.there = there; there {
			if err := decodeRow(&x.row, &in); err != nil {
				return nil, err
			}
		}
	}
	c.add(k, x)
	return x, nil
}

// fetch reads the rows of one trigger and partition in bulk. keys may hold duplicates.
func (c *rowCache) fetch(tx *store.Tx, keys []store.InstKey) error {
	keys = slices.DeleteFunc(keys, func(k store.InstKey) bool {
		_, young := c.young[k]
		_, old := c.old[k]
		return young || old
	})
	sorting.Sort(keys, compareKeys)
	keys = slices.Compact(keys)
	if len(keys) < 2 {
		return nil
	}
	for _, k := range keys {
		c.add(k, &cached{})
	}
	return tx.EachInst(keys, func(k store.InstKey, in store.Inst) error {
		x := c.young[k]
		x.there = true
		defer c.count(k, x)
		return decodeRow(&x.row, &in)
	})
}

func compareKeys(a, b store.InstKey) int {
	return cmp.Or(cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Partition, b.Partition))
}

func (c *rowCache) add(k store.InstKey, x *cached) {
	if c.young == nil {
		c.young = map[store.InstKey]*cached{}
	}
	c.young[k] = x
	x.bytes = 0
	c.count(k, x)
}

// count updates the counted size of a row.
func (c *rowCache) count(k store.InstKey, x *cached) {
	n := rowBytes + int64(len(k.Entity)+cap(x.row.State))
	c.bytes += n - x.bytes
	x.bytes = n
}

// touch marks a row as changed.
func (c *rowCache) touch(k store.InstKey, x *cached) {
	c.count(k, x)
	if !x.dirty {
		x.dirty = true
		c.dirty = append(c.dirty, k)
	}
}

// flush writes the changed rows in the order of the file. It calls written for each row that the
// file then has.
func (c *rowCache) flush(tx *store.Tx, written func(k *store.InstKey, row *rule.Row)) error {
	sorting.Sort(c.dirty, compareKeys)
	keys := c.dirty[:0]
	var rows []store.Inst
	for _, k := range c.dirty {
		x := c.young[k]
		x.dirty = false
		switch {
		case !x.row.Blank():
			keys, rows = append(keys, k), append(rows, encodeRow(&x.row))
			x.there = true
			written(&k, &x.row)
		case x.there:
			if err := tx.DropInst(k); err != nil {
				return err
			}
			x.there = false
		}
	}
	if err := tx.PutInsts(keys, rows); err != nil {
		return err
	}
	c.dirty = c.dirty[:0]
	if c.bytes > c.limit/2 {
		c.young, c.old, c.bytes = nil, c.young, 0
	}
	return nil
}

func encodeRow(w *rule.Row) store.Inst { return store.Inst{Due: w.Due, Data: w.Encode()} }

func decodeRow(w *rule.Row, in *store.Inst) error {
	if err := w.Decode(in.Data, in.Due); err != nil {
		return fmt.Errorf("%w: %w", localdb.ErrDamaged, err)
	}
	return nil
}

// NamesMax bounds the remembered event names of a topic, which are for suggestions.
const NamesMax = 10_000

// namesMemoryMax bounds the names in memory, of all topics, in bytes.
const namesMemoryMax = 256 << 10

// nameCache holds names that are in the file.
type nameCache struct {
	known map[topicName]bool
	count map[record.ID]int // number of names in the file, of the topics of known
	bytes int
}

type topicName struct {
	topic record.ID
	name  string
}

// rememberName remembers an event name of a topic.
func (w *worker) rememberName(tx *store.Tx, topic record.ID, name string) error {
	c := &w.names
	k := topicName{topic, name}
	if c.known[k] {
		return nil
	}
	if c.known == nil || c.bytes > namesMemoryMax {
		*c = nameCache{known: map[topicName]bool{}, count: map[record.ID]int{}}
	}
	n, counted := c.count[topic]
	if !counted {
		var err error
		if n, err = tx.CountNames(topic); err != nil {
			return err
		}
	}
	c.known[k] = true
	c.bytes += nameMemory + len(name)
	c.count[topic] = n
	if n >= NamesMax {
		return nil
	}
	added, err := tx.PutName(topic, name)
	if added {
		c.count[topic]++
	}
	return err
}
