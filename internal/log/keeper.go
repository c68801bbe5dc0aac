package log

import "sync"

// keepMax bounds the committed objects that wait to be handed to the cache, which hold their buffers meanwhile.
const keepMax = 8

// keeper hands committed objects to a cache, off the way of the acknowledgement.
type keeper struct {
	f  func(key string, parts [][]byte)
	wg sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running bool
	queue   []*Object
}

// offer queues an object, or drops it if too many wait.
func (k *keeper) offer(o *Object) {
	if k.f == nil || o == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == keepMax {
		return
	}
	o.Retain()
	k.queue = append(k.queue, o)
	if !k.running {
		k.running = true
		k.wg.Go(k.work)
	}
}

func (k *keeper) work() {
	for o := k.next(); o != nil; o = k.next() {
		k.f(o.Key, o.Parts)
		o.Release()
	}
}

func (k *keeper) next() *Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		k.running = false
		return nil
	}
	o := k.queue[0]
	k.queue[0] = nil
	k.queue = k.queue[1:]
	return o
}

func (k *keeper) wait() { k.wg.Wait() }
