package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/cache"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/record"
)

// openStore opens the bucket, or returns the given store.
func openStore(ctx context.Context, o *Options) (objstore.Store, error) {
	if o.Store != nil {
		return o.Store, nil
	}
	return anystore.Open(ctx, o.Bucket, anystore.Options{Existing: o.ReadOnly})
}

// StoreCheckError: the store has not passed its check, so nothing is written.
type StoreCheckError struct{ Err error }

func (e *StoreCheckError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *StoreCheckError) Unwrap() error { return e.Err }

// checkedStore is a remote store that passes the check of rule R10 before the first PUT. The log is
// read to its end before, so a bucket that this program must refuse (state.ErrNewer) does not even
// get an object of the check. Local stores and read-only nodes need no check. A store that refuses
// reads fails the check at once.
type checkedStore struct {
	objstore.Store
	once  sync.Once
	begin chan error    // start of the check: nil at the first PUT, or the refusal of a read
	done  chan struct{} // closed at the end of the check
	err   error         // result of the check, valid after done
	// opened: the node is open. A node that follows puts its first object when it takes over.
	opened atomic.Bool
}

// check returns the checkedStore of a store, or nil if it is known to pass. It calls fail if the
// check fails. ctx ends the check, or the wait for the first PUT; a node that is open may still wait.
func check(ctx context.Context, store objstore.Store, o *Options, f *folder, fail func(error)) *checkedStore {
	if o.ReadOnly || objstore.IsLocal(store) {
		return nil // our own tests cover our own stores
	}
	g := &checkedStore{Store: store, begin: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		select {
		case refused := <-g.begin:
			g.err = g.check(ctx, refused, o, f)
		case <-ctx.Done():
			g.err = fmt.Errorf("store not checked: %w", context.Cause(ctx))
			return
		}
		if g.err != nil {
			fail(g.err)
		}
	}()
	return g
}

func (g *checkedStore) check(ctx context.Context, refused error, o *Options, f *folder) error {
	warnLifecycle(ctx, g.Store, o.Logger)
	name := g.Store.String()
	if f.hasPassed(name) {
		return nil
	}
	if refused != nil {
		return fmt.Errorf("%s: %w", name, refused)
	}
	o.Logger.Info("store check started", "store", name)
	if err := objstore.Check(ctx, g.Store, objstore.CheckOptions{}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	failpoint.Hit("start.checked")
	if s, ok := g.Store.(*s3.Store); ok {
		// the concurrent writers leave idle connections, with a buffer each; they are reopened on
		// demand
		_ = s.Close()
	}
	if err := f.remember(name); err != nil {
		o.Logger.Warn("store check result not saved", "err", err)
	}
	return nil
}

// wait waits for the end of the check and returns its error.
func (g *checkedStore) wait() error {
	if g == nil {
		return nil
	}
	<-g.done
	return g.err
}

// Put waits until the check has passed. After an error it sends nothing.
func (g *checkedStore) Put(ctx context.Context, key string, body objstore.Body) error {
	g.open(nil)
	select {
	case <-g.done:
	case <-ctx.Done():
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrNoVerdict, context.Cause(ctx))
	}
	if g.err != nil {
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrRefused, &StoreCheckError{g.err})
	}
	return g.Store.Put(ctx, key, body)
}

// open starts the check, once.
func (g *checkedStore) open(refused error) { g.once.Do(func() { g.begin <- refused }) }

// refused fails the check of a node that is not open yet, because the store refuses its reads.
func (g *checkedStore) refused(err error) {
	if !g.opened.Load() {
		g.open(err)
	}
}

// Get fails the check if the store refuses the read.
func (g *checkedStore) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	o, err := g.Store.Get(ctx, key, r)
	// a refusal beyond an object's end is no error of the store, and damage stops the log by itself
	if errors.Is(err, objstore.ErrRefused) && r.Offset == 0 && !errors.Is(err, objstore.ErrDamaged) {
		g.refused(err)
	}
	return o, err
}

// List fails the check if the store refuses the list.
func (g *checkedStore) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	entries, more, err := g.Store.List(ctx, o)
	if errors.Is(err, objstore.ErrRefused) {
		g.refused(err)
	}
	return entries, more, err
}

// Unwrap returns the underlying store.
func (g *checkedStore) Unwrap() objstore.Store { return g.Store }

// ClockSkew returns the skew of the store's clock, if the store has one.
func (g *checkedStore) ClockSkew() (skew time.Duration, ok bool) {
	if clocked, is := objstore.As[objstore.Clocked](g.Store); is {
		return clocked.ClockSkew()
	}
	return 0, false
}

// warnLifecycle warns about lifecycle rules that would delete objects of the log. The permission to
// read the rules is optional.
func warnLifecycle(ctx context.Context, store objstore.Store, log *slog.Logger) {
	l, ok := store.(*s3.Store)
	if !ok {
		return
	}
	if warning, err := l.LifecycleWarning(ctx); err == nil && warning != "" {
		log.Warn("bucket has a lifecycle rule that expires objects", "warning", warning)
	}
}

// closeStore releases the resources of a store, if it has any.
func closeStore(store objstore.Store) error {
	if c, ok := store.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// folder is the data folder. All its files can be rebuilt. A nil folder stores nothing.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder creates the folder if it is missing and locks it. Only its owner may read it, because
// its files have the API key.
func openFolder(dir string) (*folder, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder (--data-dir): %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s (--data-dir): %w", dir, err)
	}
	if err := objstore.LockFile(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, objstore.ErrFileInUse) {
			err = ErrFolderInUse
		}
		return nil, fmt.Errorf("data folder %s (--data-dir): %w", dir, err)
	}
	// The lock has the process ID, for `kill $(cat lock)`. A full disk must not prevent a start.
	if lock.Truncate(0) == nil {
		_, _ = fmt.Fprintln(lock, os.Getpid())
	}
	return &folder{dir: dir, lock: lock}, nil
}

func (f *folder) close() error {
	if f == nil {
		return nil
	}
	_ = f.lock.Truncate(0)
	return objstore.CloseFile(f.lock)
}

// ErrFolderInUse: another process uses this data folder.
var ErrFolderInUse = errors.New("in use by another broker; give each its own --data-dir")

// checksFile has the stores that have passed the check of rule R10.
const checksFile = "store-checks.json"

// checksMax bounds the entries of the file; the oldest are removed first.
const checksMax = 64

// checked is a store that has passed.
type checked struct {
	Store   string    `json:"store"`   // bucket, prefix and endpoint
	Version string    `json:"version"` // of Seb: a newer one may require more
	At      time.Time `json:"at"`
}

// checks returns the stores that have passed; an unreadable file counts as empty.
func (f *folder) checks() []checked {
	if f == nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(f.dir, checksFile))
	if err != nil {
		return nil
	}
	var all []checked
	if json.Unmarshal(b, &all) != nil {
		return nil
	}
	return all
}

func (f *folder) hasPassed(store string) bool {
	return slices.ContainsFunc(f.checks(), func(c checked) bool { return c.Store == store && c.Version == version() })
}

func (f *folder) remember(store string) error {
	if f == nil {
		return nil
	}
	all := append(f.checks(), checked{Store: store, Version: version(), At: time.Now().UTC()})
	if n := len(all) - checksMax; n > 0 {
		all = all[n:]
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir, checksFile)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// version returns the version of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// cached is a remote store with a disk cache. The cache's files have the cluster ID, which is
// unknown until the log has read or created the cluster object. There is no cache until that object
// passes through Get.
type cached struct {
	objstore.Store
	open  func(cluster record.ID) (*cache.Cache, error)
	cache atomic.Pointer[cache.Cache]
}

// metaMax is far above the size of the cluster object.
const metaMax = 64 << 10

func (c *cached) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if k := c.cache.Load(); k != nil {
		return k.Get(ctx, key, r)
	}
	o, err := c.Store.Get(ctx, key, r)
	if err != nil || key != core.MetaKey {
		return o, err
	}
	defer o.Body.Close()
	b, err := io.ReadAll(io.LimitReader(o.Body, metaMax))
	if err != nil {
		return objstore.Object{}, err
	}
	if id, _, err := core.DecodeMeta(b); err == nil {
		k, err := c.open(id)
		if err == nil && !c.cache.CompareAndSwap(nil, k) {
			_ = k.Close()
		}
	}
	return objstore.Object{Size: o.Size, Body: io.NopCloser(bytes.NewReader(b))}, nil
}

func (c *cached) Delete(ctx context.Context, keys ...string) error {
	if k := c.cache.Load(); k != nil {
		return k.Delete(ctx, keys...)
	}
	return c.Store.Delete(ctx, keys...)
}

// Forget drops objects from the cache.
func (c *cached) Forget(keys ...string) {
	if k := c.cache.Load(); k != nil {
		k.Forget(keys...)
	}
}

// FetchAhead implements objstore.Ahead.
func (c *cached) FetchAhead(next []objstore.Extent, wanted, window int64) (local bool) {
	k := c.cache.Load()
	return k != nil && k.FetchAhead(next, wanted, window)
}

// AheadMax implements objstore.Ahead.
func (c *cached) AheadMax() int64 {
	if k := c.cache.Load(); k != nil {
		return k.AheadMax()
	}
	return 0
}

// Unwrap returns the remote store.
func (c *cached) Unwrap() objstore.Store { return c.Store }

// ClockSkew returns the skew of the store's clock, if the store has one.
func (c *cached) ClockSkew() (skew time.Duration, ok bool) {
	if clocked, is := c.Store.(objstore.Clocked); is {
		return clocked.ClockSkew()
	}
	return 0, false
}

// keep passes a committed object to the cache and returns when the cache no longer uses the parts.
func (c *cached) keep(key string, parts [][]byte) {
	k := c.cache.Load()
	if k == nil {
		return
	}
	done := make(chan struct{})
	k.Keep(key, parts, func() { close(done) })
	<-done
}

func (c *cached) close() error {
	if k := c.cache.Load(); k != nil {
		return k.Close()
	}
	return nil
}

// cacheable reports whether an object is cached: commit objects and packs. Snapshots are read once.
func cacheable(key string) bool {
	return strings.Contains(key, "/wal/") || strings.Contains(key, "/pack/")
}

// admit excludes seals from the cache: only the store itself is trusted for a seal (rule R11).
func admit(_ string, start []byte) bool {
	h, err := record.DecodeHead(start)
	return err == nil && h.Kind != record.KindSeal
}
