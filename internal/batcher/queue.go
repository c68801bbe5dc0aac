package batcher

// queue is what both batchers share: a list through the items themselves.
type queue[T any] struct {
	cfg         Config
	first, last *Item[T]
	n           int
	bytes       int64
}

// Add is part of Batcher.
func (q *queue[T]) Add(it *Item[T], bytes, now int64) {
	if it.queued {
		panic("batcher: item queued twice")
	}
	it.bytes, it.at, it.queued = bytes, now, true
	it.prev, it.next = q.last, nil
	if q.last == nil {
		q.first = it
	} else {
		q.last.next = it
	}
	q.last = it
	q.n++
	q.bytes += bytes
}

// Cancel is part of Batcher.
func (q *queue[T]) Cancel(it *Item[T]) bool {
	if !it.queued {
		return false
	}
	q.unlink(it)
	return true
}

// Len is part of Batcher.
func (q *queue[T]) Len() int { return q.n }

// Bytes is part of Batcher.
func (q *queue[T]) Bytes() int64 { return q.bytes }

// full says whether waiting longer can not make the next object larger.
func (q *queue[T]) full() bool { return q.bytes >= q.cfg.BytesMax || q.n >= q.cfg.ItemsMax }

// cut removes the items of one object.
func (q *queue[T]) cut(dst []T) []T {
	var bytes int64
	for n := 0; q.first != nil && n < q.cfg.ItemsMax; n++ {
		it := q.first
		if n > 0 && bytes+it.bytes > q.cfg.BytesMax {
			break
		}
		bytes += it.bytes
		q.unlink(it)
		dst = append(dst, it.Value)
	}
	return dst
}

func (q *queue[T]) unlink(it *Item[T]) {
	if it.prev == nil {
		q.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		q.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.prev, it.next, it.queued = nil, nil, false
	q.n--
	q.bytes -= it.bytes
}
