package httpconn

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestGateIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{Size: 10}
		if err := g.Enter(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var in []int64
		enter := func(ctx context.Context, n int64) (left chan error) {
			left = make(chan error, 1)
			go func() {
				err := g.Enter(ctx, n)
				if err == nil {
					mu.Lock()
					in = append(in, n)
					mu.Unlock()
				}
				left <- err
			}()
			synctest.Wait()
			return left
		}
		ctx, cancel := context.WithCancel(t.Context())
		all, gone, small := enter(t.Context(), 10), enter(ctx, 9), enter(t.Context(), 3)
		if len(in) != 0 {
			t.Fatalf("%v overtook the one that waits for all", in)
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		g.Leave(6)
		if err := <-all; err != nil || len(in) != 1 {
			t.Error(err, in)
		}
		synctest.Wait()
		if len(small) != 0 {
			t.Error("3 beside all")
		}
		g.Leave(10)
		if err := <-small; err != nil {
			t.Error(err)
		}
		g.Leave(3)
		if g.used != 0 || g.waiting.Len() != 0 {
			t.Errorf("%d used, %d wait", g.used, g.waiting.Len())
		}
	})
}

func TestOpenIsTheLeastForServed(t *testing.T) {
	for n := 1; n < 5000; n++ {
		if open := Open(n); Served(open) < n || n > 1 && Served(open-1) >= n {
			t.Fatalf("%d open serve %d, one less %d; want %d", open, Served(open), Served(open-1), n)
		}
	}
}
