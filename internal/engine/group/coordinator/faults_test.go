package coordinator_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// TestOffsetsOverTakeoversOnAFaultyStore: coordinators take over from each other. Some deposed ones
// continue with a member that commits to them. The next coordinator starts with the offset
// acknowledged last or a later one that was sent, and no deposed coordinator acknowledges a commit.
func TestOffsetsOverTakeoversOnAFaultyStore(t *testing.T) {
	rates := storetest.Rates{storetest.Before: .03, storetest.Lost: .05, storetest.Late: .05}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := storetest.NewFaulty(objstore.NewMemory(), seed, storetest.Faults{Put: rates, Get: rates, LatencyMax: 2 * time.Millisecond, LateMax: 20 * time.Millisecond})
	acked, sent := int64(-1), int64(0)
	var zombies sync.WaitGroup
	for run := range sebtest.Runs(5, 3) {
		l := open(t, s, func(o *coordinator.Options) { o.CommitTimeout = time.Duration(5+run%3*100) * time.Millisecond })
		if got := l.committed(); got < acked || got > sent {
			t.Fatalf("run %d starts at offset %d, acknowledged %d, sent %d", run, got, acked, sent)
		}
		a := l.member()
		for range 15 {
			sent++
			switch code := l.commit(caller(a), sent); code {
			case group.OK:
				acked = sent
			case group.RequestTimedOut:
			default:
				t.Fatal(code)
			}
		}
		if run%3 == 0 {
			l.kill()
			continue
		}
		next := open(t, s, nil)
		zombies.Go(func() { // while others lead
			for range 5 {
				if code := l.commit(caller(a), 0); code == group.OK {
					t.Error("a deposed coordinator acknowledges a commit")
				}
			}
		})
		if got := next.committed(); got < acked || got > sent {
			t.Fatalf("run %d ends at offset %d, acknowledged %d, sent %d", run, got, acked, sent)
		}
	}
	zombies.Wait()
	last := open(t, s, nil)
	if got := last.committed(); got < acked || got > sent {
		t.Fatalf("the last offset is %d, acknowledged %d, sent %d", got, acked, sent)
	}
	if want := int64(sebtest.Runs(20, 10)); acked < want {
		t.Fatalf("%d of %d commits are acknowledged, want %d", acked, sent, want)
	}
}
