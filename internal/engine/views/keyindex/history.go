package keyindex

import (
	"cmp"
	"math"
	"slices"
)

// scan visits the existing records of a key in one partition.
type scan struct {
	*lookup
	m    Merged
	key  RunEntry  // any entry of the key and partition
	low  int64     // lowest offset that may exist
	seen *RunEntry // last returned entry; nil before the first
	// time is the highest timestamp so far, by which several partitions are merged.
	time int64
}

// newScan returns a scan that is not positioned yet.
func (q *lookup) newScan(key []byte, part uint32) (*scan, error) {
	w := &scan{lookup: q, m: NewMerged(q.sources), key: Lowest(q.topic, key, part), time: math.MinInt64}
	b := q.bounds(part)
	w.low = b.start
	if b.clean <= b.start {
		return w, nil
	}
	// Of the records below clean only the newest exists.
	at := w.key
	at.Offset = b.clean
	if err := w.m.SeekBefore(&at); err != nil {
		return nil, err
	}
	if e := w.m.Last(); e != nil && SamePart(e, &w.key) {
		w.low = max(w.low, e.Offset)
	}
	return w, nil
}

// up returns the next record upwards, or nil; the first call starts at offset from.
func (w *scan) up(from int64) (*RunEntry, error) {
	return w.step(w.seen == nil, max(from, w.low), Merged.Seek, Merged.First, Merged.Next)
}

// down returns the next record downwards, or nil; the first call starts below an offset.
func (w *scan) down(below int64) (*RunEntry, error) {
	return w.step(w.seen == nil, below, Merged.SeekBefore, Merged.Last, Merged.Prev)
}

func (w *scan) step(begin bool, offset int64, seek func(Merged, *RunEntry) error, at func(Merged) *RunEntry, next func(Merged, *RunEntry) error) (*RunEntry, error) {
	if begin {
		to := w.key
		to.Offset = offset
		if err := seek(w.m, &to); err != nil {
			return nil, err
		}
	} else if err := next(w.m, w.seen); err != nil {
		return nil, err
	}
	for {
		e := at(w.m)
		if e == nil || !SamePart(e, &w.key) || e.Offset < w.low {
			w.seen = &RunEntry{Topic: math.MaxUint32} // the end: further calls find nothing
			return nil, nil
		}
		seen := *e
		w.seen = &seen
		if w.visible(e) {
			w.time = max(w.time, e.Time)
			return w.seen, nil
		}
		if err := next(w.m, w.seen); err != nil {
			return nil, err
		}
	}
}

// history finds the records of a key.
func (q *lookup) history(key []byte, h *HistoryQuery) ([]Entry, error) {
	parts := []uint32{uint32(max(0, h.Partition))}
	if h.Partition < 0 {
		var err error
		if parts, err = q.partitionsOf(key); err != nil {
			return nil, err
		}
	}
	if len(parts) > 1 {
		return q.historyOfMany(key, parts, h)
	}
	for _, part := range parts {
		return q.historyOfOne(key, part, h)
	}
	return nil, nil
}

func (q *lookup) historyOfOne(key []byte, part uint32, h *HistoryQuery) ([]Entry, error) {
	w, err := q.newScan(key, part)
	if err != nil {
		return nil, err
	}
	next := func() (*RunEntry, error) { return w.up(0) }
	switch {
	case h.NewestFirst && h.After != nil:
		next = func() (*RunEntry, error) { return w.down(h.After.Offset) }
	case h.NewestFirst:
		next = func() (*RunEntry, error) { return w.down(math.MaxInt64) }
	case h.After != nil:
		next = func() (*RunEntry, error) { return w.up(h.After.Offset + 1) }
	}
	var out []Entry
	for len(out) < h.Limit {
		e, err := next()
		if err != nil || e == nil {
			return out, err
		}
		out = append(out, public(e))
	}
	return out, nil
}

// rank is the position of a record in the history of a key in several partitions. It uses the
// highest timestamp up to the record in its partition, so that the order within a partition stays.
type rank struct {
	time   int64
	part   uint32
	offset int64
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.part, b.part), cmp.Compare(a.offset, b.offset))
}

// historyOfMany reads all records of the key up to the last one that it returns, because keys in
// several partitions are rare.
func (q *lookup) historyOfMany(key []byte, parts []uint32, h *HistoryQuery) ([]Entry, error) {
	after, err := q.rankOf(key, h.After)
	if err != nil {
		return nil, err
	}
	scans := make([]*scan, len(parts))
	heads := make([]*RunEntry, len(parts))
	for i, part := range parts {
		if scans[i], err = q.newScan(key, part); err != nil {
			return nil, err
		}
		if heads[i], err = scans[i].up(0); err != nil {
			return nil, err
		}
	}
	var out ring
	for {
		i, at := least(scans, heads)
		if i < 0 || h.NewestFirst && h.After != nil && at.compare(after) >= 0 {
			break
		}
		if h.NewestFirst || h.After == nil || at.compare(after) > 0 {
			out.add(heads[i], h.Limit)
			if !h.NewestFirst && len(out.list) == h.Limit {
				break
			}
		}
		if heads[i], err = scans[i].up(0); err != nil {
			return nil, err
		}
	}
	return out.entries(h.NewestFirst), nil
}

// ring keeps the last entries that were added.
type ring struct {
	list []RunEntry
	from int // index of the oldest
}

func (r *ring) add(e *RunEntry, most int) {
	if len(r.list) < most {
		r.list = append(r.list, *e)
		return
	}
	r.list[r.from] = *e
	r.from = (r.from + 1) % most
}

func (r *ring) entries(newestFirst bool) []Entry {
	out := make([]Entry, len(r.list))
	for i := range out {
		out[i] = public(&r.list[(r.from+i)%len(r.list)])
	}
	if newestFirst {
		slices.Reverse(out)
	}
	return out
}

// least returns the scan whose record comes next, -1 if none has one.
func least(scans []*scan, heads []*RunEntry) (best int, at rank) {
	best = -1
	for i, e := range heads {
		if e == nil {
			continue
		}
		if r := (rank{scans[i].time, e.Part, e.Offset}); best < 0 || r.compare(at) < 0 {
			best, at = i, r
		}
	}
	return best, at
}

// rankOf finds the rank of a record, whether it exists or not.
func (q *lookup) rankOf(key []byte, p *RecordID) (rank, error) {
	if p == nil {
		return rank{}, nil
	}
	r := rank{time: math.MinInt64, part: p.Partition, offset: p.Offset}
	w, err := q.newScan(key, p.Partition)
	if err != nil {
		return r, err
	}
	for {
		e, err := w.up(0)
		if err != nil || e == nil || e.Offset > p.Offset {
			return r, err
		}
		r.time = w.time
	}
}
