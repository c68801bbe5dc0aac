package auth

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/wake"
)

// Watch calls end, once and in a goroutine of its own, when the identity is no longer valid, or
// when allowed, called after each change of rules, returns false. A nil allowed is always true.
// After stop, end is no longer called; it may still be running.
//
// Watch ends a connection or stream soon after a revocation. An answer that must not follow the
// revocation needs a check of its own immediately before it is sent.
func (i *Identity) Watch(allowed func() bool, end func()) (stop func()) {
	if i.Root() {
		return func() {}
	}
	w := &watch{i: i, allowed: allowed, end: sync.OnceFunc(end)}
	i.a.watches.add(w)
	w.examine() // a change may have come before add
	return func() {
		i.a.watches.remove(w)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped = true
		if w.timer != nil {
			w.timer.Stop()
		}
	}
}

type watch struct {
	i       *Identity
	allowed func() bool
	end     func()

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	expires int64 // when the timer ends the watch, µs; 0: there is none
	stopped bool
}

// examine ends the watch if it must, or sets its timer.
func (w *watch) examine() {
	g := w.i.current()
	if !w.i.valid(g) || w.allowed != nil && !w.allowed() {
		go w.end()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || g.expires == w.expires {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer, w.expires = nil, g.expires
	if g.expires != 0 {
		w.timer = time.AfterFunc(time.UnixMicro(g.expires).Sub(w.i.a.now()), w.end)
	}
}

// watches are the watched identities.
type watches struct {
	mu   sync.Mutex // guards all
	all  map[*watch]struct{}
	wake wake.Signal // rules have changed
	// changed is closed and replaced after each change.
	changed atomic.Pointer[chan struct{}]
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	stop    func()
}

func (s *watches) add(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[w] = struct{}{}
}

func (s *watches) remove(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, w)
}

func (s *watches) list() []*watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*watch, 0, len(s.all))
	for w := range s.all {
		list = append(list, w)
	}
	return list
}

// useInterval is how often uses are stored, so that an idle broker makes no request for them.
const useInterval = time.Hour

func (a *Authority) start() {
	s := &a.watches
	s.all, s.wake = map[*watch]struct{}{}, wake.New()
	s.changed.Store(new(make(chan struct{})))
	s.stop = a.b.OnAccessChange(s.wake.Send)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.ended.Go(func() { a.run(ctx) })
	if a.b.MayFollow() {
		s.ended.Go(func() { a.confirm(ctx) })
	}
}

func (a *Authority) run(ctx context.Context) {
	hourly := time.NewTicker(useInterval)
	defer hourly.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.watches.wake:
			for _, w := range a.watches.list() {
				w.examine()
			}
			close(*a.watches.changed.Swap(new(make(chan struct{}))))
		case <-hourly.C:
			a.storeUses(ctx)
		}
	}
}

// confirm makes a follower with sessions confirm its state, because clients that read old records
// give it no reason to look for new commits. A change then wakes run. If the follower cannot learn of
// revocations, the sessions end.
func (a *Authority) confirm(ctx context.Context) {
	often := time.NewTicker(time.Second)
	defer often.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-often.C:
		}
		if !a.b.Follows() || len(a.watches.list()) == 0 {
			continue
		}
		err := a.fresh(ctx, sessionAge)
		if err == nil || ctx.Err() != nil {
			continue
		}
		list := a.watches.list()
		a.log.Warn("sessions of tokens ended, because the state of this follower cannot be confirmed", "sessions", len(list), "err", err)
		for _, w := range list {
			go w.end()
		}
	}
}

// Close stops watching. It may be called twice. Uses of the last hour that were not stored are
// lost.
func (a *Authority) Close() {
	a.watches.stop()
	a.watches.cancel()
	a.watches.ended.Wait()
}

// uses are the last uses of secrets since the start.
type uses struct{ last sync.Map } // useKey to *atomic.Int64, µs

type useKey struct {
	principal string
	secret    uint64
}

// of returns the time of the last use of a secret.
func (u *uses) of(principal string, secret uint64) *atomic.Int64 {
	v, _ := u.last.LoadOrStore(useKey{principal, secret}, &atomic.Int64{})
	return v.(*atomic.Int64)
}

// LastUse is when a secret was last used: as stored, or since the start of this broker; 0 if never.
func (a *Authority) LastUse(p *access.Principal, s *access.Secret) int64 {
	if v, ok := a.uses.last.Load(useKey{p.ID, s.ID}); ok {
		return max(s.Used, v.(*atomic.Int64).Load())
	}
	return s.Used
}

// storeUses stores the uses that are newer than the stored ones by an interval, and forgets those
// of secrets that are gone.
func (a *Authority) storeUses(ctx context.Context) {
	if a.b.Follows() {
		return
	}
	t := a.b.Access()
	var list []access.Use
	a.uses.last.Range(func(k, v any) bool {
		key, at := k.(useKey), v.(*atomic.Int64).Load()
		p := t.Principal(key.principal)
		if p == nil || p.Secret(key.secret) == nil {
			a.uses.last.Delete(k)
			return true
		}
		if at > p.Secret(key.secret).Used {
			list = append(list, access.Use{Principal: key.principal, Secret: key.secret, Time: at})
		}
		return true
	})
	if len(list) == 0 {
		return
	}
	if err := a.b.RecordUse(ctx, list); err != nil {
		a.log.Warn("last use of tokens not stored", "tokens", len(list), "err", err)
	}
}
