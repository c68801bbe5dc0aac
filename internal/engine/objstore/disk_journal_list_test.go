package objstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// TestJournalPages puts and deletes names in random order, and compares pages of random sizes,
// prefixes and beginnings with those of a store in memory: of the owner, of another process, and
// after the end.
func TestJournalPages(t *testing.T) {
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	owner, other, want := openDisk(t, dir, objstore.DiskOptions{NoSync: true}), openDisk(t, dir, objstore.DiskOptions{NoSync: true}), objstore.NewMemory()
	must.NoError(t, owner.Own(t.Context(), "wal"))
	compare := func(what string, s objstore.Store) {
		t.Helper()
		for range 50 {
			o := objstore.ListOptions{Prefix: "wal/", Max: 1 + rng.IntN(20)}
			if rng.IntN(2) == 0 {
				o.Prefix += fmt.Sprint(rng.IntN(10))
			}
			if rng.IntN(2) == 0 {
				o.After = fmt.Sprintf("wal/%03d", rng.IntN(1000))
			}
			got, gotMore, err := s.List(t.Context(), o)
			expected, more, _ := want.List(t.Context(), o)
			if err != nil || !slices.Equal(got, expected) || gotMore != more {
				t.Fatalf("%s: %+v: %v, more %v, %v; want %v, more %v", what, o, got, gotMore, err, expected, more)
			}
		}
	}
	change := func(s objstore.Store, name string) {
		t.Helper()
		body := objstore.NewBody([]byte(strings.Repeat("x", rng.IntN(9))))
		if err := s.Put(t.Context(), name, body); err != nil {
			must.NoError(t, s.Delete(t.Context(), name))
			_ = want.Delete(t.Context(), name)
			return
		}
		must.NoError(t, want.Put(t.Context(), name, body))
	}
	for round := range 20 {
		for range 60 {
			change(owner, fmt.Sprintf("wal/%03d", rng.IntN(1000)))
		}
		compare(fmt.Sprint("owner, round ", round), owner)
		compare(fmt.Sprint("other process, round ", round), other)
	}
	for range 60 {
		change(other, fmt.Sprintf("wal/%03d", rng.IntN(1000)))
	}
	compare("after the end", other)
}
