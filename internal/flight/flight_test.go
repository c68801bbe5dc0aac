package flight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/flight"
)

// result counts its uses.
type result struct{ uses int }

func group() *flight.Group[string, *result] {
	return &flight.Group[string, *result]{
		Lock:    &sync.Mutex{},
		Retain:  func(r *result, uses int) { r.uses += uses },
		Release: func(r *result) { r.uses-- },
	}
}

func TestEachCallerHasOneUse(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // of a result and the end of the context, which is seen first is chance
		g := group()
		f := g.BeginLocked("a", nil)
		f.JoinLocked()
		f.JoinLocked()
		r := &result{uses: 1} // that of the one who lands it
		g.LandLocked(f, r, nil)
		if r.uses != 2 || g.FindLocked("a") != nil {
			t.Fatalf("%d uses of 2 callers", r.uses)
		}
		if v, landed, err := g.Wait(t.Context(), f); v != r || !landed || err != nil {
			t.Fatal(v, landed, err)
		}
		v, landed, err := g.Wait(ended, f)
		if want := map[bool]int{true: 2, false: 1}[landed]; r.uses != want || landed != (v == r) || landed != (err == nil) {
			t.Fatalf("%d uses, want %d; %v, %v", r.uses, want, v, err)
		}
	}
}

func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group()
		canceled := false
		f := g.BeginLocked("a", func() { canceled = true })
		leave := make([]context.CancelFunc, 2)
		errs := make(chan error, 2)
		for i := range leave {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(t.Context())
			f.JoinLocked()
			go func() {
				_, _, err := g.Wait(ctx, f)
				errs <- err
			}()
		}
		leave[0]()
		if err := <-errs; !errors.Is(err, context.Canceled) || canceled || g.FindLocked("a") != f {
			t.Fatalf("%v; canceled %v while one waits", err, canceled)
		}
		leave[1]()
		if err := <-errs; !errors.Is(err, context.Canceled) || !canceled || g.FindLocked("a") != nil {
			t.Fatalf("%v; canceled %v without callers", err, canceled)
		}
		next := g.BeginLocked("a", nil)
		r := &result{uses: 1}
		g.LandLocked(f, r, nil)
		if r.uses != 0 || g.FindLocked("a") != next {
			t.Fatalf("%d uses; the flight after it is gone: %v", r.uses, g.FindLocked("a") != next)
		}
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	g := group()
	f := g.BeginLocked("a", nil)
	f.JoinLocked()
	broken := errors.New("broken")
	g.LandLocked(f, nil, broken)
	if v, landed, err := g.Wait(t.Context(), f); v != nil || !landed || !errors.Is(err, broken) {
		t.Error(v, landed, err)
	}
	if g.FindLocked("a") != nil {
		t.Error("a failed flight is still under way")
	}
}
