package log_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// prefixes returns what a leader feeds of its committed DATA, in order.
func prefixes(t *testing.T, s objstore.Store) (slots [][]byte) {
	t.Helper()
	for _, key := range names(t, s, "s0000/wal/") {
		b := whole(t, s, key)
		h := must.Get(record.DecodeHead(b))(t)
		if h.Kind == record.KindData {
			slots = append(slots, b[:record.HeadSize+int(h.StateLen)+int(h.IndexCount)*record.IndexEntrySize])
		}
	}
	return slots
}

// follower opens a log that follows, and returns a channel that receives after each advance.
func follower(t *testing.T, s objstore.Store) (*log.Log, <-chan struct{}) {
	t.Helper()
	advanced := make(chan struct{}, 1000)
	o := standby(s)
	o.Core.Standby = true
	o.Hooks.Advanced = func() { advanced <- struct{}{} }
	l := open(t, o)
	for len(advanced) > 0 {
		<-advanced
	}
	return l, advanced
}

// TestFeed: a follower applies the slots of its leader without a request, and tells its readers.
func TestFeed(t *testing.T) {
	memory := objstore.NewMemory()
	leader := open(t, options(memory))
	store := newHooked(memory)
	next, advanced := follower(t, store)
	id := topic(t, leader, "a", 1)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint(i))
		must.NoError(t, appendOne(t, leader, id, want[i]))
	}
	before := store.requests()
	slots := prefixes(t, memory)
	for _, slot := range slots {
		must.NoError(t, next.Feed(bytes.Clone(slot)))
	}
	for range slots {
		<-advanced
	}
	check.EqualSlicesf(t, contents(t, next, memory, id, 0), want, "the follower")
	next.Reach(report(t, next).Pos)
	must.NoError(t, next.Alive(t.Context()))
	check.Equalf(t, store.requests()-before, 0, "requests of a follower that was fed")
}

// TestFeedOfDamagedSlots: what is not the beginning of a commit object is an error, and what is not
// the next slot is ignored.
func TestFeedOfDamagedSlots(t *testing.T) {
	memory := objstore.NewMemory()
	leader := open(t, options(memory))
	next, _ := follower(t, memory)
	topic(t, leader, "a", 1)
	slot := prefixes(t, memory)[0]
	for at := range slot {
		damaged := bytes.Clone(slot)
		damaged[at] ^= 0x10
		check.ErrorIsf(t, next.Feed(damaged), record.ErrCorrupt, "byte %d is damaged", at)
	}
	for _, n := range []int{0, 1, record.HeadSize - 1, record.HeadSize, len(slot) - 1} {
		check.ErrorIsf(t, next.Feed(bytes.Clone(slot[:n])), record.ErrCorrupt, "%d bytes of a slot", n)
	}
	other := objstore.NewMemory()
	topic(t, open(t, options(other)), "b", 1)
	must.NoError(t, next.Feed(prefixes(t, other)[0]))
	check.Equalf(t, report(t, next).Pos, state.Position{Epoch: 1}, "the follower is at")
	must.NoError(t, next.Confirm(t.Context()))
	if r := report(t, next); r.Pos != (state.Position{Epoch: 1, Slot: 1}) {
		t.Errorf("the follower is at %v after a confirmation", r.Pos)
	}
}

// TestReach: a follower reads exactly the slots up to the position, also over a SEAL and after a feed
// with gaps.
func TestReach(t *testing.T) {
	memory := objstore.NewMemory()
	leader := open(t, standby(memory))
	store := newHooked(memory)
	next, _ := follower(t, store)
	id := topic(t, leader, "a", 1)
	for range 5 {
		must.NoError(t, appendOne(t, leader, id, "v"))
	}
	before := store.requests()
	next.Reach(state.Position{Epoch: 1, Slot: 4})
	reaches(t, next, state.Position{Epoch: 1, Slot: 4})
	check.Equalf(t, store.requests()-before, 4, "requests for 4 slots")
	must.NoError(t, next.Feed(prefixes(t, memory)[5])) // one slot is missing before it
	reaches(t, next, state.Position{Epoch: 1, Slot: 6})
	second := open(t, options(memory))
	must.NoError(t, appendOne(t, second, id, "w"))
	before = store.requests()
	next.Reach(state.Position{Epoch: 2, Slot: 1})
	reaches(t, next, state.Position{Epoch: 2, Slot: 1})
	check.Equalf(t, store.requests()-before, 2, "requests for a SEAL and a slot")
	check.Equalf(t, len(contents(t, next, memory, id, 0)), 6, "records")
}

// reaches waits until a follower is at a position.
func reaches(t *testing.T, l *log.Log, want state.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
	defer cancel()
	for {
		r, err := l.Report(ctx)
		must.NoErrorf(t, err, "wait for %v", want)
		if r.Pos == want {
			return
		}
	}
}

// TestFeedIsBounded: while a follower cannot apply slots, it keeps a few MiB of them. It applies those
// without a read, and then takes further ones.
func TestFeedIsBounded(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		leader := open(t, options(memory))
		release := make(chan struct{})
		store := newHooked(memory)
		o := standby(store)
		o.Core.Standby = true
		held := false
		o.Hooks.Advanced = func() {
			if held {
				<-release
			}
		}
		next := open(t, o)
		held = true
		grow := func(i int) {
			p := state.Record{Kind: state.TopicCreate, Topic: record.NewID(), Name: fmt.Sprint("t", i), Partitions: 1}
			propose(t, leader, p)
		}
		for i := range 20 {
			grow(i)
		}
		slots := prefixes(t, memory)
		must.NoError(t, next.Feed(slots[0]))
		synctest.Wait() // its goroutine is in the hook
		reads, before := store.requests(), sebtest.Heap()
		for range 100 {
			for _, slot := range slots[1:] {
				must.NoError(t, next.Feed(append(make([]byte, 0, 32<<10), slot...)))
			}
		}
		if kept := sebtest.Heap() - before; kept > 8<<20 {
			t.Errorf("%d bytes of fed slots wait", kept)
		}
		held = false
		close(release)
		synctest.Wait()
		check.Equalf(t, report(t, next).Pos, state.Position{Epoch: 1, Slot: 20}, "the follower is at")
		grow(20)
		must.NoError(t, next.Feed(append(make([]byte, 0, 64<<10), prefixes(t, memory)[20]...)))
		synctest.Wait()
		check.Equalf(t, report(t, next).Pos, state.Position{Epoch: 1, Slot: 21}, "the follower is at")
		check.Equalf(t, store.requests()-reads, 0, "requests although all slots were fed")
		leader.Kill()
		next.Kill()
	})
}

// TestHeardLeader: a follower polls for its readers only while it does not hear the leader.
func TestHeardLeader(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		leader := open(t, options(memory))
		store := &slow{Store: memory}
		o := standby(store)
		o.Core.Standby = true
		next := open(t, o)
		next.Readers(true)
		time.Sleep(time.Minute + time.Millisecond)
		if n := store.set(0); n < 60 {
			t.Errorf("%d requests in a minute without the leader", n)
		}
		next.Heard(true)
		synctest.Wait()
		store.set(0)
		time.Sleep(time.Hour)
		check.Equalf(t, store.set(0), 0, "requests in an hour with the leader")
		topic(t, leader, "a", 1)
		next.Heard(false)
		synctest.Wait()
		if r := report(t, next); r.Pos.Slot != 1 {
			t.Errorf("the follower is at %v at the end", r.Pos)
		}
		leader.Kill()
		next.Kill()
	})
}

// TestFeedOfALeader: a leader ignores what is fed to it.
func TestFeedOfALeader(t *testing.T) {
	memory := objstore.NewMemory()
	leader := open(t, options(memory))
	id := topic(t, leader, "a", 1)
	for _, slot := range prefixes(t, memory) {
		must.NoError(t, leader.Feed(slot))
	}
	leader.Reach(state.Position{Epoch: 9})
	must.NoError(t, appendOne(t, leader, id, "v"))
	check.Equalf(t, leader.Status().Role, core.RoleLeader, "role")
}
