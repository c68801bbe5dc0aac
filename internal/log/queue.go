package log

import "time"

// queue is what both batchers share: a list through the items themselves.
type batcherQueue[T any] struct {
	cfg         Config
	first, last *Item[T]
	patients    int      // how many are patient; with none of them the next two do not count
	patient     *Item[T] // the first that is
	eager       *Item[T] // the first that is not
	n           int
	bytes       int64
	storing     int64
}

// Add is part of Batcher.
func (q *batcherQueue[T]) Add(it *Item[T], bytes, now int64) {
	if it.queued {
		panic("log: item queued twice")
	}
	it.bytes, it.at, it.queued = bytes, now, true
	it.prev, it.next = q.last, nil
	if q.last == nil {
		q.first = it
	} else {
		q.last.next = it
	}
	q.last = it
	if it.Patient || q.patients > 0 {
		q.linked(it)
	}
	q.n++
	q.bytes += bytes
}

// Cancel is part of Batcher.
func (q *batcherQueue[T]) Cancel(it *Item[T]) bool {
	if !it.queued {
		return false
	}
	if q.patients > 0 {
		q.unlinking(it)
	}
	q.unlink(it)
	return true
}

// Storing is part of Batcher.
func (q *batcherQueue[T]) Storing(bytes int64) { q.storing = bytes }

// Len is part of Batcher.
func (q *batcherQueue[T]) Len() int { return q.n }

// Bytes is part of Batcher.
func (q *batcherQueue[T]) Bytes() int64 { return q.bytes }

// full says whether waiting longer can not make the next object larger.
func (q *batcherQueue[T]) full() bool { return q.bytes >= q.cfg.BytesMax || q.n >= q.cfg.ItemsMax }

// linked notes an item that was added, if patience is in play.
func (q *batcherQueue[T]) linked(it *Item[T]) {
	if it.Patient {
		if q.patients++; q.patients == 1 {
			q.patient, q.eager = it, nil
			if q.first != it {
				q.eager = q.first
			}
		}
	} else if q.eager == nil {
		q.eager = it
	}
}

// unlinking notes an item that is about to be taken out. The first of a kind moves back only, so passing over the other
// kind costs each item one look. It is called only if patience is in play.
func (q *batcherQueue[T]) unlinking(it *Item[T]) {
	if it.Patient {
		q.patients--
	}
	head := &q.eager
	if it.Patient {
		head = &q.patient
	}
	if *head == it {
		for *head = it.next; *head != nil && (*head).Patient != it.Patient; {
			*head = (*head).next
		}
	}
}

// deadline is when the first of the items that are there has waited for long enough.
func (q *batcherQueue[T]) deadline(wait time.Duration) int64 {
	if q.patients == 0 {
		return q.first.at + int64(wait)
	}
	at := q.patient.at + int64(max(wait, q.cfg.Patience))
	if q.eager != nil {
		at = min(at, q.eager.at+int64(wait))
	}
	return at
}

// cut removes the items of one object.
func (q *batcherQueue[T]) cut(dst []T) []T {
	var bytes int64
	for n := 0; q.first != nil && n < q.cfg.ItemsMax; n++ {
		it := q.first
		if n > 0 && bytes+it.bytes > q.cfg.BytesMax {
			break
		}
		bytes += it.bytes
		if q.patients > 0 {
			q.unlinking(it)
		}
		q.unlink(it)
		dst = append(dst, it.Value)
	}
	return dst
}

func (q *batcherQueue[T]) unlink(it *Item[T]) {
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
