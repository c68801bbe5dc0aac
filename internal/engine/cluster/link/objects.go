package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

const (
	// Prefix begins the names of registrations in the bucket.
	Prefix = "peer/"
	// PeersMax bounds the registrations that List reads, and the links of a run.
	PeersMax = 64

	retryPause = 50 * time.Millisecond
	readers    = 8 // concurrent GETs of List
)

// Put stores a run's registration. A registration that the run has stored before is no error.
func Put(ctx context.Context, store objstore.Store, r *cluster.Registration) error {
	b, err := Encode(r)
	if err != nil {
		return err
	}
	key := Key(r.Run)
	err = objstore.Retry(ctx, retryPause, func() error { return store.Put(ctx, key, objstore.NewBody(b)) })
	if errors.Is(err, objstore.ErrExists) {
		var had cluster.Registration
		if had, err = Get(ctx, store, r.Run); err == nil && !reflect.DeepEqual(had, *r) {
			err = fmt.Errorf("%s holds another registration: %w", key, objstore.ErrExists)
		}
	}
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// Get reads a run's registration. Errors: objstore.ErrNotFound, ErrDamaged, others of the store.
func Get(ctx context.Context, store objstore.Store, run cluster.Run) (r cluster.Registration, err error) {
	key := Key(run)
	var b []byte
	err = objstore.Retry(ctx, retryPause, func() error {
		o, err := store.Get(ctx, key, objstore.Range{Length: RegistrationMax + 1})
		if err != nil {
			return err
		}
		defer o.Body.Close()
		b, err = io.ReadAll(io.LimitReader(o.Body, RegistrationMax+1))
		return err
	})
	if err == nil {
		r, err = Decode(b)
	}
	if err == nil && r.Run != run {
		r, err = cluster.Registration{}, fmt.Errorf("%w: it is of run %s", ErrDamaged, r.Run)
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", key, err)
	}
	return r, nil
}

// Listing is what List finds.
type Listing struct {
	Found   []cluster.Registration
	Own     []cluster.Run // registered runs of the node that lists; they are not read
	Damaged []error       // one for each object that is not a valid registration; it names the object
	More    bool          // further objects were not read, because PeersMax were
}

// List reads the registrations of the bucket, at most PeersMax, for a node or for none.
func List(ctx context.Context, store objstore.Store, node record.ID) (l Listing, err error) {
	var entries []objstore.Entry
	err = objstore.Retry(ctx, retryPause, func() (err error) {
		entries, l.More, err = store.List(ctx, objstore.ListOptions{Prefix: Prefix, Max: PeersMax})
		return err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list registrations: %w", err)
	}
	found, errs := make([]cluster.Registration, len(entries)), make([]error, len(entries))
	places := make(chan struct{}, readers)
	var reading sync.WaitGroup
	for i, e := range entries {
		run, ok := ParseKey(e.Key)
		if !ok {
			errs[i] = fmt.Errorf("%s: %w: not the name of one", e.Key, ErrDamaged)
			continue
		}
		if run.Node == node {
			l.Own = append(l.Own, run)
			errs[i] = objstore.ErrNotFound
			continue
		}
		places <- struct{}{}
		reading.Go(func() {
			found[i], errs[i] = Get(ctx, store, run)
			<-places
		})
	}
	reading.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			l.Found = append(l.Found, found[i])
		case errors.Is(err, ErrDamaged):
			l.Damaged = append(l.Damaged, err)
		case !errors.Is(err, objstore.ErrNotFound): // else deleted meanwhile, or not read
			return Listing{}, fmt.Errorf("list registrations: %w", err)
		}
	}
	return l, nil
}

// Delete removes the registrations of runs. A missing one is no error.
func Delete(ctx context.Context, store objstore.Store, runs ...cluster.Run) error {
	keys := make([]string, len(runs))
	for i, run := range runs {
		keys[i] = Key(run)
	}
	if len(keys) == 0 {
		return nil
	}
	if err := objstore.Retry(ctx, retryPause, func() error { return store.Delete(ctx, keys...) }); err != nil {
		return fmt.Errorf("delete registrations: %w", err)
	}
	return nil
}
