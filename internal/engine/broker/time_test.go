package broker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
)

// wrongClock is a machine's clock with an error.
type wrongClock struct {
	off   atomic.Int64
	store atomic.Bool // the store's clock is known, and right
}

func (c *wrongClock) show() log.Reading {
	off := time.Duration(c.off.Load())
	return log.Reading{Mono: time.Now().UnixNano(), Wall: time.Now().Add(off).UnixMicro(), Store: c.store.Load(), Skew: off}
}

// waits checks that a record is not stored, and that its result says why.
func waits(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	next := partition(t, b, "a", 0).Next
	r := b.Submit(ctx, []broker.Append{data(t, "a", 0, "late")}).Wait(ctx)[0]
	if !errors.Is(r.Err, broker.ErrClock) || !errors.Is(r.Err, broker.ErrNotSent) {
		t.Errorf("produce: %v", r.Err)
	}
	if !errors.Is(b.Ready(), broker.ErrClock) || partition(t, b, "a", 0).Next != next {
		t.Errorf("ready: %v; next is %d, was %d", b.Ready(), partition(t, b, "a", 0).Next, next)
	}
}

func TestWritesWaitWhileTheStoreContradictsTheClock(t *testing.T) {
	c := &wrongClock{}
	c.store.Store(true)
	o := options(objstore.NewMemory())
	o.Clocks = c.show
	b := open(t, o)
	create(t, b, "a", 1)
	mustProduce(t, b, "a", 0, "right")
	last := b.LogTime().Last
	c.off.Store(int64(10 * 365 * 24 * time.Hour))
	waits(t, b)
	check.ErrorIsf(t, check.Err(b.ResetTime(context.Background())), broker.ErrClock, "reset by a wrong clock")
	c.off.Store(0)
	mustProduce(t, b, "a", 0, "right again")
	if now := b.LogTime().Last; !now.After(last) || now.Sub(last) > time.Hour {
		t.Errorf("the log's time is %v, was %v", now, last)
	}
}

// TestATimeThatIsInTheLog: the clock is ten years ahead for one commit, then right again.
func TestATimeThatIsInTheLog(t *testing.T) {
	store := objstore.NewMemory()
	c := &wrongClock{}
	o := options(store)
	o.Clocks = c.show
	b := open(t, o)
	create(t, b, "a", 1)
	kill(b)

	c.off.Store(int64(10 * 365 * 24 * time.Hour))
	b = open(t, o)
	waits(t, b)
	kill(b)
	o.AcceptClock = true
	b = open(t, o)
	mustProduce(t, b, "a", 0, "from the future")
	kill(b)

	c.off.Store(0)
	o.AcceptClock = false
	b = open(t, o)
	waits(t, b)
	was := b.LogTime()
	now, err := b.ResetTime(context.Background())
	if err != nil || !now.Last.Before(was.Last.AddDate(-9, 0, 0)) || now.Err != nil {
		t.Errorf("%+v, it was %+v: %v", now, was, err)
	}
	mustProduce(t, b, "a", 0, "right")
	again, err := b.ResetTime(context.Background())
	if err != nil || again.Last.Before(now.Last) {
		t.Errorf("a second reset: %+v, %v", again, err)
	}
	kill(b)
	b = open(t, o) // the reset is committed
	mustProduce(t, b, "a", 0, "right after a restart")
	if at := b.LogTime().Last; time.Until(at).Abs() > time.Hour {
		t.Errorf("the log's time is %v", at)
	}
	check.Equalf(t, partition(t, b, "a", 0).Next, 3, "next")
}
