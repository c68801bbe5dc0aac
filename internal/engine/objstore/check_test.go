package objstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// liar is a store in memory whose functions a test can replace. Nil functions behave correctly.
type liar struct {
	*objstore.Memory

	mu    sync.Mutex // held during a replaced function
	tries map[string]int

	put    func(l *liar, key string, try int, body objstore.Body) error
	get    func(l *liar, key string, r objstore.Range) (objstore.Object, error)
	list   func(entries []objstore.Entry) []objstore.Entry
	delete func(l *liar, keys []string) error
}

var errTruth = errors.New("behave correctly")

func (l *liar) Put(ctx context.Context, key string, body objstore.Body) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = map[string]int{}
	}
	l.tries[key]++
	if l.put != nil {
		if err := l.put(l, key, l.tries[key], body); !errors.Is(err, errTruth) {
			return err
		}
	}
	return l.Memory.Put(ctx, key, body)
}

// tried reports whether a put of the name was attempted.
func (l *liar) tried(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries[key] > 0
}

func (l *liar) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if l.get != nil {
		if o, err := l.get(l, key, r); !errors.Is(err, errTruth) {
			return o, err
		}
	}
	return l.Memory.Get(ctx, key, r)
}

func (l *liar) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	entries, more, err := l.Memory.List(ctx, o)
	if l.list != nil {
		entries = l.list(entries)
	}
	return entries, more, err
}

func (l *liar) Delete(ctx context.Context, keys ...string) error {
	if l.delete != nil {
		return l.delete(l, keys)
	}
	return l.Memory.Delete(ctx, keys...)
}

// overwrite stores body even if the name is taken.
func overwrite(l *liar, key string, body objstore.Body) error {
	return errors.Join(l.Memory.Delete(context.Background(), key), l.Memory.Put(context.Background(), key, body))
}

func object(data string) objstore.Object {
	return objstore.Object{Size: int64(len(data)), Body: io.NopCloser(strings.NewReader(data))}
}

// lies are faulty stores and the check that must detect each of them.
var lies = map[string]struct {
	store *liar
	want  string
}{
	"the condition is ignored": {&liar{put: func(l *liar, key string, _ int, b objstore.Body) error {
		return overwrite(l, key, b)
	}}, objstore.CheckPutIfAbsent},
	"the second put is a success without effect": {&liar{put: func(_ *liar, _ string, try int, _ objstore.Body) error {
		if try > 1 {
			return nil
		}
		return errTruth
	}}, objstore.CheckPutIfAbsent},
	"equal bytes are accepted": {&liar{put: func(l *liar, key string, _ int, b objstore.Body) error {
		if o, err := l.Memory.Get(context.Background(), key, objstore.Whole); err == nil {
			old, _ := io.ReadAll(o.Body)
			if bytes.Equal(old, bytes.Join(b.Parts, nil)) {
				return nil
			}
		}
		return errTruth
	}}, objstore.CheckPutIfAbsent},
	"a new name exists": {&liar{put: func(*liar, string, int, objstore.Body) error { return objstore.ErrExists }}, objstore.CheckPutIfAbsent},
	"the second put is stored and refused": {&liar{put: func(l *liar, key string, try int, b objstore.Body) error {
		if try > 1 {
			_ = overwrite(l, key, b)
			return objstore.ErrExists
		}
		return errTruth
	}}, objstore.CheckPutIfAbsent},
	"two concurrent puts sometimes succeed": {&liar{put: func(l *liar, key string, try int, b objstore.Body) error {
		if try == 9 {
			return overwrite(l, key, b)
		}
		return errTruth
	}}, objstore.CheckRacers},
	"two concurrent puts report success": {&liar{put: func(_ *liar, _ string, try int, _ objstore.Body) error {
		if try == 16 {
			return nil
		}
		return errTruth
	}}, objstore.CheckRacers},
	"all racers lose": {&liar{put: func(l *liar, key string, _ int, b objstore.Body) error {
		if strings.Contains(key, "race") {
			_ = l.Memory.Put(context.Background(), key, b)
			return objstore.ErrExists
		}
		return errTruth
	}}, objstore.CheckRacers},
	"the first get is too early": {&liar{get: func(l *liar, key string, _ objstore.Range) (objstore.Object, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.tries[key] == 1 {
			l.tries[key] = 100
			return objstore.Object{}, objstore.ErrNotFound
		}
		return objstore.Object{}, errTruth
	}}, objstore.CheckReadAfterWrite},
	"list hides the newest": {&liar{list: func(e []objstore.Entry) []objstore.Entry {
		return e[:max(0, len(e)-1)]
	}}, objstore.CheckListAfterWrite},
	"delete does nothing": {&liar{delete: func(*liar, []string) error { return nil }}, objstore.CheckListAfterDelete},
	"delete removes only the first of many names": {&liar{delete: func(l *liar, keys []string) error {
		return l.Memory.Delete(context.Background(), keys[:1]...)
	}}, objstore.CheckListAfterDelete},
	"ranges are ignored": {&liar{get: func(l *liar, key string, _ objstore.Range) (objstore.Object, error) {
		return l.Memory.Get(context.Background(), key, objstore.Whole)
	}}, objstore.CheckRanges},
	"ranges are off by one": {&liar{get: func(l *liar, key string, r objstore.Range) (objstore.Object, error) {
		if r.Offset > 0 && r.Length > 0 {
			r.Length++
		}
		return l.Memory.Get(context.Background(), key, r)
	}}, objstore.CheckRanges},
	"a range beyond the end is empty": {&liar{get: func(_ *liar, _ string, r objstore.Range) (objstore.Object, error) {
		if r.Offset == 17_000 {
			return object(""), nil
		}
		return objstore.Object{}, errTruth
	}}, objstore.CheckRanges},
	"a missing name is empty": {&liar{get: func(l *liar, key string, _ objstore.Range) (objstore.Object, error) {
		if !l.tried(key) {
			return object(""), nil
		}
		return objstore.Object{}, errTruth
	}}, objstore.CheckMissing},
	"a missing name is refused": {&liar{get: func(l *liar, key string, _ objstore.Range) (objstore.Object, error) {
		if !l.tried(key) {
			return objstore.Object{}, objstore.ErrRefused
		}
		return objstore.Object{}, errTruth
	}}, objstore.CheckMissing},
}

func TestCheckNamesTheFault(t *testing.T) {
	for name, c := range lies {
		t.Run(name, func(t *testing.T) {
			c.store.Memory = objstore.NewMemory()
			err := objstore.Check(t.Context(), c.store, objstore.CheckOptions{})
			var failed *objstore.CheckError
			if !errors.As(err, &failed) || failed.Check != c.want {
				t.Fatalf("got %v, want the check %q to fail", err, c.want)
			}
			must.Containsf(t, err.Error(), c.want, "%q does not name the check", err)
		})
	}
}

func TestCheckPassesAndCleansUp(t *testing.T) {
	stores := map[string]func(t *testing.T) objstore.Store{
		"memory": func(*testing.T) objstore.Store { return objstore.NewMemory() },
		"disk":   func(t *testing.T) objstore.Store { return openDisk(t, folder(t), objstore.DiskOptions{NoSync: true}) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { checkPasses(t, open(t)) })
	}
}

func checkPasses(t *testing.T, store objstore.Store) {
	t.Helper()
	counter := storetest.NewCounter(store)
	must.NoError(t, objstore.Check(t.Context(), counter, objstore.CheckOptions{}))
	if n := counter.Counts().Puts; n < 20*16 {
		t.Fatalf("only %d puts", n)
	}
	if faulty, ok := store.(*storetest.Faulty); ok {
		faulty.SetFaults(storetest.Faults{})
	}
	left, _, err := store.List(t.Context(), objstore.ListOptions{})
	if err != nil || len(left) != 0 {
		t.Fatalf("%d names remain, %v", len(left), err)
	}
}

func TestCheckToleratesTransientErrors(t *testing.T) {
	// The losers of a race get 409, as on some real stores, and the right answer when they ask
	// again.
	conflicts := &liar{Memory: objstore.NewMemory(), put: func(_ *liar, _ string, try int, _ objstore.Body) error {
		if try > 1 && try < 6 {
			return objstore.ErrNoVerdict
		}
		return errTruth
	}}
	// The check tries six times: one request in 20 fails, so six consecutive failures occur once in
	// 30,000 runs.
	rates := storetest.Rates{storetest.Before: 0.02, storetest.Lost: 0.015, storetest.Throttle: 0.01, storetest.Truncate: 0.01}
	for name, store := range map[string]objstore.Store{
		"409 to losers": conflicts,
		"lost answers":  storetest.NewFaulty(objstore.NewMemory(), 1, storetest.All(rates)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkPasses(t, store) })
		})
	}
}

// TestCheckOfUnreachableStore: missing responses are no fault of the store.
func TestCheckOfUnreachableStore(t *testing.T) {
	for name, faults := range map[string]storetest.Rates{"before": {storetest.Before: 1}, "lost": {storetest.Lost: 1}, "throttled": {storetest.Throttle: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := objstore.Check(t.Context(), storetest.NewFaulty(objstore.NewMemory(), 1, storetest.All(faults)), objstore.CheckOptions{})
				check.ErrorIs(t, err, objstore.ErrNoVerdict)
			})
		})
	}
}

func TestCheckOfRefusingStore(t *testing.T) {
	store := storetest.NewFaulty(objstore.NewMemory(), 1, storetest.All(storetest.Rates{storetest.Refuse: 1}))
	err := objstore.Check(t.Context(), store, objstore.CheckOptions{})
	var failed *objstore.CheckError
	if !errors.Is(err, objstore.ErrRefused) || !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
}
