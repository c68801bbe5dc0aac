package rules

import (
	"cmp"
	"errors"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// rowCache holds recently used rows: those of the current transaction, which writes them at its
// end, and others. When half of the limit is new, the rows that were not used meanwhile are
// dropped.
type rowCache struct {
	limit      int64
	young, old map[store.InstKey]*cached
	bytes      int64 // of young
	dirty      []store.InstKey

	key  store.InstKey // of last
	last *cached       // the row of the last get, in young; nil: none
}

// rowBytes estimates the memory of a row without its states and entity.
const rowBytes = 240

// get returns the row of a key. After a change the caller calls touch.
func (c *rowCache) get(tx *store.Tx, k store.InstKey) (*cached, error) {
	if c.last != nil && c.key == k {
		return c.last, nil
	}
	x, ok := c.young[k]
	if !ok {
		if x, ok = c.old[k]; !ok {
			x = &cached{}
			in, there, err := tx.Inst(k)
			if err == nil && there {
				err = x.decode(&in)
			}
			if err != nil {
				return nil, err
			}
		}
		c.add(k, x)
	}
	c.key, c.last = k, x
	return x, nil
}

// fetch reads rows in bulk, as far as the limit allows, because each may be large: get reads the others.
// keys may hold duplicates; fetch changes their order.
func (c *rowCache) fetch(tx *store.Tx, keys []store.InstKey) error {
	keys = slices.DeleteFunc(keys, func(k store.InstKey) bool {
		_, young := c.young[k]
		_, old := c.old[k]
		return young || old
	})
	sorting.Sort(keys, func(a, b store.InstKey) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Entity, b.Entity))
	})
	keys = slices.Compact(keys)
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].Group == keys[0].Group && keys[n].Partition == keys[0].Partition {
			n++
		}
		some := keys[:n]
		if keys = keys[n:]; n < 2 {
			continue
		}
		err := tx.EachInst(some, func(k store.InstKey, in store.Inst) error {
			if c.bytes > c.limit {
				return errLimit
			}
			x := &cached{}
			err := x.decode(&in)
			c.add(k, x)
			return err
		})
		if errors.Is(err, errLimit) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, k := range some {
			if c.young[k] == nil { // the file has none
				c.add(k, &cached{})
			}
		}
	}
	return nil
}

func compareKeys(a, b store.InstKey) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Partition, b.Partition))
}

func (c *rowCache) add(k store.InstKey, x *cached) {
	if c.young == nil {
		c.young = map[store.InstKey]*cached{}
	}
	c.young[k] = x
	x.counted = 0
	c.count(k, x)
}

// count updates the counted size of a row.
func (c *rowCache) count(k store.InstKey, x *cached) {
	n := rowBytes + int64(len(k.Entity)) + x.bytes
	c.bytes += n - x.counted
	x.counted = n
}

// touch marks a row as changed.
func (c *rowCache) touch(k store.InstKey, x *cached) {
	c.count(k, x)
	if !x.dirty {
		x.dirty = true
		c.dirty = append(c.dirty, k)
	}
}

// flush writes the changed rows in the order of the file, with the states of known triggers. It
// calls written for each row with a deadline.
func (c *rowCache) flush(tx *store.Tx, known func(no int64) bool, written func(k *store.InstKey, due int64)) error {
	sorting.Sort(c.dirty, compareKeys)
	keys := c.dirty[:0]
	var rows []store.Inst
	for _, k := range c.dirty {
		x := c.young[k]
		x.dirty = false
		for i := len(x.entries) - 1; i >= 0; i-- {
			if no := x.entries[i].no; !known(no) {
				x.remove(no)
			}
		}
		switch {
		case len(x.entries) > 0:
			in := x.encode()
			keys, rows = append(keys, k), append(rows, in)
			x.there = true
			if in.Due != 0 {
				written(&k, in.Due)
			}
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
	c.dirty, c.last = c.dirty[:0], nil
	if c.bytes > c.limit/2 {
		c.young, c.old, c.bytes = nil, c.young, 0
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
