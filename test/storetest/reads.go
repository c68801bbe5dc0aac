package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// ordered are names in byte order that a traversal of folders would return differently: '-' and '.'
// sort before '/', and '~' after it.
var ordered = []string{
	"A", "a-b/x", "a.b/x", "a/0", "a/00", "a/b/c", "a/b/c1", "a/b-c", "a/b0", "a0", "a~/x", "b", "c/d/e/f/g", "c/d/e/f0", "~",
}

func putOrdered(t *testing.T, s objstore.Store) {
	t.Helper()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(ordered)) {
		put(t, s, ordered[i], ordered[i])
	}
}

func listOrder(t *testing.T, s objstore.Store) {
	wantKeys(t, s, objstore.ListOptions{})
	want := slices.Sorted(slices.Values(ordered))
	putOrdered(t, s)
	wantKeys(t, s, objstore.ListOptions{}, want...)
	for _, e := range listAll(t, s, objstore.ListOptions{}) {
		if e.Size != int64(len(e.Key)) {
			t.Fatalf("%s: listed with %d bytes", e.Key, e.Size)
		}
	}
}

func listAfter(t *testing.T, s objstore.Store) {
	putOrdered(t, s)
	sorted := slices.Sorted(slices.Values(ordered))
	for _, after := range append([]string{"0", "a", "a-", "a/", "a/b", "a/b/", "a/b/zz", "c/d", "c/d/e/f/", "zz", "~~"}, sorted...) {
		var want []string
		for _, key := range sorted {
			if key > after {
				want = append(want, key)
			}
		}
		wantKeys(t, s, objstore.ListOptions{After: after}, want...)
	}
	wantKeys(t, s, objstore.ListOptions{After: "a/b/c", Prefix: "a/b"}, "a/b/c1", "a/b0")
	wantKeys(t, s, objstore.ListOptions{After: "A", Prefix: "b"}, "b")
	wantKeys(t, s, objstore.ListOptions{After: "b", Prefix: "a"})
}

func listPages(t *testing.T, s objstore.Store) {
	putOrdered(t, s)
	sorted := slices.Sorted(slices.Values(ordered))
	for limit := 1; limit <= len(sorted)+1; limit++ {
		wantKeys(t, s, objstore.ListOptions{Max: limit}, sorted...)
		page, more := must.Get2(s.List(within(t), objstore.ListOptions{Max: limit}))(t)
		if len(page) != min(limit, len(sorted)) || more != (limit < len(sorted)) {
			t.Fatalf("at most %d: %d names, more %v", limit, len(page), more)
		}
	}
}

func listPrefix(t *testing.T, s objstore.Store) {
	putOrdered(t, s)
	sorted := slices.Sorted(slices.Values(ordered))
	for _, prefix := range []string{"a", "a/", "a/b", "a/b/", "a/b/c", "a/b/c1", "a/b/c12", "a-", "a.b", "c/d/e", "c/d/e/f", "c/d/e/f/", "~", "x", "x/y", "a//", "../", "./a", "/"} {
		var want []string
		for _, key := range sorted {
			if len(key) >= len(prefix) && key[:len(prefix)] == prefix {
				want = append(want, key)
			}
		}
		wantKeys(t, s, objstore.ListOptions{Prefix: prefix}, want...)
		wantKeys(t, s, objstore.ListOptions{Prefix: prefix, Max: 1}, want...)
	}
}

func listAfterDelete(t *testing.T, s objstore.Store) {
	putOrdered(t, s)
	sorted := slices.Sorted(slices.Values(ordered))
	for len(sorted) > 0 {
		n := min(2, len(sorted))
		must.NoError(t, s.Delete(within(t), sorted[:n]...))
		sorted = sorted[n:]
		wantKeys(t, s, objstore.ListOptions{}, sorted...)
	}
}

func ranges(t *testing.T, s objstore.Store) {
	const size = 100_000
	whole := pattern(size)
	put(t, s, "r", string(whole))
	for _, r := range []objstore.Range{
		objstore.Whole,
		{Offset: 0, Length: 1},
		{Offset: 0, Length: size},
		{Offset: 0, Length: size + 1},
		{Offset: 1, Length: -1},
		{Offset: 7, Length: 65_536},
		{Offset: size - 1, Length: 1},
		{Offset: size - 1, Length: -5},
		{Offset: size - 5, Length: 1 << 40},
	} {
		data, got, err := get(within(t), s, "r", r)
		must.NoErrorf(t, err, "%+v", r)
		end := int64(size)
		if r.Length >= 0 {
			end = min(end, r.Offset+r.Length)
		}
		if string(data) != string(whole[r.Offset:end]) || got != size {
			t.Fatalf("%+v: wrong %d bytes, size %d", r, len(data), got)
		}
	}
	for _, r := range []objstore.Range{{Offset: size, Length: 1}, {Offset: size, Length: -1}, {Offset: 1 << 40, Length: -1}, {Offset: -1, Length: 3}, {Offset: 3}, {}} {
		_, _, err := get(within(t), s, "r", r)
		wantError(t, err, objstore.ErrRefused)
		if errors.Is(err, objstore.ErrOutOfRange) != (r.Offset >= size) {
			t.Fatalf("%+v: %v", r, err)
		}
	}
}

func emptyObject(t *testing.T, s objstore.Store) {
	put(t, s, "empty", "")
	wantObject(t, s, "empty", "")
	data, size, err := get(within(t), s, "empty", objstore.Range{Length: 100})
	if err != nil || len(data) != 0 || size != 0 {
		t.Fatalf("%d bytes, size %d, %v", len(data), size, err)
	}
	_, _, err = get(within(t), s, "empty", objstore.Range{Offset: 1, Length: 1})
	wantError(t, err, objstore.ErrRefused)
	wantError(t, s.Put(within(t), "empty", objstore.NewBody([]byte("x"))), objstore.ErrExists)
}

func notFound(t *testing.T, s objstore.Store) {
	put(t, s, "a/b/c", "x")
	for _, key := range []string{"a", "a/b", "a/b/d", "x", "x/y/z"} {
		for _, r := range []objstore.Range{objstore.Whole, {Offset: 5, Length: 5}} {
			_, _, err := get(within(t), s, key, r)
			wantError(t, err, objstore.ErrNotFound)
		}
	}
}

// putUntilVerdict repeats a put while there is no verdict. A folder store may fail while other
// writers create and remove the folders around a name.
func putUntilVerdict(t *testing.T, s objstore.Store, key, value string) (err error) {
	for range 20 {
		if err = s.Put(within(t), key, objstore.NewBody([]byte(value))); !errors.Is(err, objstore.ErrNoVerdict) {
			return err
		}
	}
	return err
}

// mixed runs all operations concurrently and checks the results of each goroutine.
func mixed(t *testing.T, s objstore.Store) {
	const workers = 8
	steps := sebtest.Runs(25, 8)
	inParallel(workers, workers, func(w int) {
		random := rand.New(rand.NewPCG(uint64(w), 99))
		for i := range steps {
			key := fmt.Sprintf("mix/%d/%03d", w, i)
			value := string(pattern(random.IntN(50_000)))
			if err := mixedStep(t, s, key, value); err != nil {
				t.Errorf("%s: %v", key, err)
				return
			}
			err := putUntilVerdict(t, s, fmt.Sprintf("mix/shared/%03d", i), key)
			if err != nil && !errors.Is(err, objstore.ErrExists) {
				t.Errorf("shared: %v", err)
			}
		}
	})
	must.Equalf(t, len(listAll(t, s, objstore.ListOptions{Prefix: "mix/shared/"})), steps, "shared names")
	must.Equalf(t, len(listAll(t, s, objstore.ListOptions{Prefix: "mix/"})), steps+workers*(steps/2), "names are left")
}

// mixedStep puts, reads and lists a name, and deletes every other one.
func mixedStep(t *testing.T, s objstore.Store, key, value string) error {
	ctx := within(t)
	if err := s.Put(ctx, key, objstore.NewBody([]byte(value))); err != nil {
		return err
	}
	data, _, err := get(ctx, s, key, objstore.Whole)
	if err != nil {
		return err
	}
	if string(data) != value {
		return errors.New("read bytes differ from those put")
	}
	entries, _, err := s.List(ctx, objstore.ListOptions{Prefix: key})
	if err != nil {
		return err
	}
	if len(entries) != 1 || entries[0] != (objstore.Entry{Key: key, Size: int64(len(value))}) {
		return fmt.Errorf("list returned %v", entries)
	}
	if key[len(key)-1]%2 == 0 {
		if err := s.Delete(ctx, key); err != nil {
			return err
		}
		if _, _, err := get(ctx, s, key, objstore.Whole); !errors.Is(err, objstore.ErrNotFound) {
			return fmt.Errorf("after delete: %w", err)
		}
	}
	return nil
}
