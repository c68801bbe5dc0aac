package log

import (
	"context"
	"fmt"
	"sync"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// fedMax bounds the fed slots that wait for the owner, in bytes. A slot beyond it is read from the
// bucket.
const fedMax = 4 << 20

// feeds holds what the leader has told a follower, until the owner takes it.
type feeds struct {
	mu     sync.Mutex     // guards the fields below
	bytes  int64          // of fed slots in the inbox
	target state.Position // the log reaches up to it
	told   bool           // a message for target is in the inbox
}

// Reach lets a follower read the bucket until it has applied everything before pos; zero: to the end of
// the log. It makes no request if that is the case, or if the log does not follow. It does not wait.
func (l *Log) Reach(pos state.Position) {
	f := &l.feeds
	f.mu.Lock()
	if f.target.Less(pos) {
		f.target = pos
	}
	send := !f.told
	f.told = true
	f.mu.Unlock()
	if send {
		l.in.put(message{do: func(ctx context.Context, o *owner) {
			o.step(ctx, &core.Event{Kind: core.EvReach, Pos: f.take()})
		}})
	}
}

// Feeds sets whether Hooks.Fed gets the slots that this log commits. Default: it does not.
func (l *Log) Feeds(wanted bool) { l.feeding.Store(wanted && l.opt.Hooks.Fed != nil) }

// Heard sets whether the leader feeds this broker, or tells it how far the log reaches. A follower then
// does not poll for its readers.
func (l *Log) Heard(heard bool) {
	l.in.put(message{do: func(ctx context.Context, o *owner) {
		o.step(ctx, &core.Event{Kind: core.EvHeard, On: heard})
	}})
}

// Feed gives a follower a slot that its leader has committed: the first bytes of the commit object,
// with head, state records and index. If it is the next slot the follower applies it. Otherwise, and
// while too many slots wait, it acts as Reach up to the slot. It does not wait.
//
// The log owns prefix. Error: prefix is damaged or incomplete, and ignored.
func (l *Log) Feed(prefix []byte) error {
	h, _, _, need, err := record.DecodeMeta(prefix)
	switch {
	case err != nil:
		return fmt.Errorf("fed slot: %w", err)
	case need > 0:
		return fmt.Errorf("fed slot: %w", &record.CorruptError{What: "slot is cut off", Want: int64(need), Got: int64(len(prefix))})
	case !l.feeds.reserve(prefix):
		l.Reach(core.After(&h))
	case !l.in.put(message{do: func(ctx context.Context, o *owner) { o.feed(ctx, prefix) }}):
		l.feeds.release(prefix)
		return ErrClosed
	}
	return nil
}

// feed passes a slot to the core. The inbox holds encoded slots, because decoded ones may be ten times
// as large.
func (o *owner) feed(ctx context.Context, prefix []byte) {
	o.feeds.release(prefix)
	h, records, index, _, err := decodeSlot(prefix, false)
	if err != nil { // a newer program wrote it: the bucket shows that as well
		o.step(ctx, &core.Event{Kind: core.EvReach, Pos: core.After(&h)})
		return
	}
	o.step(ctx, &core.Event{Kind: core.EvFeed, Slot: &core.Slot{Head: h, Records: records, Index: index}})
}

// fedOverhead is about the memory of a message in the inbox.
const fedOverhead = 256

func (f *feeds) reserve(prefix []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int64(cap(prefix)) + fedOverhead
	if f.bytes+size > fedMax {
		return false
	}
	f.bytes += size
	return true
}

func (f *feeds) release(prefix []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes -= int64(cap(prefix)) + fedOverhead
}

// take returns the newest target.
func (f *feeds) take() state.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.target
	f.target, f.told = state.Position{}, false
	return target
}

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
