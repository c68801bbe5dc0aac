// Package cache is a store that keeps parts of another, remote store's objects on local disk.
//
// Objects never change, so what is cached needs no freshness: it is either the bytes of that name or damaged. Every
// file carries a checksum and the names of its cluster and object, and is verified when written and whenever it is
// opened; one that does not verify is dropped and its bytes are read from the bucket again. Nothing is synced to disk:
// after a crash any file may be absent, old, torn or full of zeros. Trouble with the folder never makes a read fail.
//
// Neither a miss nor an object that the caller does not admit is ever remembered. Concurrent reads of one cold block
// cost one request. See FORMAT.md for the files.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/flight"
	"github.com/sebbroker/seb/internal/objstore"
)

// Options configures a cache.
type Options struct {
	// Bytes bounds what the cache takes of the disk, at every moment, temporary files and files still being read after
	// their removal included. It counts whole pages of 4 KiB. 0 switches the cache off.
	Bytes int64
	// Cluster is the identity of the cluster whose objects these are, at most 255 bytes: two buckets that share a folder
	// never see each other's.
	Cluster string
	// Cacheable says by its name whether an object may be cached; nil means every one. It must be quick.
	Cacheable func(key string) bool
	// Admit says by its first bytes whether an object may be cached: start holds 256 bytes, or the whole object if it is
	// shorter. It is asked about objects of at most one block (1 MiB); nil admits all. It must not keep start.
	Admit func(key string, start []byte) bool
	// Index is what the list of cached blocks takes its memory from; nil takes it from nowhere.
	Index *budget.Class
	// Fetches is how many blocks may be in memory at once on their way from the bucket to disk, 1 MiB each. 0 means 4.
	// Further ones are asked for, 32 requests at a time, and their bytes wait: what takes long is the answer, not them.
	Fetches int
	// Buffers is the pool for blocks on their way to disk; nil makes one.
	Buffers *budget.Buffers
	// Logger hears, once each, of trouble with the folder and of damage; nil means slog.Default.
	Logger *slog.Logger
}

const (
	blockBytes = 1 << 20 // unit of caching: an aligned range of an object
	runMax     = 8       // blocks that one request fetches at most
	fetches    = 4       // default of Options.Fetches
	asksMax    = 32      // requests under way that fill the cache
	openMax    = 128     // files kept open, verified
	queueMax   = 16      // objects handed over by Keep and not yet written
	entryBytes = 320     // memory of one block in the index: its struct, map entry and list elements
	startBytes = 256     // what Admit gets to see
)

// tuning is what tests make small.
type tuning struct {
	block   int64
	openMax int
	hook    func(op string) error // called before each step on disk; its error is the step's
}

// Cache is the caching store. All methods may be called concurrently.
type Cache struct {
	remote  objstore.Store
	o       Options
	block   int64
	openMax int
	hook    func(op string) error
	folder  *folder // nil if there is none to use
	buffers *budget.Buffers
	memory  *budget.Reservation // of the index
	slots   chan struct{}       // one element for each block in memory
	asks    chan struct{}       // one element for each request under way
	queue   chan *kept
	work    sync.WaitGroup // goroutines of the cache
	trouble sync.Once      // logs the first error of the folder
	damaged sync.Once      // logs the first damaged file

	mu      sync.Mutex // guards what follows
	index   map[name]*block
	flights flight.Group[name, *block]
	filling map[*fill]struct{}
	recent  lru // indexed blocks, newest use first
	opened  lru // indexed blocks whose file is open, newest use first
	used    int64
	temps   uint64 // number of the next temporary file
	stats   Stats
	closed  bool
}

var (
	_ objstore.Store   = (*Cache)(nil)
	_ objstore.Clocked = (*Cache)(nil)
)

// Stats is what a cache did since it was opened, and what it holds.
type Stats struct {
	Hits        uint64 // blocks answered from disk
	Misses      uint64 // blocks asked of the bucket, or waited for while another reader asked
	Requests    uint64 // range reads sent to the bucket to fill the cache
	Filled      uint64 // blocks written to disk
	Evicted     uint64 // blocks removed to make room
	Damaged     uint64 // files dropped because they did not verify
	WriteErrors uint64 // blocks not cached because the disk failed
	Unkept      uint64 // objects that Keep turned away because the disk was too slow
	Blocks      int    // now
	Bytes       int64  // now, on disk
	Limit       int64
}

// Open makes a cache over a store in the given folder, which is made if it is not there. Trouble with the folder is
// logged and the cache goes on without it, as it does if another process uses the folder; an error means that the
// options are wrong. The caller closes the cache before the store.
func Open(dir string, remote objstore.Store, o Options) (*Cache, error) {
	return open(dir, remote, o, tuning{block: blockBytes, openMax: openMax})
}

func open(dir string, remote objstore.Store, o Options, t tuning) (*Cache, error) {
	if o.Bytes < 0 || o.Fetches < 0 || len(o.Cluster) == 0 || len(o.Cluster) > clusterMax {
		return nil, fmt.Errorf("open cache: %d bytes, %d fetches, cluster %q", o.Bytes, o.Fetches, o.Cluster)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Cache{
		remote: remote, o: o, block: t.block, openMax: t.openMax, hook: t.hook, buffers: o.Buffers,
		slots: make(chan struct{}, cmp.Or(o.Fetches, fetches)), asks: make(chan struct{}, asksMax), queue: make(chan *kept, queueMax),
		index: make(map[name]*block), filling: make(map[*fill]struct{}),
	}
	c.flights = flight.Group[name, *block]{
		Lock: &c.mu, Retain: func(b *block, uses int) { b.refs += uses }, Release: c.releaseLocked,
	}
	if c.buffers == nil {
		c.buffers = budget.NewBuffers(4 * blockBytes)
	}
	if o.Index != nil {
		empty, err := o.Index.Reserve(0)
		if err != nil {
			return nil, fmt.Errorf("open cache: index: %w", err)
		}
		c.memory = empty
	}
	if o.Bytes > 0 {
		c.openFolder(dir)
	}
	c.work.Go(c.writeKept)
	return c, nil
}

// Close stops the cache's own requests and writes, waits for them and closes its files. Objects opened before may
// still be read; the cache itself passes everything on to the store from now on. It may be called twice.
func (c *Cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.work.Wait()
		return nil
	}
	c.closed = true
	close(c.queue)
	for f := range c.filling {
		f.cancel()
	}
	c.mu.Unlock()
	c.work.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, b := range c.index {
		b.indexed = false // its last reader closes it
		if b.refs == 0 && b.file != nil {
			errs = append(errs, b.file.Close())
			b.file = nil
		}
	}
	clear(c.index)
	c.recent.list.Init()
	c.opened.list.Init()
	c.memory.Release()
	if c.folder != nil {
		errs = append(errs, c.folder.close())
	}
	return errors.Join(errs...)
}

// Put passes on to the store. What was put is not cached by it: the caller still owns the bytes. See Keep.
func (c *Cache) Put(ctx context.Context, key string, body objstore.Body) error {
	return c.remote.Put(ctx, key, body)
}

// List passes on to the store.
func (c *Cache) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	return c.remote.List(ctx, o)
}

// Delete passes on to the store and forgets what was cached of the names.
func (c *Cache) Delete(ctx context.Context, keys ...string) error {
	err := c.remote.Delete(ctx, keys...)
	c.Forget(keys...)
	return err
}

// Forget drops what is cached of objects, also what is being fetched now.
func (c *Cache) Forget(keys ...string) {
	if len(keys) == 0 {
		return
	}
	gone := make(map[object]bool, len(keys))
	for _, key := range keys {
		gone[c.object(key)] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.filling {
		if gone[f.object] {
			f.forgotten = true
		}
	}
	for n, b := range c.index {
		if gone[n.object] {
			c.dropLocked(b)
		}
	}
}

// String is the store's: the cache is nothing that people need to know of.
func (c *Cache) String() string { return c.remote.String() }

// ClockSkew is the store's, if it tells the time.
func (c *Cache) ClockSkew() (skew time.Duration, ok bool) {
	if clocked, is := c.remote.(objstore.Clocked); is {
		return clocked.ClockSkew()
	}
	return 0, false
}

// Stats is a snapshot of the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Blocks, s.Bytes, s.Limit = len(c.index), c.used, c.o.Bytes
	return s
}

func (c *Cache) cacheable(key string) bool {
	return c.folder != nil && len(key) > 0 && len(key) <= keyMax && (c.o.Cacheable == nil || c.o.Cacheable(key))
}

// admits asks the caller about an object by its first bytes.
func (c *Cache) admits(key string, size int64, start []byte) bool {
	if size <= 0 {
		return false
	}
	return size > c.block || c.o.Admit == nil || c.o.Admit(key, start[:min(len(start), startBytes)])
}

// failed counts trouble with the folder and logs the first.
func (c *Cache) failed(step string, err error) {
	c.mu.Lock()
	c.stats.WriteErrors++
	c.mu.Unlock()
	c.logTrouble(step, err)
}

func (c *Cache) logTrouble(step string, err error) {
	c.trouble.Do(func() {
		c.o.Logger.Warn("disk cache is in trouble; reads are answered from the bucket", "step", step, "err", err)
	})
}
