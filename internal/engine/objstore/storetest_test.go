package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func TestWrappersKeepTheContract(t *testing.T) {
	t.Run("no faults", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) objstore.Store {
			return storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{})
		})
	})
	t.Run("counter", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) objstore.Store { return storetest.NewCounter(objstore.NewMemory()) })
	})
}

func body(s string) objstore.Body { return objstore.NewBody([]byte(s)) }

func read(o objstore.Object) (string, error) {
	data, err := io.ReadAll(o.Body)
	return string(data), errors.Join(err, o.Body.Close())
}

func only(k storetest.Fault) storetest.Faults {
	var r storetest.Rates
	r[k] = 1
	return storetest.All(r)
}

func TestEachKindOfFault(t *testing.T) {
	for _, c := range []struct {
		kind   storetest.Fault
		class  error
		effect bool
	}{
		{storetest.None, nil, true},
		{storetest.Before, objstore.ErrNoVerdict, false},
		{storetest.Lost, objstore.ErrNoVerdict, true},
		{storetest.Throttle, objstore.ErrThrottled, false},
		{storetest.Refuse, objstore.ErrRefused, false},
		{storetest.Truncate, nil, true}, // Truncate does not apply to a put
	} {
		t.Run(fmt.Sprint(c.kind), func(t *testing.T) {
			inner := objstore.NewMemory()
			s := storetest.NewFaulty(inner, 7, only(c.kind))
			err := s.Put(t.Context(), "key", body("value"))
			must.ErrorIsf(t, err, c.class, "put")
			_, err = inner.Get(t.Context(), "key", objstore.Whole)
			must.Equalf(t, err == nil, c.effect, "the effect: %v", err)
			_, _, err = s.List(t.Context(), objstore.ListOptions{})
			must.ErrorIsf(t, err, c.class, "list")
			must.ErrorIsf(t, s.Delete(t.Context(), "key"), c.class, "delete")
			if c.kind != storetest.Truncate && s.Injected(c.kind) != 3 {
				t.Fatalf("%d faults counted", s.Injected(c.kind))
			}
		})
	}
}

func TestTruncatedBodies(t *testing.T) {
	inner := objstore.NewMemory()
	s := storetest.NewFaulty(inner, 7, only(storetest.Truncate))
	const value = "a value that is long enough to be cut"
	must.NoError(t, s.Put(t.Context(), "key", body(value)))
	lengths := map[int]bool{}
	for range 50 {
		o := must.Get(s.Get(t.Context(), "key", objstore.Whole))(t)
		got, err := read(o)
		if !errors.Is(err, objstore.ErrNoVerdict) || len(got) >= len(value) || got != value[:len(got)] {
			t.Fatalf("%q, %v", got, err)
		}
		lengths[len(got)] = true
	}
	if len(lengths) < 10 {
		t.Fatalf("always truncated at the same positions: %v", lengths)
	}
}

func TestLateEffectsComeAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		c := only(storetest.Late)
		c.LateMax = time.Minute
		s := storetest.NewFaulty(inner, 7, c)
		buffer := []byte("value")
		must.ErrorIsf(t, s.Put(t.Context(), "key", objstore.NewBody(buffer)), objstore.ErrNoVerdict, "put")
		clear(buffer)
		must.ErrorIsf(t, check.Err(inner.Get(t.Context(), "key", objstore.Whole)), objstore.ErrNotFound, "too early")
		s.Settle()
		o := must.Get(inner.Get(t.Context(), "key", objstore.Whole))(t)
		if got, err := read(o); got != "value" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		must.ErrorIsf(t, s.Delete(t.Context(), "key"), objstore.ErrNoVerdict, "delete")
		s.Settle()
		must.ErrorIsf(t, check.Err(inner.Get(t.Context(), "key", objstore.Whole)), objstore.ErrNotFound, "not deleted")
	})
}

func TestHangEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		s := storetest.NewFaulty(inner, 7, only(storetest.Hang))
		effects := 0
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			begin := time.Now()
			key := fmt.Sprintf("key%d", i)
			err := s.Put(ctx, key, body("value"))
			if !errors.Is(err, objstore.ErrNoVerdict) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Hour {
				t.Fatalf("%v after %v", err, time.Since(begin))
			}
			cancel()
			if _, err := inner.Get(t.Context(), key, objstore.Whole); err == nil {
				effects++
			}
		}
		if effects == 0 || effects == 40 {
			t.Fatalf("%d of 40 had an effect", effects)
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewFaulty(objstore.NewMemory(), 7, storetest.Faults{LatencyMin: time.Second, LatencyMax: 3 * time.Second})
		for i := range 20 {
			begin := time.Now()
			must.NoError(t, s.Put(t.Context(), fmt.Sprint(i), body("x")))
			if d := time.Since(begin); d < time.Second || d > 3*time.Second {
				t.Fatalf("took %v", d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.ErrorIsf(t, s.Put(ctx, "late", body("x")), objstore.ErrNoVerdict, "an ended context")
	})
}

// outcomes makes the same requests from several goroutines and lists their outcomes.
func outcomes(t *testing.T, seed uint64) []string {
	s := storetest.NewFaulty(objstore.NewMemory(), seed, storetest.All(storetest.Rates{storetest.Before: 0.2, storetest.Lost: 0.2, storetest.Throttle: 0.1, storetest.Refuse: 0.1}))
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				key := fmt.Sprintf("%d/%d", g, i%25)
				err := s.Put(t.Context(), key, body("x"))
				mu.Lock()
				all = append(all, fmt.Sprint(key, i, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}

func TestTheSeedDecides(t *testing.T) {
	first := outcomes(t, 1)
	if !slices.Equal(first, outcomes(t, 1)) {
		t.Fatal("the same seed gives other faults")
	}
	if slices.Equal(first, outcomes(t, 2)) {
		t.Fatal("another seed gives the same faults")
	}
}

func TestFaultsChangeAtRunTime(t *testing.T) {
	s := storetest.NewFaulty(objstore.NewMemory(), 1, only(storetest.Refuse))
	must.ErrorIs(t, s.Put(t.Context(), "a", body("x")), objstore.ErrRefused)
	s.SetFaults(storetest.Faults{})
	must.NoError(t, s.Put(t.Context(), "a", body("x")))
}

func TestCounter(t *testing.T) {
	disk := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	defer disk.Close()
	for _, inner := range []objstore.Store{objstore.NewMemory(), disk} {
		c := storetest.NewCounter(inner)
		must.NoError(t, c.Put(t.Context(), "a", body("12345")))
		earlier := c.Counts()
		must.ErrorIs(t, c.Put(t.Context(), "a", body("67")), objstore.ErrExists)
		o := must.Get(c.Get(t.Context(), "a", objstore.Range{Offset: 1, Length: 3}))(t)
		if got, err := read(o); got != "234" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		must.Get2(c.List(t.Context(), objstore.ListOptions{}))(t)
		must.NoError(t, c.Delete(t.Context(), "a", "b", "c"))
		want := storetest.Counts{Puts: 1, Gets: 1, Lists: 1, Deletes: 1, KeysDeleted: 3, BytesPut: 2, BytesGot: 3}
		if got := c.Counts().Sub(earlier); got != want || got.Requests() != 4 {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if !objstore.IsLocal(storetest.NewFaulty(c, 1, storetest.Faults{})) {
			t.Fatal("wrappers hide that the store is local")
		}
	}
}
