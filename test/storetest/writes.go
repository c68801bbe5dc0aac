package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func putIfAbsent(t *testing.T, s objstore.Store) {
	put(t, s, "a/b", "first")
	for _, second := range []string{"second, and longer", "first", ""} {
		wantError(t, s.Put(within(t), "a/b", objstore.NewBody([]byte(second))), objstore.ErrExists)
	}
	wantObject(t, s, "a/b", "first")
}

func racers(t *testing.T, s objstore.Store) {
	race(t, s, sebtest.Runs(25, 5), func(round int) string { return fmt.Sprintf("race/folder-%d/name", round) })
}

// racersAfterDelete checks that the condition refers to the current state, not to deleted objects.
func racersAfterDelete(t *testing.T, s objstore.Store) {
	race(t, s, sebtest.Runs(10, 3), func(int) string {
		must.NoError(t, s.Delete(within(t), "race/again"))
		return "race/again"
	})
}

// race puts 16 different values concurrently under each of the names that next returns. Exactly one
// must win.
func race(t *testing.T, s objstore.Store, rounds int, next func(round int) string) {
	const racers = 16
	for round := range rounds {
		key := next(round)
		errs := make([]error, racers)
		value := func(racer int) string { return fmt.Sprintf("round %d racer %d", round, racer) }
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				<-start
				errs[i] = s.Put(within(t), key, objstore.NewBody([]byte(value(i))))
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil && winner >= 0 {
				t.Fatalf("round %d: %d and %d both won", round, winner, i)
			}
			if err == nil {
				winner = i
			} else {
				wantError(t, err, objstore.ErrExists)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: no put won", round)
		}
		wantObject(t, s, key, value(winner))
	}
}

func readAfterWrite(t *testing.T, s objstore.Store) {
	for i := range 20 {
		key := fmt.Sprintf("raw/%03d", i)
		wantKeys(t, s, objstore.ListOptions{Prefix: key})
		put(t, s, key, key)
		wantObject(t, s, key, key)
		wantKeys(t, s, objstore.ListOptions{Prefix: key}, key)
	}
}

func deleteMissing(t *testing.T, s objstore.Store) {
	put(t, s, "d/here", "x")
	for range 2 {
		must.NoError(t, s.Delete(within(t), "d/here", "d/gone", "nowhere/at/all"))
	}
	must.NoError(t, s.Delete(within(t), "single/missing"))
	must.NoError(t, s.Delete(within(t)))
	_, _, err := get(within(t), s, "d/here", objstore.Whole)
	wantError(t, err, objstore.ErrNotFound)
	put(t, s, "d/here", "again") // the name is free; Seb never reuses one (rule R1)
	wantObject(t, s, "d/here", "again")
}

func deleteMany(t *testing.T, s objstore.Store) {
	const objects = 1100
	keys := make([]string, objects)
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%05d", i)
	}
	inParallel(8, objects, func(i int) {
		if i%10 == 0 || i > objects-20 { // the others are missing, which is not an error
			check.NoError(t, s.Put(within(t), keys[i], objstore.NewBody([]byte("x"))))
		}
	})
	put(t, s, "other", "stays")
	must.NoError(t, s.Delete(within(t), keys...))
	wantKeys(t, s, objstore.ListOptions{}, "other")
}

// inParallel calls do for 0..n-1 from a few goroutines.
func inParallel(goroutines, n int, do func(int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				do(i)
			}
		})
	}
	wg.Wait()
}

func badKeys(t *testing.T, s objstore.Store) {
	long := string(make([]byte, objstore.KeyBytesMax+1))
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/..", "./a", "a b", "ä", "a\\b", "a\x00", "a%2fb", "a+b", long} {
		wantError(t, s.Put(within(t), key, objstore.NewBody([]byte("x"))), objstore.ErrRefused)
		_, _, err := get(within(t), s, key, objstore.Whole)
		wantError(t, err, objstore.ErrRefused)
		wantError(t, s.Delete(within(t), "fine", key), objstore.ErrRefused)
	}
	wantKeys(t, s, objstore.ListOptions{})
	for _, key := range []string{"...", "a/.b", "a/b..", "~-_.", "A/a"} {
		put(t, s, key, key)
		wantObject(t, s, key, key)
	}
}

func badBody(t *testing.T, s objstore.Store) {
	for _, size := range []int64{0, 2, 4, -1} {
		wantError(t, s.Put(within(t), "k", objstore.Body{Parts: [][]byte{[]byte("abc")}, Size: size}), objstore.ErrRefused)
	}
	put(t, s, "k", "abc")
}

func endedContext(t *testing.T, s objstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(err error) {
		t.Helper()
		wantError(t, err, objstore.ErrNoVerdict)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v does not wrap the context's error", err)
		}
	}
	put(t, s, "there", "x")
	check(s.Put(ctx, "there", objstore.NewBody([]byte("y"))))
	_, _, err := get(ctx, s, "there", objstore.Whole)
	check(err)
	_, _, err = s.List(ctx, objstore.ListOptions{})
	check(err)
	check(s.Delete(ctx, "there"))
	wantObject(t, s, "there", "x")
}

func manyParts(t *testing.T, s objstore.Store) {
	whole := pattern(sebtest.Runs(patternMax, 1<<20))
	for _, c := range []struct {
		name  string
		cut   func(i int) int
		bytes int
	}{
		{"even", func(int) int { return 64 << 10 }, len(whole)},
		{"small", func(i int) int { return 1 + i%37 }, 200_000},
		{"odd", func(i int) int { return (i * i * 7919) % 200_000 }, len(whole)},
		{"one", func(int) int { return len(whole) }, len(whole)},
	} {
		var parts [][]byte
		for i, rest := 0, whole[:c.bytes]; len(rest) > 0; i++ {
			n := min(c.cut(i), len(rest))
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		body := objstore.NewBody(parts...)
		body.CRC32C, body.HasCRC = crc32.Checksum(whole[:c.bytes], crc32.MakeTable(crc32.Castagnoli)), true
		must.NoErrorf(t, s.Put(within(t), "parts/"+c.name, body), "%s", c.name)
		wantObject(t, s, "parts/"+c.name, string(whole[:c.bytes]))
	}
}

func partsReused(t *testing.T, s objstore.Store) {
	const writers, rounds, size = 4, 10, 100_000
	inParallel(writers, writers, func(w int) {
		buffer := make([]byte, size) // the same one in all rounds
		for round := range rounds {
			for i := range buffer {
				buffer[i] = byte(w*rounds + round)
			}
			body := objstore.NewBody(buffer[:1], buffer[1:size/2], nil, buffer[size/2:])
			check.NoError(t, s.Put(within(t), fmt.Sprintf("reused/%d-%d", w, round), body))
			clear(buffer)
		}
	})
	for w := range writers {
		for round := range rounds {
			data, _, err := get(within(t), s, fmt.Sprintf("reused/%d-%d", w, round), objstore.Whole)
			if err != nil || len(data) != size {
				t.Fatalf("%d bytes, %v", len(data), err)
			}
			must.Equalf(t, bytes.Count(data, []byte{byte(w*rounds + round)}), size, "writer %d round %d: bytes of this round", w, round)
		}
	}
}
