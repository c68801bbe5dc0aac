// The batcher decides when waiting appends become an object, and how many of them: one object for all topics and
// partitions, so that the number of PUTs does not grow with theirs.
//
// It is a data structure: no goroutines, no clock (the time is passed in), no locks. One goroutine owns a batcher.

package log

import "time"

// BytesMax is the default soft limit of an object's batches. A larger object costs the same PUT, but everybody in it
// waits for all of its bytes to be sent.
const BytesMax = 8 << 20

// ItemsMax is the default limit of items in an object: what the log core freezes in well under a millisecond.
const ItemsMax = 16 << 10

// Item is one waiting value. Its memory is the caller's, who must not move or copy it while it is queued; so queueing
// allocates nothing and taking it out again costs the same however many wait.
type Item[T any] struct {
	Value T

	bytes, at  int64
	prev, next *Item[T]
	queued     bool
	// Patient: nobody is in a hurry for it. Alone it waits for Config.Patience; any other item's object takes it along.
	// Set before Add.
	Patient bool
}

// Queued says whether it is waiting in a batcher.
func (it *Item[T]) Queued() bool { return it.queued }

// Batcher gathers items in the order in which they came and cuts them into objects. Times are nanoseconds on any clock
// that does not go back.
type Batcher[T any] interface {
	// Add queues an item that is in no batcher behind all others.
	Add(it *Item[T], bytes, now int64)
	// Cancel takes an item out and says whether it was still queued.
	Cancel(it *Item[T]) bool
	// Due says when the next object may be frozen: at once if that is not after now. ok is false with nothing queued.
	Due() (at int64, ok bool)
	// Take removes the items of the next object and appends their values to dst, none if it is not due. With force it is
	// due at once. It is called when the log has room for an object: until then items go on queueing, and the object
	// that is then cut may be as large as the soft limit.
	Take(dst []T, now int64, force bool) []T
	// Storing says how many bytes of taken items are being stored. It is called when that changes.
	Storing(bytes int64)
	// Len is the number of queued items.
	Len() int
	// Bytes is the sum of their sizes.
	Bytes() int64
}

// Config fixes a batcher's numbers. The zero value of a field means the default named there.
type Config struct {
	Wait     time.Duration // Blocking: from an object's first item to its freezing; 0 freezes at once
	Patience time.Duration // the same for patient items, where it is longer
	// Blocking: with so many bytes queued, and twice what is being stored, waiting is over; 0: it is not before BytesMax. Much
	// less than BytesMax has objects follow each other closely, which keeps producers busy that send no more before they are
	// answered; each is larger than those before it that are not stored yet, so that a few hold what comes however much it is.
	BytesEnough int64
	BytesMax    int64 // soft limit of an object; BytesMax
	ItemsMax    int   // limit of items in an object; ItemsMax
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
	return c
}

// NewBlocking returns a batcher that collects from the first item for Wait, or until there is enough. An object takes no
// more than the soft limit, but at least one item: one that is larger goes alone.
func NewBlocking[T any](c Config) *Blocking[T] {
	return &Blocking[T]{batcherQueue: batcherQueue[T]{cfg: c.withDefaults()}}
}

// Blocking is the batcher for stores where a request has a price or takes long.
type Blocking[T any] struct{ batcherQueue[T] }

// Due is part of Batcher.
func (b *Blocking[T]) Due() (at int64, ok bool) {
	switch {
	case b.n == 0:
		return 0, false
	case b.full() || b.bytes >= max(b.cfg.BytesEnough, 2*b.storing):
		return b.first.at, true
	}
	return b.deadline(b.cfg.Wait), true
}

// Take is part of Batcher.
func (b *Blocking[T]) Take(dst []T, now int64, force bool) []T {
	if at, ok := b.Due(); !ok || at > now && !force {
		return dst
	}
	return b.cut(dst)
}

// NewNull returns a batcher that freezes what is there at once; Wait does not count, Patience does.
func NewNull[T any](c Config) *Null[T] {
	return &Null[T]{batcherQueue: batcherQueue[T]{cfg: c.withDefaults()}}
}

// Null is the batcher for the lowest latency. What comes while the log has no room goes into one object all the same.
type Null[T any] struct{ batcherQueue[T] }

// Due is part of Batcher.
func (b *Null[T]) Due() (at int64, ok bool) {
	switch {
	case b.n == 0:
		return 0, false
	case b.full():
		return b.first.at, true
	}
	return b.deadline(0), true
}

// Take is part of Batcher.
func (b *Null[T]) Take(dst []T, now int64, force bool) []T {
	if at, ok := b.Due(); !ok || at > now && !force {
		return dst
	}
	return b.cut(dst)
}
