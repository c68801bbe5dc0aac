package views_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

var errClosed, errDamaged = errors.New("closed"), errors.New("damaged")

// worker returns the results of turn and records the calls that it gets.
type worker struct {
	turn   func() (time.Duration, error)
	turns  atomic.Int32
	failed []bool // rebuilt
	closed int
}

func (w *worker) Work(context.Context) (time.Duration, error) {
	w.turns.Add(1)
	return w.turn()
}

func (w *worker) Failed(_ error, rebuilt bool) { w.failed = append(w.failed, rebuilt) }
func (w *worker) Close()                       { w.closed++ }

func newLoop(t *testing.T, w *worker, changed chan struct{}) (l *views.Loop, path string) {
	path = filepath.Join(t.TempDir(), "file.db")
	return views.NewLoop(views.Options{
		Worker: w, Path: path, Remove: os.RemoveAll, Damaged: errDamaged, Changed: changed, Now: time.Now, Backoff: pause.Growth{Min: time.Second, Max: 4 * time.Second},
		Logger: slog.New(slog.DiscardHandler), Message: "failed", Closed: errClosed,
	}), path
}

func TestFirstRebuildOfDamagedFileIsImmediate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{turn: func() (time.Duration, error) { return 0, fmt.Errorf("page 1: %w", errDamaged) }}
		l, path := newLoop(t, w, nil)
		for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			must.NoError(t, os.WriteFile(path, nil, 0o600))
			if wait := l.Step(t.Context()); wait != want || w.failed[i] != (i == 0) {
				t.Fatalf("turn %d waits %v with rebuilt=%v, want %v", i, wait, w.failed[i], want)
			}
			must.ErrorIsf(t, check.Err(os.Stat(path)), os.ErrNotExist, "turn %d left the damaged file", i)
			if before := w.turns.Load(); want > 0 && (l.Step(t.Context()) != want || w.turns.Load() != before) {
				t.Fatalf("turn %d is repeated before its backoff is over", i)
			}
			time.Sleep(want)
		}
		w.turn = func() (time.Duration, error) { return time.Hour, nil }
		must.Equalf(t, l.Step(t.Context()), time.Hour, "a successful turn waits")
		w.turn = func() (time.Duration, error) { return 0, fmt.Errorf("page 1: %w", errDamaged) }
		must.Equalf(t, l.Step(t.Context()), 0, "the first rebuild after a successful turn waits")
	})
}

func TestTheLoopRunsOnChangesCallsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{}, 1)
		w := &worker{turn: func() (time.Duration, error) { return time.Minute, nil }}
		l, _ := newLoop(t, w, changed)
		ctx, cancel := context.WithCancel(t.Context())
		l.Start(ctx)
		cancel() // does not end the loop
		turned := func(what string, want int32) {
			t.Helper()
			if synctest.Wait(); w.turns.Load() != want {
				t.Fatalf("after %s %d turns, want %d", what, w.turns.Load(), want)
			}
		}
		turned("the start", 1)
		changed <- struct{}{}
		turned("a change", 2)
		l.Wake()
		turned("Wake", 3)
		time.Sleep(time.Minute)
		turned("a minute", 4)
		broken := errors.New("broken")
		must.ErrorIsf(t, l.Do(t.Context(), func(context.Context) error { return broken }), broken, "Do returns")
		turned("Do", 5)
		l.Close()
		l.Close()
		if err := l.Do(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, errClosed) || w.closed != 1 {
			t.Fatalf("after Close Do returns %v, and the worker was closed %d times", err, w.closed)
		}
	})
}
