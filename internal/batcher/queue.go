package batcher

import "time"

// queue is what both batchers share: a list through the items themselves.
type queue[T any] struct {
	cfg         Config
	first, last *Item[T]
	eager       *Item[T] // the first that is not patient
	patient     *Item[T] // the first that is
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
	if head := q.head(it); *head == nil {
		*head = it
	}
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

// head is where the first item of the same patience is kept.
func (q *queue[T]) head(it *Item[T]) **Item[T] {
	if it.Patient {
		return &q.patient
	}
	return &q.eager
}

// deadline is when the first of the items that are there has waited for long enough.
func (q *queue[T]) deadline(wait time.Duration) int64 {
	patience := int64(max(wait, q.cfg.Patience))
	switch {
	case q.patient == nil:
		return q.eager.at + int64(wait)
	case q.eager == nil:
		return q.patient.at + patience
	}
	return min(q.eager.at+int64(wait), q.patient.at+patience)
}

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
	// The first of a kind moves back only, so passing over the other kind costs each item one look.
	if head := q.head(it); *head == it {
		for *head = it.next; *head != nil && (*head).Patient != it.Patient; {
			*head = (*head).next
		}
	}
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
