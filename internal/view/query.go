package view

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// listBytes bounds the keys of one List.
const listBytes = 4 << 20

// lookup is a query of one topic under way.
type lookup struct {
	sources []source // oldest first
	topic   uint32
	parts   []Partition // as committed, by number
}

// bounds of a partition; nothing of one that is not there is to be seen.
func (q *lookup) bounds(part uint32) bounds {
	if int(part) >= len(q.parts) {
		return bounds{start: math.MaxInt64}
	}
	p := &q.parts[part]
	return bounds{p.Start, p.Clean, p.Swept}
}

// visible says whether the record of an entry is there, if it is the newest of its key and partition.
func (q *lookup) visible(e *entry) bool {
	b := q.bounds(e.part)
	return e.offset >= b.start && !e.gone() && !(e.deleted() && e.offset < b.swept)
}

// newestOf returns the newest of the records of a key in all partitions.
func (q *lookup) newestOf(n newest) (best *entry) {
	for i := range n {
		e := &n[i]
		if q.visible(e) && (best == nil || cmp.Or(cmp.Compare(e.time, best.time), cmp.Compare(e.part, best.part)) > 0) {
			best = e
		}
	}
	return best
}

// get finds the newest record of a key in a partition, or in any (-1).
func (q *lookup) get(key []byte, part int) (*entry, error) {
	if part < 0 && len(q.parts) == 1 {
		part = 0
	}
	var n newest
	if part >= 0 {
		e, err := q.newestIn(key, uint32(part))
		if err != nil || e == nil {
			return nil, err
		}
		n = newest{*e}
	} else {
		for _, s := range q.sources {
			if err := n.collect(&cursor{source: s}, q.topic, key); err != nil {
				return nil, err
			}
		}
	}
	return q.newestOf(n), nil
}

// newestIn finds the newest entry of a key in a partition. Entries that say that a record is gone may be newer than those of
// later records; all others are the newer the newer their source, so that the first one found ends the search.
func (q *lookup) newestIn(key []byte, part uint32) (best *entry, err error) {
	behind := highest(q.topic, key, part)
	for _, s := range slices.Backward(q.sources) {
		c := cursor{source: s}
		if err := c.seekBefore(&behind); err != nil {
			return nil, err
		}
		e := c.at()
		if e == nil || !samePart(e, &behind) {
			continue
		}
		if best == nil || e.offset > best.offset {
			best = e
		}
		if !e.gone() {
			break
		}
	}
	return best, nil
}

// list finds the next keys that have a value.
func (q *lookup) list(l *ListQuery) ([]Entry, error) {
	var out []Entry
	from := lowest(q.topic, l.Prefix, 0)
	if l.After != nil && bytes.Compare(l.After, l.Prefix) >= 0 {
		from = lowest(q.topic, after(l.After), 0)
	}
	m := newMerged(q.sources)
	if err := m.seek(&from); err != nil {
		return nil, err
	}
	size := 0
	for len(out) < l.Limit && size < listBytes {
		e := m.first()
		if e == nil || e.topic != q.topic || !bytes.HasPrefix(e.key, l.Prefix) {
			break
		}
		n, err := takeKey(m, *e)
		if err != nil {
			return nil, err
		}
		if best := q.newestOf(n); best != nil && !best.deleted() {
			out = append(out, best.public())
			size += len(best.key)
		}
	}
	return out, nil
}

// after is the smallest key behind another.
func after(key []byte) []byte { return append(bytes.Clone(key), 0) }

// takeKey returns the newest entries of a key and moves all cursors behind it.
func takeKey(m merged, k entry) (newest, error) {
	var n newest
	for _, c := range m {
		for e := c.at(); e != nil && compareKey(e, &k) == 0; e = c.at() {
			n.note(e)
			if c.i+1 < len(c.list) || c.number+1 >= c.chunks() {
				c.i++
				continue
			}
			// The key's entries may fill many chunks: those between the newest ones are passed over.
			if err := n.collect(c, k.topic, k.key); err != nil {
				return nil, err
			}
			behind := lowest(k.topic, after(k.key), 0)
			if err := c.seek(&behind); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// partitionsOf lists the partitions in which a key stands, visible or not.
func (q *lookup) partitionsOf(key []byte) ([]uint32, error) {
	var n newest
	for _, s := range q.sources {
		if err := n.collect(&cursor{source: s}, q.topic, key); err != nil {
			return nil, err
		}
	}
	parts := make([]uint32, len(n))
	for i := range n {
		parts[i] = n[i].part
	}
	slices.Sort(parts)
	return parts, nil
}

// exists says whether there is an entry of a record that nobody has found gone.
func (q *lookup) exists(e *entry) (bool, error) {
	m := newMerged(q.sources)
	if err := m.seek(e); err != nil {
		return false, err
	}
	at := m.first()
	return at != nil && compare(at, e) == 0 && !at.gone(), nil
}
