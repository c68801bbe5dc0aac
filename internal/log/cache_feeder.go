package log

import "sync"

// feederMax bounds the committed objects that wait for the cache, because they hold their buffers.
const feederMax = 8

// cacheFeeder passes committed objects to a cache in a goroutine of its own, so that the cache does
// not delay acknowledgements.
type cacheFeeder struct {
	f  func(key string, parts [][]byte)
	wg sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running bool
	queue   []*Object
}

// offer queues an object, or drops it if too many wait.
func (k *cacheFeeder) offer(o *Object) {
	if k.f == nil || o == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == feederMax {
		return
	}
	o.Retain()
	k.queue = append(k.queue, o)
	if !k.running {
		k.running = true
		k.wg.Go(k.work)
	}
}

func (k *cacheFeeder) work() {
	for o := k.next(); o != nil; o = k.next() {
		k.f(o.Key, o.Parts)
		o.Release()
	}
}

func (k *cacheFeeder) next() *Object {
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

func (k *cacheFeeder) wait() { k.wg.Wait() }
