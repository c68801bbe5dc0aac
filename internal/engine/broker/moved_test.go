package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// mover moves data during a read. On each of the first reads of data it merges the object into a
// pack, and the leader deletes the object.
type mover struct {
	t     *testing.T
	s     *hooked
	b     *broker.Broker
	m     *compact.Merger
	left  atomic.Int32 // remaining moves
	moved []string     // names of requested objects that are deleted
	also  func()       // called between merges, if not nil
}

func newMover(t *testing.T, s *hooked, o broker.Options, moves int32) *mover {
	o.Core.GarbageWait = core.Duration(time.Millisecond)
	v := &mover{t: t, s: s, b: open(t, o)}
	v.m = compact.Open(compact.Options{
		Log: v.b, Store: s.Store, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2},
	})
	t.Cleanup(v.m.Close)
	v.left.Store(moves)
	move := func(_ context.Context, key string, r objstore.Range) error {
		data := strings.HasPrefix(key, "s0000/pack/") || strings.HasPrefix(key, "s0000/wal/") && r.Offset > 0
		if data && v.left.Add(-1) >= 0 {
			return v.move(key)
		}
		return nil
	}
	s.onGet.Store(&move)
	return v
}

// move merges until the object is obsolete, and waits until it is deleted.
func (v *mover) move(key string) error {
	v.moved = append(v.moved, key)
	for until := time.Now().Add(sebtest.Limit); names(v.t, v.s.Store, key)[key]; time.Sleep(time.Millisecond) {
		mustProduce(v.t, v.b, "other", 0, "something to merge with")
		if v.also != nil {
			v.also()
		}
		if _, err := v.m.Once(context.Background()); err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s is not deleted", key)
		}
	}
	return nil
}

// TestMissingBecauseMerged: a read is planned on an object that is merged into a pack and deleted
// before the request arrives. The read finds the data at its new position.
func TestMissingBecauseMerged(t *testing.T) {
	for name, moves := range map[string]int32{"into a pack": 1, "and into another": 2} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %v", name, shared), func(t *testing.T) {
				stores(t, func(t *testing.T, inner objstore.Store) {
					s := &hooked{Store: inner}
					first := open(t, options(s))
					create(t, first, "a", 1)
					create(t, first, "other", 1)
					for i := range 3 {
						mustProduce(t, first, "a", 0, fmt.Sprint(i))
					}
					kill(first)
					o := options(s) // with an empty tail
					o.ShareReads = shared
					v := newMover(t, s, o, moves)
					vals, part := fetchOne(t, v.b, 0, 1)
					if part.Err != nil || len(vals) == 0 || vals[0] != "0" {
						t.Fatalf("%v, %v", vals, part.Err)
					}
					if len(v.moved) != int(moves) || moves == 2 && !strings.HasPrefix(v.moved[1], "s0000/pack/") {
						t.Fatalf("moved were %v", v.moved)
					}
					if got := consume(t, v.b, "a", 0, 0); fmt.Sprint(got) != "[0 1 2]" {
						t.Fatal(got)
					}
				})
			})
		}
	}
}

// TestNeighboursMissingBecauseMerged: the same for partitions that share one request.
func TestNeighboursMissingBecauseMerged(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	first := open(t, options(s))
	create(t, first, "a", 2)
	create(t, first, "other", 1)
	for _, r := range first.Submit(t.Context(), []broker.Append{data(t, "a", 0, "x"), data(t, "a", 1, "y")}).Wait(t.Context()) {
		must.NoError(t, r.Err)
	}
	kill(first)
	v := newMover(t, s, options(s), 1)
	f := must.Get(v.b.Fetch(t.Context(), []broker.Want{{Topic: "a"}, {Topic: "a", Partition: 1}}, 0, 0))(t)
	defer f.Release()
	for i, want := range []string{"x", "y"} {
		if vals, _ := values(t, &f.Parts[i], 0); f.Parts[i].Err != nil || fmt.Sprint(vals) != "["+want+"]" {
			t.Errorf("partition %d: %v, %v", i, vals, f.Parts[i].Err)
		}
	}
	check.Equalf(t, len(v.moved), 1, "moved were %v", v.moved)
}

// TestMarkerRemovedDuringARead: a read is planned while an aborted transaction is known, and finds the data where a
// second compaction has put it, without the marker. A Kafka client that was told of the transaction would leave out
// the committed batches of the producer, too, so it must not get that answer.
func TestMarkerRemovedDuringARead(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	first := open(t, options(s))
	must.Get(first.CreateTopic(t.Context(), "a", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact", "min-cleanable-dirty-ratio": "0"}}))(t)
	create(t, first, "other", 1)
	x := newTransactor(t, first, "x")
	x.sent(0, "aborted")
	x.ended(false, false)
	x.sent(0, "committed")
	x.ended(true, false)
	kill(first)
	v := newMover(t, s, options(s), 1)
	known := func() int {
		return len(v.b.View().TopicByName("a").Partitions.At(0).Aborted)
	}
	v.also = func() {
		for range 2 { // the passes
			mustProduce(t, v.b, "a", 0, "more")
			for must.Get(v.m.Once(context.Background()))(t) {
			}
		}
	}
	wants := []broker.Want{{Topic: "a", Isolation: broker.RawCommitted}}
	must.Equal(t, known(), 1)
	f := must.Get(v.b.Fetch(t.Context(), wants, 0, 0))(t)
	must.Equalf(t, len(v.moved), 1, "moved objects")
	must.Equalf(t, known(), 0, "aborted transactions after two passes")
	if part := &f.Parts[0]; !errors.Is(part.Err, state.ErrStoreUnavailable) || len(part.Chunks) > 0 {
		t.Errorf("%v, %d chunks, aborted %v", part.Err, len(part.Chunks), part.Aborted)
	}
	f.Release()
	f = must.Get(v.b.Fetch(t.Context(), wants, 0, 0))(t)
	defer f.Release()
	must.NoError(t, f.Parts[0].Err)
	check.Equal(t, len(f.Parts[0].Aborted), 0)
	var r record.Reader
	r.Reset(brokertest.Bytes(t, &f.Parts[0].Chunks[0]), 0)
	must.Equal(t, r.Next(), true)
	check.Equal(t, string(r.Record().Value), "committed")
}

// TestDataThatMovesPermanently: a reader that never catches up gets ErrStoreUnavailable, not
// ErrCorrupt.
func TestDataThatMovesPermanently(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	first := open(t, options(s))
	create(t, first, "a", 1)
	create(t, first, "other", 1)
	mustProduce(t, first, "a", 0, "x")
	kill(first)
	v := newMover(t, s, options(s), 1000)
	_, part := fetchOne(t, v.b, 0, 1)
	if !errors.Is(part.Err, state.ErrStoreUnavailable) || errors.Is(part.Err, state.ErrCorrupt) {
		t.Fatal(part.Err)
	}
	if n := len(v.moved); n < 2 || n > 10 {
		t.Errorf("%d moves", n)
	}
	v.left.Store(0)
	if vals, part := fetchOne(t, v.b, 0, 1); fmt.Sprint(vals) != "[x]" {
		t.Fatal(vals, part.Err)
	}
}

// TestSealInACollectedSlot: a late SEAL may have the name of a collected slot. A follower that is
// behind, and finds the SEAL where it expects records, reads a newer state before it reports
// corruption (rules R9, R11).
func TestSealInACollectedSlot(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s objstore.Store) {
		o := options(s)
		o.Core.GarbageWait = core.Duration(time.Millisecond)
		leader := open(t, o)
		create(t, leader, "a", 1)
		for i := range 20 {
			mustProduce(t, leader, "a", 0, fmt.Sprint(i))
		}
		readOnly := options(s)
		readOnly.Core.ReadOnly = true
		readOnly.Core.FollowPoll = core.Duration(time.Hour)
		follower := open(t, readOnly)
		before := names(t, s, "s0000/wal/")
		must.Get(leader.Trim(t.Context(), "a", 0, 16))(t)
		var gone []string
		sebtest.Eventually(t, "16 objects are deleted", func() bool {
			gone = gone[:0]
			after := names(t, s, "s0000/wal/")
			for name := range before {
				if !after[name] {
					gone = append(gone, name)
				}
			}
			return len(gone) >= 16
		})
		h := record.Head{Kind: record.KindSeal, Time: 1, Epoch: 1, NextEpoch: 2, NextNonce: record.NewID()}
		seal := must.Get(record.EncodeObject(&h, nil, nil, nil))(t)
		for _, name := range gone {
			must.NoError(t, s.Put(t.Context(), name, objstore.NewBody(seal)))
		}
		if p := partition(t, follower, "a", 0); p.Start != 0 {
			t.Fatalf("the follower has the new state already: %+v", p)
		}
		_, part := fetchOne(t, follower, 3, 0)
		wantBelow(t, part, 3, 16)
		if vals, _ := fetchOne(t, follower, 16, 0); fmt.Sprint(vals) != "[16 17 18 19]" {
			t.Fatal(vals)
		}
	})
}
