package node

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/objstore/cache"
	"github.com/sebbroker/seb/record"
)

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
