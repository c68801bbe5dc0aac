package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/objstore"
)

// early is a remote store that was asked for the cluster object before the log asks, so that a start
// waits for it and for the list of other brokers at the same time.
type early struct {
	objstore.Store
	taken  atomic.Bool // the log has asked
	answer chan answer // capacity 1
}

// answer is the outcome of a GET.
type answer struct {
	size int64
	body []byte
	err  error
}

// readEarly asks for the cluster object, and does not wait. ctx ends the request. It returns the store
// for the log: the same if no other brokers are looked for, or if it is local.
func readEarly(ctx context.Context, store objstore.Store, o *Options) objstore.Store {
	if o.Join == nil || o.ReadOnly || objstore.IsLocal(store) {
		return store
	}
	e := &early{Store: store, answer: make(chan answer, 1)}
	go func() {
		object, err := store.Get(ctx, core.MetaKey, objstore.Whole)
		a := answer{size: object.Size, err: err}
		if err == nil {
			a.body, a.err = io.ReadAll(io.LimitReader(object.Body, metaMax))
			_ = object.Body.Close()
		}
		e.answer <- a
	}()
	return e
}

// Get returns the cluster object as it was read early to the first caller that asks for it.
func (e *early) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if key != core.MetaKey || e.taken.Swap(true) {
		return e.Store.Get(ctx, key, r)
	}
	select {
	case a := <-e.answer:
		return objstore.Object{Size: a.size, Body: io.NopCloser(bytes.NewReader(a.body))}, a.err
	case <-ctx.Done():
		return objstore.Object{}, fmt.Errorf("get %s: %w: %w", key, objstore.ErrNoVerdict, context.Cause(ctx))
	}
}

// Unwrap returns the underlying store.
func (e *early) Unwrap() objstore.Store { return e.Store }
