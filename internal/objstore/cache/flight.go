package cache

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/internal/flight"
	"github.com/sebbroker/seb/internal/objstore"
)

// errBypass: the cache can not say; ask the store itself.
var errBypass = errors.New("not for the cache")

// fill is one run of blocks, or one object handed over, on its way to disk.
type fill struct {
	object    object
	forgotten bool // guarded by the cache's lock: the object was forgotten meanwhile, so do not index it
	cancel    context.CancelFunc
}

// blockFlight is one block on its way into reach of those who wait for it.
type blockFlight = flight.Flight[name, *block]

// span is the blocks from first to last of an object that a reader wants.
type span struct {
	key         string
	first, last uint32
}

// acquire gets a block, the first of a span, pinned: from disk, or with one request that fetches what else of the span
// is not there. joined tells whether the answer is that of a request begun before this call: its bytes are good, but
// that an object was missing then says nothing about now.
func (c *Cache) acquire(ctx context.Context, s span) (b *block, joined bool, err error) {
	n := name{c.object(s.key), s.first}
	c.mu.Lock()
	if b := c.index[n]; b != nil && b.file != nil {
		c.pinLocked(b)
		c.stats.Hits++
		c.mu.Unlock()
		return b, false, nil
	}
	f := c.flights.FindLocked(n)
	if joined = f != nil; joined {
		c.stats.Misses++
	} else if f = c.departLocked(ctx, s, n.object); f == nil {
		c.mu.Unlock()
		return nil, false, errBypass
	}
	f.JoinLocked()
	c.mu.Unlock()

	b, finished, err := c.flights.Wait(ctx, f)
	if !finished {
		err = fmt.Errorf("wait for %s: %w: %w", s.key, objstore.ErrNoVerdict, ctx.Err())
	}
	return b, joined, err
}

// departLocked starts the flight of a span's first block, and of those after it that are neither on disk nor under way.
func (c *Cache) departLocked(ctx context.Context, s span, o object) *blockFlight {
	if c.closed {
		return nil
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // those who join must not lose it with this reader
	f := &fill{object: o, cancel: cancel}
	c.filling[f] = struct{}{}
	local := c.index[name{o, s.first}]
	if local != nil {
		local.refs++ // so that it is not evicted while it is opened
		s.last = s.first
	}
	var run []*blockFlight
	for n := (name{o, s.first}); n.number-s.first < runMax && n.number <= s.last; n.number++ {
		if len(run) > 0 && (c.index[n] != nil || c.flights.FindLocked(n) != nil) {
			break
		}
		run = append(run, c.flights.BeginLocked(n, nil)) // the blocks behind it are for later, so it goes on without readers
	}
	c.work.Go(func() {
		defer cancel()
		c.load(work, &load{fill: f, key: s.key, run: run, local: local})
		c.mu.Lock()
		delete(c.filling, f)
		c.mu.Unlock()
	})
	return run[0]
}

// load is the work of one request.
type load struct {
	fill  *fill
	key   string
	run   []*blockFlight // not yet finished
	local *block         // pinned: the block of run, to be opened; or nil
}

func (c *Cache) load(ctx context.Context, l *load) {
	if l.local != nil && c.loadLocal(ctx, l) {
		return
	}
	err := c.fetch(ctx, l)
	for len(l.run) > 0 {
		c.land(l, nil, err)
	}
}

// loadLocal opens the block that is on disk, and says whether it was good.
func (c *Cache) loadLocal(ctx context.Context, l *load) bool {
	if take(ctx, c.slots) == nil {
		good := c.openBlock(l.local, l.key)
		<-c.slots
		if good {
			c.mu.Lock()
			c.stats.Hits++
			c.mu.Unlock()
			c.land(l, l.local, nil)
			return true
		}
	}
	c.release(l.local)
	return false
}

// take waits for room: to have one more block in memory, or one more request under way.
func take(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to fetch: %w: %w", objstore.ErrNoVerdict, ctx.Err())
	}
}

// fetch reads the blocks of a run with one request and lands each as soon as it is there. The flights left in the run get
// its error.
func (c *Cache) fetch(ctx context.Context, l *load) error {
	if err := take(ctx, c.asks); err != nil {
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
		if length <= 0 { // beyond the end, an empty object, or one of unknown size
			return errBypass
		}
		if err := take(ctx, c.slots); err != nil {
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
		c.land(l, c.settle(l, content{key: l.key, name: n, size: got.Size, parts: [][]byte{buf}}), nil)
	}
	return nil
}

// settle makes a pinned block of bytes just read: a file if it may and can be one, else one in memory, which keeps the
// slot and the buffer until its readers have copied from it.
func (c *Cache) settle(l *load, x content) *block {
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

// land ends the first flight of a run: everybody who waits for it gets a pin of the block, of which the run had one.
func (c *Cache) land(l *load, b *block, err error) {
	f := l.run[0]
	l.run = l.run[1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights.FinishLocked(f, b, err)
}
