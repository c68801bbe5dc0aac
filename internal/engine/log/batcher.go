// The batcher decides when waiting appends become an object, and how many of them. One object holds
// data of all topics and partitions, so that the number of PUTs does not grow with theirs.
//
// It is a data structure without goroutines, clock and locks: the caller passes the time. One
// goroutine owns a batcher.

package log

import (
	"math"
	"time"
)

// BytesMax is the default soft limit of an object's batches. A larger object still costs one PUT,
// but every append in it waits until all bytes are sent.
const BytesMax = 8 << 20

// ItemsMax is the default limit of items in an object: as many as the core freezes in well under a
// millisecond.
const ItemsMax = 16 << 10

// Item is one waiting value. The caller owns its memory and must not move or copy it while it is
// queued. Queueing therefore allocates nothing, and removal takes constant time.
type Item[T any] struct {
	Value T

	bytes, at  int64
	prev, next *Item[T]
	queued     bool
	// Deferred: the item may wait for Config.DeferWait. It joins an object that is due earlier
	// because of other items. Set it before Add.
	Deferred bool
}

// Queued reports whether the item is in a batcher.
func (it *Item[T]) Queued() bool { return it.queued }

// Config holds a batcher's parameters. A zero value means the default that the comment names.
type Config struct {
	Wait      time.Duration // from an object's first item to its freezing; 0 freezes at once
	DeferWait time.Duration // the same for deferred items, if longer
	// NoWait freezes queued items at once, whatever Wait, BytesEnough, InTurn and Budget say, for the
	// lowest latency. Items that arrive while the log has no room still go into one object.
	NoWait bool
	// BytesEnough ends the wait: when that many bytes are queued, and twice the bytes being stored; 0:
	// BytesMax. A value much smaller than BytesMax sends objects in quick succession. That keeps
	// producers busy which wait for an answer before they send more. Each object is larger than those
	// still being stored, so that a few objects carry any load.
	BytesEnough int64
	// InTurn: no wait while no object is being stored. Items that arrive meanwhile are the next object.
	// This is for stores that make all waiting objects durable together: a second small object in
	// flight would not be durable earlier, and both would be smaller. While an object is being stored,
	// Wait and BytesEnough count, so large objects overlap.
	InTurn bool
	// Budget, if not nil, replaces the fixed Wait on stores whose requests have a price. Wait is then the
	// longest wait while an object is being stored.
	Budget   Budget
	BytesMax int64 // soft limit of an object; BytesMax
	ItemsMax int   // limit of items in an object; ItemsMax
}

// Pace is when the next object may leave. All values may be 0.
type Pace struct {
	Wait time.Duration // after its first record
	Busy time.Duration // the same while an object is being stored, at least Wait
	Gap  time.Duration // after the object before it
}

// Budget decides when objects leave. *cost.Limiter implements it.
type Budget interface {
	// Next returns when the next object may leave. A full object leaves in any case.
	Next() Pace
	// Left counts an object that leaves. extra: with the fixed wait the object before it would have
	// had its items.
	Left(extra bool)
	// Short reports whether work without urgency should send no requests.
	Short() bool
}

func (c Config) withDefaults() Config {
	if c.BytesMax <= 0 {
		c.BytesMax = BytesMax
	}
	if c.ItemsMax <= 0 {
		c.ItemsMax = ItemsMax
	}
	if c.BytesEnough <= 0 {
		c.BytesEnough = c.BytesMax
	}
	if c.NoWait {
		c.Wait, c.BytesEnough, c.InTurn, c.Budget = 0, math.MaxInt64, false, nil
	}
	return c
}

// Batcher collects items in order of arrival and cuts them into objects: a list linked through the
// items. It collects from the first item for Config.Wait, or until there is enough. An object holds at
// most the soft limit, but at least one item: a larger item goes alone. Times are nanoseconds on any
// monotonic clock.
type Batcher[T any] struct {
	cfg           Config
	first, last   *Item[T]
	deferred      int      // number of deferred items; if 0, the next two fields are unused
	firstDeferred *Item[T] // the first deferred item
	firstUrgent   *Item[T] // the first other item
	n             int
	bytes         int64
	storing       int64
	prompt        bool
	left          int64 // when the last object left
	shared        int64 // end of the fixed wait of the last object that the fixed wait would have made
}

// NewBatcher returns an empty batcher.
func NewBatcher[T any](c Config) *Batcher[T] { return &Batcher[T]{cfg: c.withDefaults()} }

// Due is when the next object may be frozen: at once if that is not after now. ok is false if nothing
// is queued.
func (b *Batcher[T]) Due() (at int64, ok bool) {
	switch {
	case b.n == 0:
		return 0, false
	case b.full() || b.bytes >= b.enough():
		return b.first.at, true
	case b.prompt && b.cfg.InTurn && b.storing == 0:
		return b.deadline(0), true
	case b.cfg.Budget != nil:
		return b.paced(), true
	}
	return b.deadline(b.cfg.Wait), true
}

// paced is when the budget lets the next object leave.
func (b *Batcher[T]) paced() int64 {
	p := b.cfg.Budget.Next()
	wait := p.Wait
	if b.storing > 0 {
		wait = p.Busy
	}
	at := b.deadline(wait)
	if b.left > 0 {
		at = max(at, b.left+int64(p.Gap))
	}
	return at
}

// leave counts an object that leaves at now, with items of the times from first to last. It imitates
// the fixed wait: items up to shared are in the object that the fixed wait would have made before.
func (b *Batcher[T]) leave(now, first, last int64) {
	extra := last < b.shared
	if !extra {
		begin, wait := max(first, b.shared), max(int64(b.cfg.Wait), 1)
		b.shared = begin + ((last-begin)/wait+1)*wait
	}
	b.left = now
	b.cfg.Budget.Left(extra)
}

// enough is how many queued bytes end the wait.
func (b *Batcher[T]) enough() int64 { return max(b.cfg.BytesEnough, 2*b.storing) }

// Slack is how much may be added without making the next object due earlier: fewer than that many bytes
// and items. Zero: any item may do so.
func (b *Batcher[T]) Slack() (bytes int64, items int) {
	if b.cfg.NoWait || b.n == b.deferred { // the next item may be the first that is urgent
		return 0, 0
	}
	return min(b.enough(), b.cfg.BytesMax) - b.bytes, b.cfg.ItemsMax - b.n
}

// Take removes the items of the next object and appends their values to dst; none if the object is not
// due. force makes it due at once. Call it when the log has room for an object. Until then items keep
// queueing, and the object may grow to the soft limit.
func (b *Batcher[T]) Take(dst []T, now int64, force bool) []T {
	if at, ok := b.Due(); !ok || at > now && !force {
		return dst
	}
	first := b.first.at
	dst, last := b.cut(dst)
	if b.cfg.Budget != nil {
		b.leave(now, first, last)
	}
	return dst
}

// Add appends an item that is in no batcher to the queue.
func (b *Batcher[T]) Add(it *Item[T], bytes, now int64) {
	if it.queued {
		panic("log: item queued twice")
	}
	it.bytes, it.at, it.queued = bytes, now, true
	it.prev, it.next = b.last, nil
	if b.last == nil {
		b.first = it
	} else {
		b.last.next = it
	}
	b.last = it
	if it.Deferred || b.deferred > 0 {
		b.linked(it)
	}
	b.n++
	b.bytes += bytes
}

// Cancel removes an item and reports whether it was still queued.
func (b *Batcher[T]) Cancel(it *Item[T]) bool {
	if !it.queued {
		return false
	}
	if b.deferred > 0 {
		b.unlinking(it)
	}
	b.unlink(it)
	return true
}

// Storing sets how many bytes of taken items are being stored. Call it when that changes.
func (b *Batcher[T]) Storing(bytes int64) { b.storing = bytes }

// Prompt sets whether Config.InTurn counts.
func (b *Batcher[T]) Prompt(on bool) { b.prompt = on }

// Len is the number of queued items.
func (b *Batcher[T]) Len() int { return b.n }

// Bytes is the total size of the queued items.
func (b *Batcher[T]) Bytes() int64 { return b.bytes }

// full reports whether waiting longer cannot make the next object larger.
func (b *Batcher[T]) full() bool { return b.bytes >= b.cfg.BytesMax || b.n >= b.cfg.ItemsMax }

// linked updates the first items after one was added, if there are deferred items.
func (b *Batcher[T]) linked(it *Item[T]) {
	if it.Deferred {
		if b.deferred++; b.deferred == 1 {
			b.firstDeferred, b.firstUrgent = it, nil
			if b.first != it {
				b.firstUrgent = b.first
			}
		}
	} else if b.firstUrgent == nil {
		b.firstUrgent = it
	}
}

// unlinking updates the first items before one is removed. The first item of a kind only moves
// backwards in the queue, so skipping the other kind visits each item once. It is called only if
// there are deferred items.
func (b *Batcher[T]) unlinking(it *Item[T]) {
	if it.Deferred {
		b.deferred--
	}
	head := &b.firstUrgent
	if it.Deferred {
		head = &b.firstDeferred
	}
	if *head == it {
		for *head = it.next; *head != nil && (*head).Deferred != it.Deferred; {
			*head = (*head).next
		}
	}
}

// deadline is when the first queued item has waited long enough.
func (b *Batcher[T]) deadline(wait time.Duration) int64 {
	if b.deferred == 0 {
		return b.first.at + int64(wait)
	}
	at := b.firstDeferred.at + int64(max(wait, b.cfg.DeferWait))
	if b.firstUrgent != nil {
		at = min(at, b.firstUrgent.at+int64(wait))
	}
	return at
}

// cut removes the items of one object. last is the time of the last of them.
func (b *Batcher[T]) cut(dst []T) (_ []T, last int64) {
	var bytes int64
	for n := 0; b.first != nil && n < b.cfg.ItemsMax; n++ {
		it := b.first
		if n > 0 && bytes+it.bytes > b.cfg.BytesMax {
			break
		}
		bytes += it.bytes
		last = it.at
		if b.deferred > 0 {
			b.unlinking(it)
		}
		b.unlink(it)
		dst = append(dst, it.Value)
	}
	return dst, last
}

func (b *Batcher[T]) unlink(it *Item[T]) {
	if it.prev == nil {
		b.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		b.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.prev, it.next, it.queued = nil, nil, false
	b.n--
	b.bytes -= it.bytes
}
