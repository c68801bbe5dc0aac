package storetest

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

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Fault is a kind of fault.
type Fault int

// The kinds of faults.
const (
	None   Fault = iota
	Before       // no verdict and no effect (a reset, a 500, a 409)
	Lost         // effect, but the response is lost: no verdict
	// no verdict, and the effect happens later, at most Faults.LateMax after the response (Put and
	// Delete)
	Late
	Hang     // no response until the context ends; the effect is random
	Throttle // throttled without effect
	Refuse   // refused without effect
	Truncate // the body of a Get ends early with ErrNoVerdict
	kinds
)

// Rates is the probability of each kind for one request, 0 to 1. A request has at most one fault,
// so the sum should not exceed 1. Late counts as Before for Get and List, and Truncate applies only
// to Get.
type Rates [kinds]float64

// Faults sets the faults and delays of a Faulty.
type Faults struct {
	Put, Get, List, Delete Rates

	// LatencyMin and LatencyMax bound the random delay of every request, a part of which comes
	// before the effect.
	LatencyMin, LatencyMax time.Duration
	// LateMax is the longest delay of a Late effect.
	LateMax time.Duration
}

// All gives every operation the same rates.
func All(r Rates) Faults { return Faults{Put: r, Get: r, List: r, Delete: r} }

// Faulty is a store with the failures of object stores. The fault of a request depends on the seed,
// the operation, the name and the number of earlier such requests, but not on the order in which
// goroutines run. Safe for concurrent use.
type Faulty struct {
	inner    objstore.Store
	seed     uint64
	faults   atomic.Pointer[Faults]
	injected [kinds]atomic.Int64
	late     sync.WaitGroup

	mu    sync.Mutex // guards asked
	asked map[request]uint64
}

// request is the input of a draw, together with the number of earlier draws.
type request struct {
	op   string
	name string
}

// NewFaulty wraps inner.
func NewFaulty(inner objstore.Store, seed uint64, c Faults) *Faulty {
	s := &Faulty{inner: inner, seed: seed, asked: map[request]uint64{}}
	s.SetFaults(c)
	return s
}

// SetFaults changes the faults of later requests. The zero Faults has no faults.
func (s *Faulty) SetFaults(c Faults) { s.faults.Store(&c) }

// Injected is how many requests had a fault of a kind; None counts those without a fault.
func (s *Faulty) Injected(k Fault) int64 { return s.injected[k].Load() }

// Settle waits for all Late effects. No request may start meanwhile.
func (s *Faulty) Settle() { s.late.Wait() }

// Unwrap implements objstore.Unwrapper.
func (s *Faulty) Unwrap() objstore.Store { return s.inner }

// String implements objstore.Store.
func (s *Faulty) String() string { return s.inner.String() }

// fate is the random decision for one request.
type fate struct {
	kind          Fault
	before, after time.Duration // latency
	late          time.Duration
	effect        bool    // whether a Hang has an effect
	part          float64 // part of the body that is delivered, 0 to 1
}

// draw decides the fate of a request.
func (s *Faulty) draw(c *Faults, rates *Rates, r request) fate {
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
	errLost      = errors.New("injected: response lost")
	errThrottled = errors.New("injected: 503 SlowDown")
	errRefused   = errors.New("injected: 403 AccessDenied")
	errTruncated = errors.New("injected: body truncated")
)

// run performs one request according to its fate. later returns its effect without the caller, nil
// if there is none.
func (s *Faulty) run(ctx context.Context, f fate, effect func() error, later func() func()) error {
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

func (s *Faulty) postpone(delay time.Duration, effect func()) {
	s.late.Add(1)
	time.AfterFunc(delay, func() {
		defer s.late.Done()
		effect()
	})
}

func join(class, err error) error { return fmt.Errorf("%w: %w", class, err) }

func ended(ctx context.Context) error { return join(objstore.ErrNoVerdict, ctx.Err()) }

// sleep waits, or returns the verdict of an ended ctx.
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
func (s *Faulty) Put(ctx context.Context, key string, body objstore.Body) error {
	c := s.faults.Load()
	return s.run(ctx, s.draw(c, &c.Put, request{"put", key}),
		func() error { return s.inner.Put(ctx, key, body) },
		func() func() {
			own := make([]byte, 0, body.Size) // the caller owns its bytes again when Put returns
			for _, p := range body.Parts {
				own = append(own, p...)
			}
			copied := body
			copied.Parts = [][]byte{own}
			return func() { _ = s.inner.Put(context.WithoutCancel(ctx), key, copied) }
		})
}

// Get implements objstore.Store.
func (s *Faulty) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	c := s.faults.Load()
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

// bodySize estimates the length of a body.
func bodySize(o objstore.Object, r objstore.Range) int64 {
	size := max(0, o.Size-r.Offset)
	if r.Length >= 0 {
		size = min(size, r.Length)
	}
	return size
}

// truncated is a body that ends early.
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
func (s *Faulty) List(ctx context.Context, o objstore.ListOptions) (entries []objstore.Entry, more bool, err error) {
	c := s.faults.Load()
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
func (s *Faulty) Delete(ctx context.Context, keys ...string) error {
	c := s.faults.Load()
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
