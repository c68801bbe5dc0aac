package cache

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// errBypass: the cache cannot answer; read from the store.
var errBypass = errors.New("not cacheable")

// fill is consecutive blocks, or one object of Keep, on their way to disk.
type fill struct {
	object    object
	forgotten bool // guarded by the cache's lock: the object was forgotten, so do not index it
	cancel    context.CancelFunc
}

// blockFlight is the single-flight of one block.
type blockFlight = objstore.Flight[name, *block]

// span is the blocks first to last of an object that a reader wants.
type span struct {
	key         string
	first, last uint32
}

// acquire returns the first block of a span, pinned: from disk, or by one request that also fetches
// the missing blocks of the span behind it. joined says that the answer is of a request that began
// before this call. Its bytes are valid, because objects do not change; but if it found the object
// missing, the object may exist now.
func (c *Cache) acquire(ctx context.Context, s span) (b *block, joined bool, err error) {
	n := name{c.object(s.key), s.first}
	c.mu.Lock()
	if b := c.index[n]; b != nil && b.file != nil {
		c.pinLocked(b)
		c.stats.Hits++
		c.mu.Unlock()
		return b, false, nil
	}
	f, begin := c.flights.FindLocked(n), func() {}
	if joined = f != nil; joined {
		c.stats.Misses++
	} else if f, begin = c.startLocked(ctx, s, n.object); f == nil {
		c.mu.Unlock()
		return nil, false, errBypass
	}
	f.JoinLocked()
	c.mu.Unlock()

	begin()
	b, finished, err := c.flights.Wait(ctx, f)
	if !finished {
		err = fmt.Errorf("wait for %s: %w: %w", s.key, objstore.ErrNoVerdict, ctx.Err())
	}
	return b, joined, err
}

// startLocked starts the flight of a span's first block, and of the blocks behind it that are
// neither on disk nor in flight. Without the lock the caller calls begin, which does the work or lets
// another goroutine do it.
func (c *Cache) startLocked(ctx context.Context, s span, o object) (first *blockFlight, begin func()) {
	if c.closed {
		return nil, nil
	}
	// callers that join must not fail when this reader leaves
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &fill{object: o, cancel: cancel}
	c.filling[f] = struct{}{}
	local := c.index[name{o, s.first}]
	if local != nil {
		local.refs++ // prevents eviction while it is opened
		s.last = s.first
	}
	var run []*blockFlight
	for n := (name{o, s.first}); n.number-s.first < runMax && n.number <= s.last; n.number++ {
		if len(run) > 0 && (c.index[n] != nil || c.flights.FindLocked(n) != nil) {
			break
		}
		// no cancel, because later reads want the blocks behind it
		run = append(run, c.flights.BeginLocked(n, nil))
	}
	l := &load{fill: f, key: s.key, run: run, local: local}
	end := func() {
		cancel()
		c.mu.Lock()
		delete(c.filling, f)
		c.mu.Unlock()
		c.work.Done()
	}
	c.work.Add(1)
	return run[0], func() {
		if l.local != nil && c.openAtOnce(l) {
			end()
			return
		}
		go func() {
			defer end()
			c.load(work, l)
		}()
	}
}

// load is the work of one request.
type load struct {
	fill  *fill
	key   string
	run   []*blockFlight // not yet finished
	local *block         // pinned block on disk to be opened, or nil
}

func (c *Cache) load(ctx context.Context, l *load) {
	if l.local != nil {
		if acquireSlot(ctx, c.slots) != nil {
			c.dropLocal(l)
		} else if c.openLocal(l) {
			return
		}
	}
	err := c.fetch(ctx, l)
	for len(l.run) > 0 {
		c.finish(l, nil, err)
	}
}

// openAtOnce opens the block on disk unless it would have to wait, and reports whether it was valid.
// It takes less time than another goroutine would need to begin.
func (c *Cache) openAtOnce(l *load) bool {
	select {
	case c.slots <- struct{}{}:
		return c.openLocal(l)
	default:
		return false
	}
}

// openLocal opens the block on disk with a slot, which it gives back, and reports whether it was valid.
// The load has no local block then if it was not.
func (c *Cache) openLocal(l *load) bool {
	good := c.openBlock(l.local, l.key)
	<-c.slots
	if !good {
		c.dropLocal(l)
		return false
	}
	c.mu.Lock()
	c.stats.Hits++
	c.mu.Unlock()
	c.finish(l, l.local, nil)
	return true
}

func (c *Cache) dropLocal(l *load) {
	c.release(l.local)
	l.local = nil
}

// acquireSlot waits for a slot: for one more block in memory, or one more concurrent request.
func acquireSlot(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to fetch: %w: %w", objstore.ErrNoVerdict, ctx.Err())
	}
}

// fetch reads the blocks of a run with one request and finishes the flight of each when it is
// complete. The flights that remain in the run get its error.
func (c *Cache) fetch(ctx context.Context, l *load) error {
	if err := acquireSlot(ctx, c.asks); err != nil {
		return err
	}
	defer func() { <-c.asks }()
	c.mu.Lock()
	c.stats.Requests++
	c.stats.Misses++
	c.mu.Unlock()
	first := int64(l.run[0].Key.number) * c.block
	got, err := c.remote.Get(ctx, l.key, objstore.Range{Offset: first, Length: int64(len(l.run)) * c.block})
	if err != nil {
		return err
	}
	defer got.Body.Close()
	for len(l.run) > 0 {
		n := l.run[0].Key
		length := c.lengthOf(n, got.Size)
		if length <= 0 { // beyond the end, an empty object, or unknown size
			return errBypass
		}
		if err := acquireSlot(ctx, c.slots); err != nil {
			return err
		}
		buf := c.buffers.Get(int(length))
		if _, err := io.ReadFull(got.Body, buf); err != nil {
			c.buffers.Put(buf)
			<-c.slots
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: object ended early: %w", objstore.ErrNoVerdict, err)
			}
			return err
		}
		c.finish(l, c.toBlock(l, content{key: l.key, name: n, size: got.Size, parts: [][]byte{buf}}), nil)
	}
	return nil
}

// toBlock makes a pinned block of bytes that were just read: a file if the object is admitted and
// the disk works. Otherwise the block stays in memory and keeps its slot and buffer until its
// readers have copied from it.
func (c *Cache) toBlock(l *load, x content) *block {
	buf := x.parts[0]
	admitted := c.admits(l.key, x.size, buf)
	if admitted {
		if b := c.write(x, l.fill); b != nil {
			c.buffers.Put(buf)
			<-c.slots
			return b
		}
	}
	return &block{name: x.name, size: x.size, length: len(buf), data: buf, refs: 1, admitted: admitted}
}

// finish ends the first flight of a run. Each caller that waits for it gets a pin of the block, and
// the run's own pin ends.
func (c *Cache) finish(l *load, b *block, err error) {
	f := l.run[0]
	l.run = l.run[1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights.FinishLocked(f, b, err)
}
