package log_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/sebtest"
)

// damages imitate bit rot and torn writes.
var damages = map[string]func(b []byte) []byte{
	"first byte":  func(b []byte) []byte { b[0] ^= 1; return b },
	"in the head": func(b []byte) []byte { b[min(60, len(b)-1)] ^= 4; return b },
	"in the rest": func(b []byte) []byte { b[len(b)*3/4] ^= 0x80; return b },
	"last byte":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	"half of it":  func(b []byte) []byte { return b[:len(b)/2] },
	"nothing":     func([]byte) []byte { return nil },
	"all zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
}

// copied returns a store in memory with a copy of the objects.
func copied(t testing.TB, s objstore.Store) *objstore.Memory {
	t.Helper()
	m := objstore.NewMemory()
	for _, key := range names(t, s, "") {
		put(t, m, key, whole(t, s, key))
	}
	return m
}

func replace(t testing.TB, s objstore.Store, key string, b []byte) {
	t.Helper()
	if err := s.Delete(context.Background(), key); err != nil {
		t.Fatal(key, err)
	}
	put(t, s, key, b)
}

func (h *history) clone() *history {
	c := *h
	c.acked = maps.Clone(h.acked)
	return &c
}

// TestDamageDestroysNothing is rule R9. It damages each object in turn, and all snapshots together,
// in every way. A broker then either starts, appends, trims, takes snapshots and collects, or
// refuses to start. In both cases nothing is destroyed: after the bytes are restored every
// acknowledged record is readable.
func TestDamageDestroysNothing(t *testing.T) {
	store, kept, trimmed := lived(t)
	all := names(t, store, "")
	victims := [][]string{names(t, store, "s0000/snap/")}
	for _, key := range all {
		victims = append(victims, []string{key})
	}
	starts, refusals, deleted := 0, 0, 0
	for i, keys := range victims {
		if i%sebtest.Runs(1, 3) > 0 {
			continue
		}
		for name, damage := range damages {
			s := copied(t, store)
			for _, key := range keys {
				replace(t, s, key, damage(whole(t, store, key)))
			}
			kept, trimmed := kept.clone(), trimmed.clone()
			if startAndWork(t, s, kept, trimmed) {
				starts++
			} else {
				refusals++
			}
			for _, old := range all {
				deleted += 1 - len(names(t, s, old))
			}
			for _, key := range keys {
				if len(names(t, s, key)) > 0 { // otherwise it was garbage, or the reads below fail
					replace(t, s, key, whole(t, store, key))
				}
			}
			l := open(t, damageOptions(s))
			v := view(l)
			kept.check(t, s, v)
			trimmed.check(t, s, v)
			checkSeals(t, s, v)
			l.Kill()
			if t.Failed() {
				t.Fatalf("%s: %s", keys, name)
			}
		}
	}
	t.Logf("%d objects; %d starts despite damage, which then deleted %d objects as garbage; %d refused", len(all), starts, deleted, refusals)
	if starts == 0 || refusals == 0 || deleted == 0 || len(victims[0]) < 2 {
		t.Error("want starts, refusals, garbage and several snapshots")
	}
}

func damageOptions(s objstore.Store) log.Options {
	o := options(s)
	o.Core.SnapshotSlots, o.NoWait = slotsBetween, true
	return o
}

// lived returns a log of several epochs, with snapshots, seals, live data and garbage.
func lived(t *testing.T) (s *objstore.Memory, kept, trimmed *history) {
	s = objstore.NewMemory()
	for epoch := range 3 {
		l := open(t, damageOptions(s))
		if epoch == 0 {
			id := topic(t, l, "t", 2)
			kept, trimmed = newHistory(id, 0), newHistory(id, 1)
		}
		for i := range 7 {
			kept.append(t, l, fmt.Sprintf("kept %d.%d", epoch, i))
			trimmed.append(t, l, fmt.Sprintf("trimmed %d.%d", epoch, i))
		}
		trimmed.trim(t, l, trimmed.next-2)
		sebtest.Eventually(t, "a snapshot is written", func() bool { return len(names(t, s, "s0000/snap/")) >= min(epoch+1, 2) })
		l.Kill()
	}
	return s, kept, trimmed
}

// startAndWork starts a log and does everything that a leader does. It reports whether the start
// succeeded.
func startAndWork(t *testing.T, s objstore.Store, kept, trimmed *history) bool {
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	l, err := log.Open(ctx, damageOptions(s))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("start on a damaged bucket hangs: %v", err)
		}
		return false
	}
	defer l.Kill()
	for i := range 2*slotsBetween + 4 {
		kept.append(t, l, fmt.Sprintf("later %d", i))
		if i%5 == 0 {
			trimmed.append(t, l, fmt.Sprintf("later %d", i))
			trimmed.trim(t, l, trimmed.next-1)
		}
	}
	return true
}
