package queue_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestNoRoomForMoreInFlight: while workers have as many messages as there is memory for, those that wait cost
// nothing, and a settlement in any queue lets them continue.
func TestNoRoomForMoreInFlight(t *testing.T) {
	var looks atomic.Int64 // each turn of the loop, and each try of a worker, asks for the time
	f := openWith(t, objstore.NewMemory(), func(o *broker.Options) {
		o.Budget = budget.New(16 << 20)
		o.Now = func() time.Time { looks.Add(1); return time.Now() }
	})
	f.create("full", "in-flight-max", "100000")
	f.create("other")
	var all []queue.Message
	for range 10_000 {
		all = append(all, text("x"))
	}
	f.send("full", all...)
	f.send("full", all...)
	f.send("other", text("y"))
	var held []queue.Leased
	for {
		l, err := f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "full", Max: queue.LeaseMax, Visibility: time.Hour, By: "w"})
		if err != nil {
			break
		}
		held = append(held, l.List...)
		l.Release()
	}
	got := make(chan []queue.Leased, 1)
	go func() { got <- f.lease("other", 1) }()
	sebtest.Eventually(t, "a worker waits", func() bool { return f.q.Waiting("other") == 1 })
	before := looks.Load()
	time.Sleep(500 * time.Millisecond)
	if n := looks.Load() - before; n > 1000 {
		t.Errorf("%d looks at queues while there is no room", n)
	}
	for _, m := range held[:queue.LeaseMax] { // leases are given while there is any room, so a few exceed it
		must.NoError(t, f.settle("full", queue.Finish, m))
	}
	must.Equal(t, len(<-got), 1)
}

// TestTheClockJumps: a schedule sends when the clock says so, also if the clock was set forward, or the machine was
// suspended. Timers notice neither.
func TestTheClockJumps(t *testing.T) {
	var ahead, looks atomic.Int64
	f := openWith(t, objstore.NewMemory(), func(o *broker.Options) {
		o.Now = func() time.Time { looks.Add(1); return time.Now().Add(time.Duration(ahead.Load())) }
	})
	f.create("q")
	must.Get(f.q.SetSchedule(t.Context(), "q", queue.Schedule{Name: "hourly", Cron: "@hourly"}))(t)
	for before := int64(0); before != looks.Load(); time.Sleep(100 * time.Millisecond) { // until the loop waits
		before = looks.Load()
	}
	ahead.Store(int64(time.Hour))
	sebtest.Eventually(t, "the message of the schedule", func() bool { return f.info("q").Sent == 1 })
}
