// Package cache is a store that keeps parts of a remote store's objects on local disk.
//
// Objects never change, so a cached block cannot be outdated: it is either the bytes of that name
// or damaged. Every file carries a checksum and the names of its cluster and object. It is verified
// when it is written and whenever it is opened; a file that fails is dropped and its bytes are read
// from the bucket again. Nothing is synced to disk: after a crash any file may be absent, old, torn
// or full of zeros. Errors of the folder never fail a read.
//
// The cache remembers neither misses nor objects that Admit refuses. Concurrent reads of one
// uncached block cost one request. FORMAT.md describes the files.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Options configures a cache.
type Options struct {
	// Bytes bounds the disk space of the cache at every moment. It includes temporary files and
	// removed files that are still being read, and counts whole pages of 4 KiB. 0 disables the
	// cache.
	Bytes int64
	// Cluster is the cluster ID of the objects, at most 255 bytes: buckets that share a folder do
	// not see each other's objects.
	Cluster string
	// Cacheable decides by its name whether an object may be cached; nil: always. It must be quick.
	Cacheable func(key string) bool
	// Admit decides by its first bytes whether an object may be cached: start holds 256 bytes, or
	// the whole object if it is shorter. It is called for objects of at most one block (1 MiB); nil
	// admits all. It must not retain start.
	Admit func(key string, start []byte) bool
	// Index is the class that the index of cached blocks reserves its memory from, may be nil.
	Index *budget.Class
	// Fetches is how many blocks, 1 MiB each, may be in memory between bucket and disk. 0 means 4.
	// Up to 32 requests run concurrently, and their bytes wait for memory, because the response
	// takes longer than the transfer.
	Fetches int
	// Ahead is the class that reserves the memory of requests that read ahead, may be nil. They take
	// at most an eighth of it, and leave a quarter of it free.
	Ahead *budget.Class
	// Buffers is the pool for blocks on their way to disk; nil creates one.
	Buffers *budget.Buffers
	// Logger gets one message about the first error of the folder and one about the first damaged
	// file; nil means slog.Default.
	Logger *slog.Logger
}

const (
	blockBytes = 1 << 20 // unit of caching: an aligned range of an object
	runMax     = 8       // maximum of blocks per request
	fetches    = 4       // default of Options.Fetches
	asksMax    = 32      // concurrent requests that fill the cache
	openMax    = 128     // files kept open after verification
	queueMax   = 16      // objects of Keep that wait to be written
	entryBytes = 320     // memory of a block in the index: struct, map entry, list elements
	startBytes = 256     // bytes that Admit gets
)

// tuning has the values that tests reduce.
type tuning struct {
	block   int64
	openMax int
	hook    func(op string) error // called before each step on disk; its error becomes the step's
}

// Cache is the caching store. All methods may be called concurrently.
type Cache struct {
	remote      objstore.Store
	o           Options
	block       int64
	openMax     int
	hook        func(op string) error
	folder      *folder // nil if no folder can be used
	buffers     *budget.Buffers
	memory      *budget.Reservation // of the index
	slots       chan struct{}       // one element for each block in memory
	asks        chan struct{}       // one element for each request under way
	queue       chan *kept
	work        sync.WaitGroup // goroutines of the cache
	errorLogged sync.Once      // guards the log message of the first folder error
	damaged     sync.Once      // guards the log message of the first damaged file

	mu        sync.Mutex // guards the fields below
	index     map[name]*block
	flights   objstore.Flights[name, *block]
	filling   map[*fill]struct{}
	ahead     int       // requests that read ahead
	unwritten time.Time // when a block that was read ahead could not be written
	recent    lru       // indexed blocks, newest use first
	opened    lru       // indexed blocks whose file is open, newest use first
	used      int64
	temps     uint64 // number of the next temporary file
	stats     Stats
	closed    bool
}

var (
	_ objstore.Store   = (*Cache)(nil)
	_ objstore.Ahead   = (*Cache)(nil)
	_ objstore.Clocked = (*Cache)(nil)
)

// Stats counts the cache's work since it was opened, and its content.
type Stats struct {
	Hits        uint64 // blocks read from disk
	Misses      uint64 // blocks requested from the bucket, by this or a concurrent reader
	Requests    uint64 // range reads from the bucket to fill the cache
	Ahead       uint64 // those requests that read ahead
	Filled      uint64 // blocks written to disk
	Evicted     uint64 // blocks removed to make room
	Damaged     uint64 // files dropped because verification failed
	WriteErrors uint64 // blocks not cached because of disk errors
	Unkept      uint64 // objects that Keep refused because the disk was too slow
	Blocks      int    // now
	Bytes       int64  // now, on disk
	Limit       int64
}

// Open opens a cache of a store in the given folder, which it creates if needed. If the folder
// cannot be used, or another process uses it, the cache logs that and passes reads through. An
// error means invalid options. The caller closes the cache before the store.
func Open(dir string, remote objstore.Store, o Options) (*Cache, error) {
	return open(dir, remote, o, tuning{block: blockBytes, openMax: openMax})
}

func open(dir string, remote objstore.Store, o Options, t tuning) (*Cache, error) {
	if o.Bytes < 0 || o.Fetches < 0 || len(o.Cluster) == 0 || len(o.Cluster) > clusterMax {
		return nil, fmt.Errorf("open cache: %d bytes, %d fetches, cluster %q", o.Bytes, o.Fetches, o.Cluster)
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	c := &Cache{
		remote: remote, o: o, block: t.block, openMax: t.openMax, hook: t.hook, buffers: o.Buffers,
		slots: make(chan struct{}, cmp.Or(o.Fetches, fetches)), asks: make(chan struct{}, asksMax), queue: make(chan *kept, queueMax),
		index: make(map[name]*block), filling: make(map[*fill]struct{}),
	}
	c.flights = objstore.Flights[name, *block]{
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

// Close cancels the cache's own requests and writes, waits for them and closes its files. Open
// objects can still be read; further calls go to the store. It may be called twice.
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
		b.indexed = false // the last reader closes it
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

// Put calls the store. It does not cache the object, because the caller owns the bytes. See Keep.
func (c *Cache) Put(ctx context.Context, key string, body objstore.Body) error {
	return c.remote.Put(ctx, key, body)
}

// List calls the store.
func (c *Cache) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	return c.remote.List(ctx, o)
}

// Delete calls the store and drops the cached blocks of the names.
func (c *Cache) Delete(ctx context.Context, keys ...string) error {
	err := c.remote.Delete(ctx, keys...)
	c.Forget(keys...)
	return err
}

// Forget drops the cached blocks of objects, including blocks that are being fetched. A later read
// asks the store.
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
	c.flights.ForgetLocked(func(n name) bool { return gone[n.object] })
	for n, b := range c.index {
		if gone[n.object] {
			c.dropLocked(b)
		}
	}
}

// String is the name of the store below.
func (c *Cache) String() string { return c.remote.String() }

// ClockSkew is the skew of the store below, if it reports its time.
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

// admits calls Admit for objects of at most one block.
func (c *Cache) admits(key string, size int64, start []byte) bool {
	if size <= 0 {
		return false
	}
	return size > c.block || c.o.Admit == nil || c.o.Admit(key, start[:min(len(start), startBytes)])
}

// failed counts an error of the folder and logs the first.
func (c *Cache) failed(step string, err error) {
	c.mu.Lock()
	c.stats.WriteErrors++
	c.mu.Unlock()
	c.logError(step, err)
}

func (c *Cache) logError(step string, err error) {
	c.errorLogged.Do(func() {
		c.o.Logger.Warn("disk cache failed; reading from the bucket", "step", step, "err", err)
	})
}

// kept is an object of Keep that waits to be written.
type kept struct {
	key   string
	parts [][]byte
	done  func()
	fill  *fill
}

// Keep caches an object that was just stored under key; parts are all its bytes in order. The cache
// owns them until it calls done, exactly once and from any goroutine, possibly before Keep returns.
// Keep never waits: if the disk is too slow, or the object is not cacheable, it calls done at once.
// It must only be called with the bytes that are in the bucket.
func (c *Cache) Keep(key string, parts [][]byte, done func()) {
	if done == nil {
		done = func() {}
	}
	if !c.cacheable(key) || !c.admits(key, sizeOf(parts), start(parts)) || !c.enqueue(&kept{key: key, parts: parts, done: done}) {
		done()
	}
}

func (c *Cache) enqueue(k *kept) bool {
	k.fill = &fill{object: c.object(k.key), cancel: func() {}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case c.queue <- k:
		c.filling[k.fill] = struct{}{}
		return true
	default:
		c.stats.Unkept++
		return false
	}
}

// writeKept writes the objects of Keep until Close.
func (c *Cache) writeKept() {
	for k := range c.queue {
		c.writeObject(k)
		c.mu.Lock()
		delete(c.filling, k.fill)
		c.mu.Unlock()
		k.done()
	}
}

func (c *Cache) writeObject(k *kept) {
	size := sizeOf(k.parts)
	for at := int64(0); at < size; at += c.block {
		n := name{k.fill.object, uint32(at / c.block)}
		c.mu.Lock()
		skip := c.closed || k.fill.forgotten || c.index[n] != nil
		c.mu.Unlock()
		if skip {
			continue
		}
		x := content{key: k.key, name: n, size: size, parts: cut(k.parts, at, min(size, at+c.block))}
		if b := c.write(x, k.fill); b != nil {
			c.release(b)
		}
	}
}

func sizeOf(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// start returns the first bytes of an object for Admit.
func start(parts [][]byte) []byte {
	var s []byte
	for _, p := range cut(parts, 0, startBytes) {
		s = append(s, p...)
	}
	return s
}

// cut returns the bytes from one position to another without copying.
func cut(parts [][]byte, from, to int64) [][]byte {
	var out [][]byte
	for _, p := range parts {
		n := int64(len(p))
		if lo, hi := max(from, 0), min(to, n); lo < hi {
			out = append(out, p[lo:hi])
		}
		from, to = from-n, to-n
	}
	return out
}
