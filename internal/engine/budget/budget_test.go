package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSharesAddUpToTheLimit(t *testing.T) {
	var sum int64
	for _, s := range shares {
		if s.name == "" || s.use == "" || s.share <= 0 {
			t.Errorf("share without a name, a use or a size: %+v", s)
		}
		sum += s.share
	}
	if sum != thousand {
		t.Errorf("shares add up to %d of %d", sum, thousand)
	}
	for _, limit := range []int64{1, 999, LimitMin, LimitMin + 7, 256 << 20, 3 << 40, math.MaxInt64} {
		b := New(limit)
		var sum int64
		for _, k := range Kinds() {
			sum += b.Class(k).Limit()
		}
		if sum != limit || b.Limit() != limit {
			t.Errorf("classes of %d add up to %d", limit, sum)
		}
	}
}

func TestLargestRequestFitsItsClasses(t *testing.T) {
	for _, limit := range []int64{LimitMin, LimitMin + 7, 64 << 20, 256 << 20, 8 << 30} {
		b := New(limit)
		for _, k := range []Kind{Produce, Objects, Fetch} {
			r, err := b.Class(k).Reserve(b.RequestMax())
			if err != nil {
				t.Errorf("limit %d: %v", limit, err)
			}
			r.Release()
		}
	}
	if got := New(256 << 20).RequestMax(); got != 30<<20 {
		t.Errorf("RequestMax = %d", got)
	}
}

func TestCeilingNamesEveryClass(t *testing.T) {
	text := New(256 << 20).Ceiling()
	for _, k := range Kinds() {
		if !strings.Contains(text, k.String()) {
			t.Errorf("no %s in:\n%s", k, text)
		}
	}
	if !strings.Contains(text, "256.0 MiB") || !strings.Contains(text, "30.0 MiB") {
		t.Errorf("no limits in:\n%s", text)
	}
}

func TestValidate(t *testing.T) {
	if err := Validate(LimitMin); err != nil {
		t.Error(err)
	}
	if err := Validate(LimitMin - 1); err == nil {
		t.Error("a limit below the minimum is accepted")
	}
}

// class returns a class of 1000 bytes.
func class() *Class { return &Class{kind: Produce, limit: 1000} }

func mustReserve(t *testing.T, c *Class, n int64) *Reservation {
	t.Helper()
	r := must.Get(c.Reserve(n))(t)
	return r
}

func TestErrOverAndErrTooLargeAreDistinct(t *testing.T) {
	c := class()
	r := mustReserve(t, c, 600)
	_, err := c.Reserve(401)
	var over *OverError
	if !errors.As(err, &over) || *over != (OverError{Class: Produce, Wanted: 401, Free: 400, Limit: 1000}) {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, ErrOver) || errors.Is(err, ErrTooLarge) {
		t.Errorf("%v is not ErrOver alone", err)
	}
	_, err = c.Reserve(1001)
	if !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrOver) {
		t.Errorf("%v is not ErrTooLarge alone", err)
	}
	if err := r.Grow(401); !errors.Is(err, ErrTooLarge) {
		t.Errorf("growing to 1001: %v", err)
	}
	if err := r.Grow(math.MaxInt64); !errors.Is(err, ErrTooLarge) {
		t.Errorf("growing by MaxInt64: %v", err)
	}
	if _, err := c.Reserve(math.MaxInt64); !errors.Is(err, ErrTooLarge) {
		t.Errorf("MaxInt64: %v", err)
	}
	if got := c.Usage(); got != (Usage{Kind: Produce, Limit: 1000, Used: 600, Peak: 600, Refused: 5}) {
		t.Errorf("usage %+v", got)
	}
}

func TestReserveNowNeitherWaitsNorOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(64 << 20).Class(Fetch)
		all := c.ReserveNow(c.Limit())
		if all == nil || c.Used() != c.Limit() || c.ReserveNow(1) != nil || c.Usage().Refused != 0 {
			t.Fatalf("%+v", c.Usage())
		}
		done := make(chan *Reservation)
		go func() {
			r, err := c.ReserveWait(t.Context(), c.Limit())
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		synctest.Wait()
		all.Shrink(1)
		if c.ReserveNow(1) != nil {
			t.Error("ReserveNow overtook a waiter")
		}
		all.Release()
		(<-done).Release()
		if r := c.ReserveNow(0); r == nil || c.Used() != 0 {
			t.Error("ReserveNow(0) does not fit")
		}
	})
}

func TestGrowShrinkRelease(t *testing.T) {
	c := class()
	r := mustReserve(t, c, 100)
	other := mustReserve(t, c, 200)
	must.NoError(t, r.Grow(700))
	if err := r.Grow(1); !errors.Is(err, ErrOver) || r.Size() != 800 {
		t.Errorf("grew beyond the class: %v, size %d", err, r.Size())
	}
	r.Shrink(300)
	if c.Used() != 700 || r.Size() != 500 {
		t.Errorf("used %d, size %d", c.Used(), r.Size())
	}
	r.Shrink(5000)
	r.Release()
	r.Release()
	r.Shrink(1)
	if c.Used() != 200 || c.Peak() != 1000 {
		t.Errorf("used %d, peak %d", c.Used(), c.Peak())
	}
	other.Release()
	if c.Used() != 0 {
		t.Errorf("used %d", c.Used())
	}
	defer func() {
		if recover() == nil {
			t.Error("a released reservation grew")
		}
	}()
	_ = r.Grow(1)
}

func TestNilReservationHoldsNothing(t *testing.T) {
	var r *Reservation
	r.Release()
	r.Shrink(1)
	if err := r.Grow(1); err != nil || r.Size() != 0 || r.Move(class()) != nil {
		t.Error("a nil reservation counts")
	}
}

func TestMove(t *testing.T) {
	from, to := class(), &Class{kind: Tail, limit: 100}
	r := mustReserve(t, from, 80)
	held := mustReserve(t, to, 30)
	if err := r.Move(to); !errors.Is(err, ErrOver) || from.Used() != 80 || to.Used() != 30 {
		t.Errorf("moved to a full class: %v, %d and %d used", err, from.Used(), to.Used())
	}
	held.Release()
	if err := r.Move(to); err != nil || from.Used() != 0 || to.Used() != 80 {
		t.Errorf("move: %v, %d and %d used", err, from.Used(), to.Used())
	}
	if err := r.Move(to); err != nil || to.Used() != 80 {
		t.Errorf("moved to where it is: %v, %d used", err, to.Used())
	}
	r.Release()
	if from.Used() != 0 || to.Used() != 0 {
		t.Errorf("%d and %d used after release", from.Used(), to.Used())
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := class()
		held := mustReserve(t, c, 500)
		var wg sync.WaitGroup
		sizes := []int64{900, 200, 90}
		served := make(chan *Reservation, len(sizes))
		for _, n := range sizes {
			wg.Go(func() {
				r, err := c.ReserveWait(t.Context(), n)
				if err != nil {
					t.Error(err)
				}
				served <- r
			})
			synctest.Wait()
		}
		if _, err := c.Reserve(1); !errors.Is(err, ErrOver) {
			t.Errorf("overtook three waiters: %v", err)
		}
		if err := held.Grow(1); err != nil {
			t.Errorf("growing queued behind waiters: %v", err)
		}
		if w := c.Usage().Waiting; w != 3 || len(served) != 0 {
			t.Errorf("%d waiters, %d served", w, len(served))
		}
		held.Release()
		synctest.Wait()
		must.Equalf(t, len(served), 1, "served, although only the first fits")
		first := <-served
		if first.Size() != 900 {
			t.Errorf("%d bytes were served first", first.Size())
		}
		first.Release()
		wg.Wait()
		for range 2 {
			(<-served).Release()
		}
		if c.Used() != 0 {
			t.Errorf("%d used", c.Used())
		}
	})
}

func TestSmallWaiterDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := class()
		held := mustReserve(t, c, 500)
		large, small := make(chan *Reservation, 1), make(chan *Reservation, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var largeErr error
		var wg sync.WaitGroup
		wg.Go(func() { _, largeErr = c.ReserveWait(ctx, 600); close(large) })
		synctest.Wait()
		wg.Go(func() { r, _ := c.ReserveWait(t.Context(), 10); small <- r })
		synctest.Wait()
		if len(small) != 0 {
			t.Error("10 bytes overtook 600")
		}
		cancel() // the large one leaves, so the small one is first
		wg.Wait()
		if !errors.Is(largeErr, context.Canceled) {
			t.Errorf("cancelled wait: %v", largeErr)
		}
		(<-small).Release()
		held.Release()
		if c.Used() != 0 || c.Usage().Waiting != 0 {
			t.Errorf("left over: %+v", c.Usage())
		}
	})
}

func TestReserveWaitBeyondClassFailsAtOnce(t *testing.T) {
	c := class()
	if _, err := c.ReserveWait(t.Context(), 1001); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ReserveWait(ctx, 1); !errors.Is(err, context.Canceled) || c.Used() != 0 {
		t.Errorf("got %v, %d used", err, c.Used())
	}
}

// TestConcurrentReservations lets goroutines reserve, grow, move, wait and cancel. Use never
// exceeds a limit, and at the end nothing is reserved. Run it with -race.
func TestConcurrentReservations(t *testing.T) {
	a, b := class(), &Class{kind: Tail, limit: 700}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 400 {
				n := int64((worker*31+i*17)%300 + 1)
				var r *Reservation
				var err error
				if i%3 == 0 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%2 == 0 {
						go cancel()
					}
					r, err = a.ReserveWait(ctx, n)
					cancel()
				} else {
					r, err = a.Reserve(n)
				}
				if err != nil {
					continue
				}
				_ = r.Grow(n % 7)
				_ = r.Move(b)
				r.Shrink(n % 5)
				if ua, ub := a.Usage(), b.Usage(); ua.Used > ua.Limit || ub.Used > ub.Limit {
					t.Errorf("over a limit: %+v %+v", ua, ub)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	for _, c := range []*Class{a, b} {
		if u := c.Usage(); u.Used != 0 || u.Waiting != 0 || u.Peak > u.Limit || u.Peak == 0 {
			t.Errorf("in the end: %+v", u)
		}
	}
}

// ledger is a model of two classes: the bytes of each reservation.
type ledger struct {
	classes []*Class
	held    map[*Reservation]*holding
	live    []*Reservation
}

type holding struct{ class, n int64 }

func (l *ledger) used(class int64) (sum int64) {
	for _, h := range l.held {
		if h.class == class {
			sum += h.n
		}
	}
	return sum
}

// fits reports whether a step that reserves h succeeded, and checks that it did exactly if there
// was room. It is called before the model records the step.
func (l *ledger) fits(t *rapid.T, err error, h holding) bool {
	free := l.classes[h.class].limit - l.used(h.class)
	must.Equalf(t, err == nil, h.n <= free, "%d bytes with %d free: %v", h.n, free, err)
	return err == nil
}

func (l *ledger) check(t *rapid.T) {
	for i, c := range l.classes {
		if c.Used() != l.used(int64(i)) || c.Used() > c.Limit() || c.Peak() < c.Used() || c.Peak() > c.Limit() {
			t.Fatalf("usage %+v, the model says %d", c.Usage(), l.used(int64(i)))
		}
	}
}

func (l *ledger) reserve(t *rapid.T) {
	h := holding{rapid.Int64Range(0, 1).Draw(t, "class"), rapid.Int64Range(0, 1500).Draw(t, "n")}
	r, err := l.classes[h.class].Reserve(h.n)
	if l.fits(t, err, h) {
		l.held[r] = &h
		l.live = append(l.live, r)
	}
}

// change does one step on a live reservation.
func (l *ledger) change(t *rapid.T) {
	if len(l.live) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(l.live)-1).Draw(t, "which")
	r, n := l.live[i], rapid.Int64Range(0, 1500).Draw(t, "n")
	h := l.held[r]
	switch rapid.SampledFrom([]string{"grow", "shrink", "move", "release"}).Draw(t, "step") {
	case "grow":
		if l.fits(t, r.Grow(n), holding{h.class, n}) {
			h.n += n
		}
	case "shrink":
		r.Shrink(n)
		h.n = max(0, h.n-n)
	case "move":
		to := 1 - h.class
		if l.fits(t, r.Move(l.classes[to]), holding{to, h.n}) {
			h.class = to
		}
	case "release":
		r.Release()
		delete(l.held, r)
		l.live = slices.Delete(l.live, i, i+1)
	}
}

// TestSumsFollowModel does random steps and compares the use with the model's sum.
func TestSumsFollowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		other := &Class{kind: Tail, limit: rapid.Int64Range(1, 2000).Draw(t, "limit")}
		l := &ledger{classes: []*Class{class(), other}, held: make(map[*Reservation]*holding)}
		t.Repeat(map[string]func(*rapid.T){"reserve": l.reserve, "change": l.change, "": l.check})
	})
}

func ExampleBudget_Ceiling() {
	fmt.Print(New(64 << 20).Ceiling())
	// Output:
	// memory limit 64.0 MiB, largest request 8192.0 KiB
	//   runtime        11.5 MiB  code, stacks, garbage collection
	//   pool         1310.7 KiB  idle buffers kept for reuse; more while requests leave theirs free
	//   connections  7864.3 KiB  open connections; at the limit idle ones are closed
	//   produce      9175.0 KiB  bodies of produce requests in flight
	//   objects      8519.7 KiB  objects being built or stored
	//   tail         2949.1 KiB  newest records, for readers at the end
	//   fetch        8519.7 KiB  responses to readers
	//   answers       655.4 KiB  small answers about the broker; larger ones use fetch
	//   cache-index  1310.7 KiB  index of the disk cache
	//   groups        983.0 KiB  consumer groups
	//   state        7209.0 KiB  topics, partitions, group offsets, producers, object ranges
	//   triggers     3276.8 KiB  triggers and their compiled expressions
	//   keys         1966.1 KiB  keys while a topic is compacted
}

func TestGoLimitLeavesRoomForTheProgram(t *testing.T) {
	for limit, want := range map[int64]int64{16 << 20: 15 << 19, 32 << 20: 15 << 20, 64 << 20: 30 << 20, 256 << 20: 192 << 20, 4 << 30: 3 << 30} {
		if got := New(limit).GoLimit(); got != want {
			t.Errorf("of %s: %s, want %s", Text(limit), Text(got), Text(want))
		}
	}
}

func TestLimitForIsTheLeast(t *testing.T) {
	for _, bytes := range []int64{1, 119, 120, 121, 40 << 10 * 600, 1<<40 + 7} {
		limit := LimitFor(Connections, bytes)
		if got := New(limit).Class(Connections).Limit(); got < bytes {
			t.Errorf("a limit of %d gives %d bytes, want %d", limit, got, bytes)
		}
		if got := New(max(1, limit-9)).Class(Connections).Limit(); got >= bytes && limit > 9 {
			t.Errorf("a smaller limit of %d is enough for %d bytes", limit-9, bytes)
		}
	}
}
