package queue

import (
	"math"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// TestGroupsTogether: a worker gets several messages of an ordered key at once. Others get the oldest ones that
// are left, up to the first that it still has, and what comes again comes in order.
func TestGroupsTogether(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.send(1, 2, 1, 1, 2, 1)
	groups := func(n int) []Given {
		b.look(math.MaxInt)
		given, _, err := b.LeaseGroups(b.now, n, 30e6, "w")
		must.NoError(t, err)
		b.store(nil)
		return given
	}
	first := groups(3)
	must.Equal(t, b.offsets(first), "[0 2 3]")
	second := groups(9)
	must.Equal(t, b.offsets(second), "[1 4]")
	must.Equal(t, b.offsets(groups(9)), "[]")
	must.NoError(t, b.settle(first[1], Verdict{Do: Retry}))
	b.store(nil)
	must.Equal(t, b.offsets(groups(9)), "[]") // the worker still has 0
	must.NoError(t, b.settle(first[0], Verdict{Do: Retry}))
	b.store(nil)
	again := groups(9)
	must.Equal(t, b.offsets(again), "[0 2]") // and 3, so that 5 waits
	must.NoError(t, b.settle(again[0], Verdict{Do: Finish}))
	must.NoError(t, b.settle(again[1], Verdict{Do: Finish}))
	b.store(nil)
	must.Equal(t, b.offsets(groups(9)), "[]")
	must.NoError(t, b.settle(first[2], Verdict{Do: Extend, Delay: 60e6}))
	b.store(nil)
	b.now += 31e6 // the leases of 1 and 4 are over
	must.Equal(t, b.offsets(groups(9)), "[1 4]")
	must.NoError(t, b.settle(first[2], Verdict{Do: Finish}))
	b.store(nil)
	must.Equal(t, b.offsets(groups(9)), "[5]")
}

// TestInTime: a verdict that must be in time counts while the worker has the message. A lease of an earlier leader
// counts until the message is given again, because this one may not know its end.
func TestInTime(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.send(1, 1, 1)
	late := Verdict{Do: Finish, InTime: true}
	must.NoError(t, b.settle(b.lease(1)[0], late))
	b.store(nil)
	given := b.lease(1)[0]
	b.now += 31e6
	must.Equal(t, b.settle(given, late), ErrStale)
	must.NoError(t, b.settle(given, Verdict{Do: Finish}))
	b.store(nil)
	_, err := b.Settle(b.now, &Receipt{ID{0, 2}, 1, 1}, late, "w", b.queue())
	must.NoError(t, err)
}

// TestFirst: the time of the first lease stays, unless that did not reach its worker.
func TestFirst(t *testing.T) {
	b := newBench(t)
	b.send(0)
	b.look(math.MaxInt)
	unsent, _, err := b.Lease(b.now, 1, 30e6, "w")
	must.NoError(t, err)
	b.Return(unsent, 0)
	b.now += 1e6
	first := b.now
	must.NoError(t, b.settle(b.lease(1)[0], Verdict{Do: Retry}))
	b.store(nil)
	b.now += 1e6
	must.Equal(t, b.lease(1)[0].First, first)
	b.now += 31e6
	must.Equal(t, b.lease(1)[0].First, first)
}

// TestGroupsWithANewLimit: messages of a key that a worker got together, before keys had a limit and a rate, do not
// keep the first of them from workers.
func TestGroupsWithANewLimit(t *testing.T) {
	before := newBench(t, "key-mode", "order")
	before.send(1, 1)
	before.look(math.MaxInt)
	given, _, err := before.LeaseGroups(before.now, 2, 30e6, "w")
	must.NoError(t, err)
	before.store(nil)
	must.Equal(t, before.offsets(given), "[0 1]")
	b := newBench(t, "key-mode", "order", "key-limit", "1", "key-rate", "1000")
	b.log = before.log
	b.send(1, 1)
	b.look(math.MaxInt)
	must.NoError(t, b.settle(given[0], Verdict{Do: Retry}))
	b.store(nil)
	must.Equal(t, b.offsets(b.lease(2)), "[0]")
}
