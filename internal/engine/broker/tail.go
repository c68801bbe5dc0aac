package broker

import (
	"sync"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
)

// slotKey names a commit object on the chain, or a pack.
type slotKey struct {
	epoch uint32
	slot  uint64
	pack  bool
}

// tail keeps the newest committed objects in memory, in the buffers in which they were sent. Their
// memory is reserved in one class of the budget; the oldest objects are evicted for new ones. Each
// reader holds a reference on its object, so an evicted object keeps its buffer and reservation
// until its last reader releases it.
type tail struct {
	class *budget.Class
	met   *meters

	mu      sync.Mutex // guards the fields below
	objects map[slotKey]*log.Object
	order   []slotKey // oldest first
	cleared bool
}

// add keeps a committed object, if there is room for it.
func (t *tail) add(c *log.Committed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cleared || len(c.Index) == 0 || c.Object.Size > t.class.Limit()/2 {
		return
	}
	for c.Object.Move(t.class) != nil {
		if len(t.order) == 0 {
			return // readers still hold the memory
		}
		t.evictLocked()
	}
	key := slotKey{epoch: c.Epoch, slot: c.Slot}
	c.Object.Retain()
	t.objects[key] = c.Object
	t.order = append(t.order, key)
	t.met.tailObjects.Store(int64(len(t.objects)))
}

func (t *tail) evictLocked() {
	key := t.order[0]
	t.order = t.order[1:]
	o := t.objects[key]
	delete(t.objects, key)
	o.Release()
}

// get returns an object with a reference for the caller, or nil.
func (t *tail) get(key slotKey) *log.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[key]
	if o != nil {
		o.Retain()
	}
	return o
}

// has reports whether an object is in the tail now.
func (t *tail) has(key slotKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[key] != nil
}

// clear evicts everything; later objects are not kept.
func (t *tail) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleared = true
	for len(t.order) > 0 {
		t.evictLocked()
	}
	t.met.tailObjects.Store(0)
}
