package coordinator_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestGroupsEndWithTheTerm: a coordinator whose broker was fenced and leads again knows no generation
// of its earlier term. In between another broker has led, and has taken commits.
func TestGroupsEndWithTheTerm(t *testing.T) {
	ctx, store := t.Context(), objstore.NewMemory()
	b, err := broker.Open(ctx, broker.Options{
		Store: store, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, AutoCreate: true, Standby: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	must.NoError(t, err)
	l := &life{t: t, b: b, c: coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: slog.New(slog.DiscardHandler)})}
	t.Cleanup(l.kill)
	must.NoError(t, b.EnsureTopic(ctx, "t"))
	a := l.member()
	if code := l.commit(caller(a), 3); code != group.OK {
		t.Fatal(code)
	}
	parked := l.c.Join(request("")) // waits until the first member joins again
	other := open(t, store, nil)
	if err := b.CommitOffsets(ctx, "h", []broker.OffsetCommit{{Topic: "t", Offset: 1}})[0]; !errors.Is(err, broker.ErrOutcomeUnknown) {
		t.Fatalf("commit of a deposed leader: %v", err)
	}
	if got := soon(t, parked); got.Code != group.NotCoordinator {
		t.Fatalf("parked join: %+v", got)
	}
	sebtest.Eventually(t, "the fenced broker follows", b.Follows)
	if code := l.c.Ready(); code != group.NotCoordinator {
		t.Fatalf("follower: code %d", code)
	}
	if got := l.used(); got != 0 {
		t.Fatalf("%d bytes of groups at a follower", got)
	}
	if err := other.c.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "t", Offset: 50}})[0]; err != nil {
		t.Fatal(err)
	}
	must.NoError(t, b.Confirm(ctx))
	must.NoError(t, b.Stand(ctx))
	if code := l.commit(caller(a), 7); code != group.IllegalGeneration {
		t.Fatalf("commit of an earlier generation: code %d", code)
	}
	if got := l.committed(); got != 50 {
		t.Fatalf("committed offset %d, want 50", got)
	}
	again := l.member()
	if again.Generation == a.Generation {
		t.Fatalf("generation %d is given twice", a.Generation)
	}
	if code := l.commit(caller(again), 51); code != group.OK || l.committed() != 51 {
		t.Fatalf("commit: code %d, offset %d", code, l.committed())
	}
}
