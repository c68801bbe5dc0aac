package objstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// result counts its uses.
type result struct{ uses int }

func group() *objstore.Flights[string, *result] {
	return &objstore.Flights[string, *result]{
		Lock:    &sync.Mutex{},
		Retain:  func(r *result, uses int) { r.uses += uses },
		Release: func(r *result) { r.uses-- },
	}
}

func TestEachCallerHasOneUse(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select picks at random between the result and the ended context
		g := group()
		f := g.BeginLocked("a", nil)
		f.JoinLocked()
		f.JoinLocked()
		r := &result{uses: 1} // the use of FinishLocked's caller
		g.FinishLocked(f, r, nil)
		if r.uses != 2 || g.FindLocked("a") != nil {
			t.Fatalf("%d uses, want one for each of 2 callers", r.uses)
		}
		if v, finished, err := g.Wait(t.Context(), f); v != r || !finished || err != nil {
			t.Fatal(v, finished, err)
		}
		v, finished, err := g.Wait(ended, f)
		if want := map[bool]int{true: 2, false: 1}[finished]; r.uses != want || finished != (v == r) || finished != (err == nil) {
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
			t.Fatalf("%v; canceled %v while a caller waits", err, canceled)
		}
		leave[1]()
		if err := <-errs; !errors.Is(err, context.Canceled) || !canceled || g.FindLocked("a") != nil {
			t.Fatalf("%v; canceled %v without callers", err, canceled)
		}
		next := g.BeginLocked("a", nil)
		r := &result{uses: 1}
		g.FinishLocked(f, r, nil)
		if r.uses != 0 || g.FindLocked("a") != next {
			t.Fatalf("%d uses after all callers left, want 0; next flight removed: %v", r.uses, g.FindLocked("a") != next)
		}
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	g := group()
	f := g.BeginLocked("a", nil)
	f.JoinLocked()
	broken := errors.New("broken")
	g.FinishLocked(f, nil, broken)
	if v, finished, err := g.Wait(t.Context(), f); v != nil || !finished || !errors.Is(err, broken) {
		t.Error(v, finished, err)
	}
	if g.FindLocked("a") != nil {
		t.Error("a failed flight is still in progress")
	}
}
