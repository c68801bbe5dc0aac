// Package fault wraps stores: Store makes them fail as object stores do, from a seed, and Counter counts what is asked
// of them.
package fault

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/objstore"
)

// Kind is a kind of fault.
type Kind int

// The kinds of faults.
const (
	None     Kind = iota
	Before        // no verdict, and nothing has happened (a reset, a 500, a 409)
	Lost          // it has happened, and the answer is lost: no verdict
	Late          // no verdict, and it happens later, at most Config.LateMax after the answer (Put and Delete)
	Hang          // no answer until the caller's context ends; whether it has happened is drawn
	Throttle      // throttled, and nothing has happened
	Refuse        // refused, and nothing has happened
	Truncate      // the body of a Get ends too early, with ErrNoVerdict
	kinds
)

// Rates gives the probability of each kind for one request, 0 to 1. A request has at most one fault, so the sum should
// not be above 1. Late counts as Before for Get and List, and Truncate is for Get alone.
type Rates [kinds]float64

// Config is what a Store does to requests.
type Config struct {
	Put, Get, List, Delete Rates

	// Every request takes between LatencyMin and LatencyMax more, a drawn part of it before it has its effect.
	LatencyMin, LatencyMax time.Duration
	// LateMax is the longest delay of a Late effect.
	LateMax time.Duration
}

// All gives every operation the same rates.
func All(r Rates) Config { return Config{Put: r, Get: r, List: r, Delete: r} }

// Store is a store with faults. What happens to a request depends on the seed, the operation, the name and how often
// that was asked before, not on the order in which goroutines run. Safe for concurrent use.
type Store struct {
	inner    objstore.Store
	seed     uint64
	config   atomic.Pointer[Config]
	injected [kinds]atomic.Int64
	late     sync.WaitGroup

	mu    sync.Mutex // guards asked
	asked map[request]uint64
}

// request is what a draw depends on, besides how often it was made.
type request struct {
	op   string
	name string
}

// New wraps inner.
func New(inner objstore.Store, seed uint64, c Config) *Store {
	s := &Store{inner: inner, seed: seed, asked: map[request]uint64{}}
	s.SetConfig(c)
	return s
}

// SetConfig changes what happens to requests from now on. The zero Config is a store without faults.
func (s *Store) SetConfig(c Config) { s.config.Store(&c) }

// Injected says how many requests have met a fault of a kind; None counts those without.
func (s *Store) Injected(k Kind) int64 { return s.injected[k].Load() }

// Settle waits until all Late effects have happened. No request may be begun meanwhile.
func (s *Store) Settle() { s.late.Wait() }

// Unwrap implements objstore.Unwrapper.
func (s *Store) Unwrap() objstore.Store { return s.inner }

// String implements objstore.Store.
func (s *Store) String() string { return s.inner.String() }

// fate is what has been drawn for one request.
type fate struct {
	kind          Kind
	before, after time.Duration // latency
	late          time.Duration
	effect        bool    // of a Hang
	part          float64 // of a body that is let through, 0 to 1
}

// draw decides the fate of a request.
func (s *Store) draw(c *Config, rates *Rates, r request) fate {
	s.mu.Lock()
	n := s.asked[r]
	s.asked[r]++
	s.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%d", r.op, r.name, n)
	random := rand.New(rand.NewPCG(s.seed, h.Sum64()))
	u := random.Float64()
	f := fate{effect: random.IntN(2) == 0, part: random.Float64()}
	for k := Before; k < kinds; k++ {
		if u -= rates[k]; u < 0 {
			f.kind = k
			break
		}
	}
	latency := c.LatencyMin
	if c.LatencyMax > c.LatencyMin {
		latency += time.Duration(random.Int64N(int64(c.LatencyMax - c.LatencyMin)))
	}
	f.before = time.Duration(random.Float64() * float64(latency))
	f.after = latency - f.before
	if c.LateMax > 0 {
		f.late = time.Duration(random.Int64N(int64(c.LateMax)))
	}
	if f.kind == Late && (r.op == "get" || r.op == "list") {
		f.kind = Before
	}
	if f.kind == Truncate && r.op != "get" {
		f.kind = None
	}
	s.injected[f.kind].Add(1)
	return f
}

var (
	errDropped   = errors.New("injected: connection reset")
	errLost      = errors.New("injected: the answer is lost")
	errThrottled = errors.New("injected: 503 SlowDown")
	errRefused   = errors.New("injected: 403 AccessDenied")
	errTruncated = errors.New("injected: the body ends here")
)

// run carries out one request as its fate has it. later is its effect without the caller, nil if there is none.
func (s *Store) run(ctx context.Context, f fate, effect func() error, later func() func()) error {
	if err := sleep(ctx, f.before); err != nil {
		return err
	}
	switch f.kind {
	case Before:
		return join(objstore.ErrNoVerdict, errDropped)
	case Throttle:
		return join(objstore.ErrThrottled, errThrottled)
	case Refuse:
		return join(objstore.ErrRefused, errRefused)
	case Late:
		s.postpone(f.late, later())
		return join(objstore.ErrNoVerdict, errLost)
	case Hang:
		if f.effect {
			_ = effect()
		}
		<-ctx.Done()
		return ended(ctx)
	case None, Lost, Truncate, kinds:
	}
	err := effect()
	if late := sleep(ctx, f.after); late != nil {
		return late
	}
	if f.kind == Lost {
		return join(objstore.ErrNoVerdict, errLost)
	}
	return err
}

func (s *Store) postpone(delay time.Duration, effect func()) {
	s.late.Add(1)
	time.AfterFunc(delay, func() {
		defer s.late.Done()
		effect()
	})
}

func join(class, err error) error { return fmt.Errorf("%w: %w", class, err) }

func ended(ctx context.Context) error { return join(objstore.ErrNoVerdict, ctx.Err()) }

// sleep waits, or gives the verdict of a ctx that has ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return nil
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body objstore.Body) error {
	c := s.config.Load()
	return s.run(ctx, s.draw(c, &c.Put, request{"put", key}),
		func() error { return s.inner.Put(ctx, key, body) },
		func() func() {
			own := make([]byte, 0, body.Size) // the caller's bytes are the caller's again when Put returns
			for _, p := range body.Parts {
				own = append(own, p...)
			}
			copied := body
			copied.Parts = [][]byte{own}
			return func() { _ = s.inner.Put(context.WithoutCancel(ctx), key, copied) }
		})
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	c := s.config.Load()
	f := s.draw(c, &c.Get, request{"get", key})
	var object objstore.Object
	err := s.run(ctx, f, func() (err error) {
		object, err = s.inner.Get(ctx, key, r)
		return err
	}, nil)
	if err != nil {
		if object.Body != nil {
			_ = object.Body.Close()
		}
		return objstore.Object{}, err
	}
	if f.kind == Truncate {
		object.Body = &truncated{inner: object.Body, left: int64(f.part * float64(bodySize(object, r)))}
	}
	return object, nil
}

// bodySize is about how many bytes an object's body has.
func bodySize(o objstore.Object, r objstore.Range) int64 {
	size := max(0, o.Size-r.Offset)
	if r.Length >= 0 {
		size = min(size, r.Length)
	}
	return size
}

// truncated is a body that ends too early.
type truncated struct {
	inner io.ReadCloser
	left  int64
}

// Read implements io.Reader.
func (t *truncated) Read(p []byte) (int, error) {
	if t.left == 0 && len(p) > 0 {
		return 0, join(objstore.ErrNoVerdict, errTruncated)
	}
	n, err := t.inner.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	if err == io.EOF {
		err = join(objstore.ErrNoVerdict, errTruncated)
	}
	return n, err
}

// Close implements io.Closer.
func (t *truncated) Close() error { return t.inner.Close() }

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) (entries []objstore.Entry, more bool, err error) {
	c := s.config.Load()
	f := s.draw(c, &c.List, request{"list", o.Prefix + "\x00" + o.After})
	err = s.run(ctx, f, func() (err error) {
		entries, more, err = s.inner.List(ctx, o)
		return err
	}, nil)
	if err != nil {
		return nil, false, err
	}
	return entries, more, nil
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	c := s.config.Load()
	name := ""
	if len(keys) > 0 {
		name = keys[0]
	}
	return s.run(ctx, s.draw(c, &c.Delete, request{"delete", name}),
		func() error { return s.inner.Delete(ctx, keys...) },
		func() func() {
			own := append([]string(nil), keys...)
			return func() { _ = s.inner.Delete(context.WithoutCancel(ctx), own...) }
		})
}
