package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/objstore/storecheck"
)

// openStore opens the bucket, or takes the one that is given.
func openStore(ctx context.Context, o *Options) (objstore.Store, error) {
	if o.Store != nil {
		return o.Store, nil
	}
	return objstore.Open(ctx, o.Bucket, objstore.Options{Existing: o.ReadOnly})
}

// gate is a remote store that is checked (rule R10) before the first PUT. By then the log was read to its end, so a bucket
// that this program must refuse (state.ErrNewer) holds not even an object of the check. A local store has no gate, nor has
// a reader, which writes nothing. A store that refuses to be read fails the check at once.
type gate struct {
	objstore.Store
	once  sync.Once
	begin chan error    // what the check begins by: nil for the first PUT, or why the store has refused to be read
	done  chan struct{} // closed at the end of the check
	err   error         // of it; after done
}

// check returns the gate of a store, which checks it unless it is known to be good, and calls fail if it is not. ctx ends
// the check, or the wait for the first PUT.
func check(ctx context.Context, store objstore.Store, o *Options, f *folder, fail func(error)) *gate {
	if o.ReadOnly || objstore.IsLocal(store) {
		return nil // our own stores are checked by our own tests
	}
	g := &gate{Store: store, begin: make(chan error, 1), done: make(chan struct{})}
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

func (g *gate) check(ctx context.Context, refused error, o *Options, f *folder) error {
	warnLifecycle(ctx, g.Store, o.Logger)
	name := g.Store.String()
	if f.hasPassed(name) {
		return nil
	}
	if refused != nil {
		return fmt.Errorf("%s: %w", name, refused)
	}
	o.Logger.Info("checking the store", "store", name)
	if err := storecheck.Run(ctx, g.Store, storecheck.Options{}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	failpoint.Hit("start.checked")
	if s, ok := g.Store.(*objstore.S3); ok {
		_ = s.Close() // those who raced have left connections that are idle now, with a buffer each; it goes on
	}
	if err := f.remember(name); err != nil {
		o.Logger.Warn("store check not remembered", "err", err)
	}
	return nil
}

// wait waits for the end of the check and returns its fault.
func (g *gate) wait() error {
	if g == nil {
		return nil
	}
	<-g.done
	return g.err
}

// Put waits until the check has passed. After a fault nothing is sent.
func (g *gate) Put(ctx context.Context, key string, body objstore.Body) error {
	g.open(nil)
	select {
	case <-g.done:
	case <-ctx.Done():
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrNoVerdict, context.Cause(ctx))
	}
	if g.err != nil {
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrRefused, g.err)
	}
	return g.Store.Put(ctx, key, body)
}

// open has the check begin, once.
func (g *gate) open(refused error) { g.once.Do(func() { g.begin <- refused }) }

// Get has the check fail if the store refuses to be read.
func (g *gate) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	o, err := g.Store.Get(ctx, key, r)
	if errors.Is(err, objstore.ErrRefused) && r.Offset == 0 { // beyond the end of an object says nothing of the store
		g.open(err)
	}
	return o, err
}

// List has the check fail if the store refuses to be read.
func (g *gate) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	entries, more, err := g.Store.List(ctx, o)
	if errors.Is(err, objstore.ErrRefused) {
		g.open(err)
	}
	return entries, more, err
}

// Unwrap returns the store below.
func (g *gate) Unwrap() objstore.Store { return g.Store }

// ClockSkew is the store's, if it tells the time.
func (g *gate) ClockSkew() (skew time.Duration, ok bool) {
	if clocked, is := objstore.As[objstore.Clocked](g.Store); is {
		return clocked.ClockSkew()
	}
	return 0, false
}

// warnLifecycle looks for rules that would delete what must stay.
func warnLifecycle(ctx context.Context, store objstore.Store, log *slog.Logger) {
	l, ok := store.(*objstore.S3)
	if !ok {
		return
	}
	if warning := l.LifecycleWarning(ctx); warning != "" {
		log.Warn("bucket expires objects", "warning", warning)
	}
}

// closeStore gives back what a store holds, if it holds anything.
func closeStore(store objstore.Store) error {
	if c, ok := store.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
