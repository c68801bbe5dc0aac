package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// readAnywhere reads topic a at random offsets until stop is closed. A read returns the records
// written there, or *BelowStartError for an offset below the reported start.
func readAnywhere(t *testing.T, b *broker.Broker, stop chan struct{}, read, below *atomic.Int64) {
	for ctx := context.Background(); ; {
		select {
		case <-stop:
			return
		default:
		}
		info, err := b.Topic(ctx, "a", b.ReadOnly()) // a follower confirms first
		if err != nil {
			t.Error(err)
			return
		}
		p := info.Partitions[0]
		if p.Next == 0 {
			continue
		}
		offset := max(0, p.Start-3) + rand.Int64N(p.Next-max(0, p.Start-3))
		f, err := b.Fetch(ctx, []broker.Want{{Topic: "a", Offset: offset, MaxBytes: 100_000}}, 0, 0)
		if errors.Is(err, state.ErrOverBudget) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		part := &f.Parts[0]
		var e *broker.BelowStartError
		switch {
		case errors.As(part.Err, &e) && e.Offset == offset && e.Start > offset:
			below.Add(1)
		case part.Err != nil:
			t.Errorf("offset %d: %v", offset, part.Err)
		default:
			vals, _ := values(t, part, offset)
			for i, v := range vals {
				if n, _, _ := strings.Cut(v, "."); n != fmt.Sprint(offset+int64(i)) {
					t.Errorf("%s at offset %d", n, offset+int64(i))
				}
			}
			read.Add(int64(len(vals)))
		}
		f.Release()
	}
}

// TestReadersDuringCollection: readers at a leader and a follower read while retention trims and
// trimmed objects are deleted. The number of objects stays bounded.
func TestReadersDuringCollection(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		small := func(readOnly bool) *broker.Broker {
			o := options(s)
			// so that the tail holds only part of the newest objects
			o.Budget = budget.New(16 << 20)
			o.Core.SnapshotSlots = 8
			o.Core.ReadOnly = readOnly
			o.Core.FollowPoll = core.Duration(time.Millisecond)
			o.RetentionEvery, o.NoWait = time.Millisecond, true
			return open(t, o)
		}
		leader := small(false)
		settings := map[string]string{"retention-bytes": "600000"}
		must.Get(leader.CreateTopic(context.Background(), "a", broker.TopicSpec{Settings: settings}))(t)
		create(t, leader, "kept", 1)
		var read, below, followed, gone atomic.Int64
		next, kept := 0, 0
		for range 3 {
			follower := small(true)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { readAnywhere(t, leader, stop, &read, &below) })
			wg.Go(func() { readAnywhere(t, follower, stop, &followed, &gone) })
			for range sebtest.Runs(80, 45) {
				check.Equalf(t, mustProduce(t, leader, "a", 0, fmt.Sprintf("%d.%s", next, strings.Repeat("x", 20_000))), int64(next), "%d at", next)
				if next%10 == 0 {
					mustProduce(t, leader, "kept", 0, fmt.Sprint(kept))
					kept++
				}
				next++
			}
			sebtest.Eventually(t, "both were read, also below the start", func() bool {
				return read.Load() > 0 && followed.Load() > 0 && below.Load()+gone.Load() > 0
			})
			close(stop)
			wg.Wait()
			kill(follower)
			kill(leader)
			leader = small(false)
		}
		if got := consume(t, leader, "kept", 0, 0); len(got) != kept {
			t.Errorf("%d of %d kept records are readable", len(got), kept)
		}
		sebtest.Eventually(t, "most objects are collected", func() bool {
			mustProduce(t, leader, "a", 0, strings.Repeat("x", 20_000))
			return len(names(t, s, "s0000/"))-kept < next/2 // some 30 are needed
		})
	})
}

// TestDeletedTopicFreesItsData: its objects are deleted, its name can be used again, and a new
// topic of that name has none of the old records.
func TestDeletedTopicFreesItsData(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		o := options(s)
		o.Core.SnapshotSlots = 8
		b := open(t, o)
		ctx := context.Background()
		create(t, b, "a", 1)
		for i := range 50 {
			mustProduce(t, b, "a", 0, fmt.Sprint("old ", i))
		}
		must.NoError(t, commit(t, b, "g", broker.OffsetCommit{Topic: "a", Offset: 20})[0])
		before := names(t, s, "s0000/wal/")
		must.NoError(t, b.DeleteTopic(ctx, "a"))
		create(t, b, "a", 1)
		left := func() (n int) {
			after := names(t, s, "s0000/wal/")
			for name := range before {
				if after[name] {
					n++
				}
			}
			return n
		}
		appended := 0
		for ; left() > 1; appended++ { // the seal stays
			must.Equalf(t, mustProduce(t, b, "a", 0, fmt.Sprint("new ", appended)), int64(appended), "%d at", appended)
		}
		must.Equal(t, group(t, b, "g"), "unknown consumer group")
		kill(b)
		b = open(t, o)
		if got := consume(t, b, "a", 0, 0); len(got) != appended || got[0] != "new 0" {
			t.Fatal(got)
		}
	})
}
