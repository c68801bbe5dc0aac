package keyindex

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/views"
)

// listBytes bounds the keys of one List.
const listBytes = 4 << 20

// lookup is a query of one topic.
type lookup struct {
	sources []Source // oldest first
	topic   uint32
	parts   []views.Partition // as committed, by number
}

// bounds returns the bounds of a partition; nothing is visible in a partition that does not exist.
func (q *lookup) bounds(part uint32) bounds {
	if int(part) >= len(q.parts) {
		return bounds{start: math.MaxInt64}
	}
	p := &q.parts[part]
	return bounds{p.Start, p.Clean, p.Swept}
}

// visible reports whether the record of an entry exists, if it is the newest of its key and
// partition.
func (q *lookup) visible(e *RunEntry) bool {
	b := q.bounds(e.Part)
	return e.Offset >= b.start && !e.IsGone() && !(e.IsDeleted() && e.Offset < b.swept)
}

// newestOf returns the newest visible record of a key in all partitions.
func (q *lookup) newestOf(n Newest) (best *RunEntry) {
	for i := range n {
		e := &n[i]
		if q.visible(e) && (best == nil || cmp.Or(cmp.Compare(e.Time, best.Time), cmp.Compare(e.Part, best.Part)) > 0) {
			best = e
		}
	}
	return best
}

// get finds the newest record of a key in a partition, or in any (-1).
func (q *lookup) get(key []byte, part int) (*RunEntry, error) {
	if part < 0 && len(q.parts) == 1 {
		part = 0
	}
	var n Newest
	if part >= 0 {
		e, err := q.newestIn(key, uint32(part))
		if err != nil || e == nil {
			return nil, err
		}
		n = Newest{*e}
	} else {
		var err error
		if n, err = q.collect(key); err != nil {
			return nil, err
		}
	}
	return q.newestOf(n), nil
}

// collect finds the newest entry of a key in each partition.
func (q *lookup) collect(key []byte) (n Newest, err error) {
	behind := Highest(q.topic, key, math.MaxUint32)
	have, err := prefetch(q.sources, &behind)
	if err != nil {
		return nil, err
	}
	for _, s := range q.sources {
		if err := n.collect(s, q.topic, key, have); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// newestIn finds the newest entry of a key in a partition. A Gone entry may lie in a newer source
// than entries of later records. Any other entry is newer than all entries of older sources, so the
// first one that is found ends the search.
func (q *lookup) newestIn(key []byte, part uint32) (best *RunEntry, err error) {
	behind := Highest(q.topic, key, part)
	var have []*cached
	fetched := false
	for i, s := range slices.Backward(q.sources) {
		if _, ok := s.(*Run); ok && !fetched {
			fetched = true
			if have, err = prefetch(q.sources[:i+1], &behind); err != nil {
				return nil, err
			}
		}
		e, err := s.before(&behind, have)
		if err != nil {
			return nil, err
		}
		if e == nil || !SamePart(e, &behind) {
			continue
		}
		if best == nil || e.Offset > best.Offset {
			best = e
		}
		if !e.IsGone() {
			break
		}
	}
	return best, nil
}

// list finds the next keys with a value.
func (q *lookup) list(l *ListQuery) ([]Entry, error) {
	var out []Entry
	from := Lowest(q.topic, l.Prefix, 0)
	if l.After != nil && bytes.Compare(l.After, l.Prefix) >= 0 {
		from = Lowest(q.topic, After(l.After), 0)
	}
	m := NewMerged(q.sources)
	if err := m.Seek(&from); err != nil {
		return nil, err
	}
	size := 0
	for len(out) < l.Limit && size < listBytes {
		e := m.First()
		if e == nil || e.Topic != q.topic || !bytes.HasPrefix(e.Key, l.Prefix) {
			break
		}
		n, err := m.TakeKey(*e)
		if err != nil {
			return nil, err
		}
		if best := q.newestOf(n); best != nil && !best.IsDeleted() {
			out = append(out, public(best))
			size += len(best.Key)
		}
	}
	return out, nil
}

// partitionsOf lists the partitions with entries of a key, visible or not.
func (q *lookup) partitionsOf(key []byte) ([]uint32, error) {
	n, err := q.collect(key)
	if err != nil {
		return nil, err
	}
	parts := make([]uint32, len(n))
	for i := range n {
		parts[i] = n[i].Part
	}
	slices.Sort(parts)
	return parts, nil
}

// exists reports whether there is an entry of a record that is not marked as Gone.
func (q *lookup) exists(e *RunEntry) (bool, error) {
	m := NewMerged(q.sources)
	if err := m.Seek(e); err != nil {
		return false, err
	}
	at := m.First()
	return at != nil && Compare(at, e) == 0 && !at.IsGone(), nil
}
