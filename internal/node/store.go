package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sebbroker/seb/internal/objstore"
)

// openStore opens the bucket and, unless it is known to be good, checks it (rule R10).
func openStore(ctx context.Context, o *Options, f *folder) (objstore.Store, error) {
	store := o.Store
	if store == nil {
		var err error
		if store, err = objstore.Open(ctx, o.Bucket, objstore.Options{}); err != nil {
			return nil, err
		}
	}
	if o.ReadOnly || objstore.IsLocal(store) {
		// A reader writes nothing, and our own stores are checked by our own tests.
		return store, nil
	}
	warnLifecycle(ctx, store, o.Logger)
	if f.hasPassed(store.String()) {
		return store, nil
	}
	o.Logger.Info("checking the store", "store", store.String())
	if err := objstore.Check(ctx, store, objstore.CheckOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", store, err), closeStore(store))
	}
	if err := f.remember(store.String()); err != nil {
		o.Logger.Warn("store check not remembered", "err", err)
	}
	return store, nil
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
