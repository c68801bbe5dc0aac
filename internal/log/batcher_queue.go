package log

import "time"

// batcherQueue is the common part of both batchers: a list linked through the items.
type batcherQueue[T any] struct {
	cfg           Config
	first, last   *Item[T]
	deferred      int      // number of deferred items; if 0, the next two fields are unused
	firstDeferred *Item[T] // the first deferred item
	firstUrgent   *Item[T] // the first other item
	n             int
	bytes         int64
	storing       int64
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
	if it.Deferred || q.deferred > 0 {
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
	if q.deferred > 0 {
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

// full reports whether waiting longer cannot make the next object larger.
func (q *batcherQueue[T]) full() bool { return q.bytes >= q.cfg.BytesMax || q.n >= q.cfg.ItemsMax }

// linked updates the first items after one was added, if there are deferred items.
func (q *batcherQueue[T]) linked(it *Item[T]) {
	if it.Deferred {
		if q.deferred++; q.deferred == 1 {
			q.firstDeferred, q.firstUrgent = it, nil
			if q.first != it {
				q.firstUrgent = q.first
			}
		}
	} else if q.firstUrgent == nil {
		q.firstUrgent = it
	}
}

// unlinking updates the first items before one is removed. The first item of a kind only moves
// backwards in the queue, so skipping the other kind visits each item once. It is called only if
// there are deferred items.
func (q *batcherQueue[T]) unlinking(it *Item[T]) {
	if it.Deferred {
		q.deferred--
	}
	head := &q.firstUrgent
	if it.Deferred {
		head = &q.firstDeferred
	}
	if *head == it {
		for *head = it.next; *head != nil && (*head).Deferred != it.Deferred; {
			*head = (*head).next
		}
	}
}

// deadline is when the first queued item has waited long enough.
func (q *batcherQueue[T]) deadline(wait time.Duration) int64 {
	if q.deferred == 0 {
		return q.first.at + int64(wait)
	}
	at := q.firstDeferred.at + int64(max(wait, q.cfg.DeferWait))
	if q.firstUrgent != nil {
		at = min(at, q.firstUrgent.at+int64(wait))
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
		if q.deferred > 0 {
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
