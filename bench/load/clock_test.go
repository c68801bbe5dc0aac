package load_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestStandard(t *testing.T) {
	t.Run("a sleep in a bubble ends exactly when it should", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := load.NewStandardClock()
			for _, d := range []time.Duration{1, time.Microsecond + 7, time.Hour} {
				until := c.Now() + int64(d)
				must.NoError(t, c.SleepUntil(t.Context(), until))
				check.Equalf(t, c.Now(), until, "slept until")
			}
		})
	})
	t.Run("a past time needs no sleep", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := load.NewStandardClock()
			before := c.Now()
			if err := c.SleepUntil(t.Context(), before-5); err != nil || c.Now() != before {
				t.Errorf("error %v, %d ns passed", err, c.Now()-before)
			}
		})
	})
	t.Run("an ended context ends a sleep", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := load.NewStandardClock()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := c.Now()
			err := c.SleepUntil(ctx, start+int64(time.Hour))
			if !errors.Is(err, context.DeadlineExceeded) || c.Now()-start != int64(time.Second) {
				t.Errorf("error %v after %d ns", err, c.Now()-start)
			}
		})
	})
}

func TestMonotonic(t *testing.T) {
	for _, spin := range []time.Duration{0, 50 * time.Microsecond} {
		c := load.NewMonotonicClock(spin)
		t.Run("no sleep ends early, with spin "+spin.String(), func(t *testing.T) {
			for _, d := range []time.Duration{time.Microsecond, 300 * time.Microsecond, 30 * time.Millisecond} {
				until := c.Now() + int64(d)
				must.NoError(t, c.SleepUntil(t.Context(), until))
				if now := c.Now(); now < until {
					t.Errorf("%v: woke %d ns early", d, until-now)
				}
			}
		})
		t.Run("an ended context ends a sleep, with spin "+spin.String(), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			check.ErrorIsf(t, c.SleepUntil(ctx, c.Now()+int64(time.Hour)), context.Canceled, "error")
		})
	}
	t.Run("sleepers do not block other goroutines", sleepersDoNotBlock)
	t.Run("two clocks of one machine agree", func(t *testing.T) {
		a, b := load.NewMonotonicClock(0), load.NewMonotonicClock(0)
		before, other, after := a.Now(), b.Now(), a.Now()
		// Tolerance: calibration, and the process may lose its core between two readings.
		const apart = int64(time.Millisecond)
		if other < before-apart || other > after+apart {
			t.Errorf("one clock is at %d to %d, the other at %d", before, after, other)
		}
	})
}

// sleepersDoNotBlock checks that data on a socket is received at once while other goroutines sleep,
// like publishers until the next message is due. A goroutine that sleeps in a system call keeps its
// processor for up to 10 ms from the others, and readers would receive their data that much later.
func sleepersDoNotBlock(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	m := load.NewMonotonicClock(0)
	ctx, cancel := context.WithCancel(t.Context())
	var sleepers sync.WaitGroup
	defer sleepers.Wait()
	defer cancel()
	for range 4 {
		sleepers.Go(func() {
			for at := m.Now(); m.SleepUntil(ctx, at) == nil; at += int64(300 * time.Microsecond) {
				at = max(at, m.Now())
			}
		})
	}
	const wrong = 5 * time.Millisecond // 100 times what it takes on a quiet machine
	median := time.Duration(0)
	for range 5 { // the machine may be slow for a while
		if median = echoes(t, 100); median < wrong {
			return
		}
	}
	t.Errorf("an echo takes %v while others sleep", median)
}

// echoes returns the median time that a byte takes to a goroutine and back over a socket, with one
// byte sent each millisecond.
func echoes(t *testing.T, n int) time.Duration {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer c.Close()
	took := make([]time.Duration, n)
	b := []byte{1}
	for i := range took {
		time.Sleep(time.Millisecond)
		begin := time.Now()
		must.Get(c.Write(b))(t)
		must.Get(io.ReadFull(c, b))(t)
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[n/2]
}
