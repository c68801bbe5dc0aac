package coordinator_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestGroupsEndWithTheTerm: a coordinator whose broker was fenced and leads again knows no generation
// of its earlier epoch. In between another broker has led, and has taken commits.
func TestGroupsEndWithTheTerm(t *testing.T) {
	ctx, store := t.Context(), objstore.NewMemory()
	b := must.Get(broker.Open(ctx, broker.Options{
		Options:    log.Options{Store: store, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, Standby: true, Logger: slog.New(slog.DiscardHandler)},
		AutoCreate: true,
	}))(t)
	l := &life{t: t, b: b, c: coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: slog.New(slog.DiscardHandler)})}
	t.Cleanup(l.kill)
	must.NoError(t, b.EnsureTopic(ctx, "t"))
	a := l.member()
	must.Equal(t, l.commit(caller(a), 3), group.OK)
	parked := l.c.Join(request("")) // waits until the first member joins again
	other := open(t, store, nil)
	must.ErrorIsf(t, b.CommitOffsets(ctx, "h", []broker.OffsetCommit{{Topic: "t", Offset: 1}})[0], state.ErrOutcomeUnknown, "commit of a deposed leader")
	if got := soon(t, parked); got.Code != group.NotCoordinator {
		t.Fatalf("parked join: %+v", got)
	}
	sebtest.Eventually(t, "the fenced broker follows", b.Follows)
	must.Equalf(t, l.c.Ready(), group.NotCoordinator, "follower: code")
	must.Equalf(t, l.used(), 0, "bytes of groups at a follower")
	must.NoError(t, other.c.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "t", Offset: 50}})[0])
	must.NoError(t, b.Confirm(ctx))
	must.NoError(t, b.Stand(ctx))
	must.Equalf(t, l.commit(caller(a), 7), group.IllegalGeneration, "commit of an earlier generation: code")
	must.Equalf(t, l.committed(), 50, "committed offset")
	again := l.member()
	if again.Generation == a.Generation {
		t.Fatalf("generation %d is given twice", a.Generation)
	}
	if code := l.commit(caller(again), 51); code != group.OK || l.committed() != 51 {
		t.Fatalf("commit: code %d, offset %d", code, l.committed())
	}
}
