package contract

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
)

// processes runs a host and two guests on the system under one name, like processes of several
// machines: each guest sends to the subscribers of both, and only the host removes anything.
func (target *Target) processes(t *testing.T, shared bool) {
	if sut.Inside(target.Driver) {
		t.Skip("it is inside each process")
	}
	if shared && target.NoSharing {
		t.Skip("subscribers cannot share")
	}
	l := load{publishers: 2, subscribers: 2, messages: 200, bytes: small, partitions: 2, shared: shared}
	if shared {
		l.keys = 16
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	name := freshName()
	open := func(group sut.ProcessGroup) sut.System {
		c := target.Config
		c.Name, c.Partitions, c.PayloadBytes, c.Options, c.Group = name, l.partitions, l.bytes, maps.Clone(c.Options), &group
		if !group.Host {
			c.PID = 0 // the broker need not be on the guest's machine
		}
		s, err := sut.Open(ctx, target.Driver, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // it may be called again
			if err := s.Teardown(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("teardown: %v", err)
			}
		})
		if _, err := s.Setup(ctx); err != nil {
			t.Fatal(err)
		}
		return s
	}
	host := open(sut.ProcessGroup{Host: true, SubscribersAll: l.subscribers, Shared: shared})
	var guests []sut.System
	for i := range l.subscribers {
		guests = append(guests, open(sut.ProcessGroup{PublisherFirst: i, Subscribers: []int{i}, SubscribersAll: l.subscribers, Shared: shared}))
	}
	target.mingle(t, ctx, guests, l)
	for _, s := range append(slices.Clone(guests), host) {
		if err := s.Teardown(ctx); err != nil {
			t.Errorf("teardown: %v", err)
		}
	}
	if target.Left == nil {
		return
	}
	if left, err := target.Left(ctx, target.Config.Address, name); err != nil || len(left) > 0 {
		t.Errorf("left: %q, error %v", left, err)
	}
}

// mingle lets each guest send and receive, and requires every message to arrive everywhere.
func (*Target) mingle(t *testing.T, ctx context.Context, guests []sut.System, l load) {
	seen := newRecorder(l)
	receiveCtx, stop := context.WithCancel(ctx)
	defer stop()
	var subscribers []sut.Subscriber
	var publishers []sut.Publisher
	for _, s := range guests {
		b, err := s.Subscriber(ctx, l.shared)
		if err != nil {
			t.Fatal(err)
		}
		subscribers = append(subscribers, b)
	}
	for _, s := range guests {
		p, err := s.Publisher(ctx)
		if err != nil {
			t.Fatal(err)
		}
		publishers = append(publishers, p)
	}
	var receiving, publishing sync.WaitGroup
	for i, b := range subscribers {
		receiving.Go(func() {
			if err := b.Receive(receiveCtx, func(payload []byte) { seen.add(i, payload) }); err != nil {
				t.Errorf("subscriber %d: %v", i, err)
			}
		})
	}
	for i, p := range publishers {
		publishing.Go(func() { publish(t, ctx, p, i, l) })
	}
	publishing.Wait()
	seen.wait(t, ctx)
	stop()
	receiving.Wait()
	for i, b := range subscribers {
		if err := b.Close(); err != nil {
			t.Errorf("close subscriber %d: %v", i, err)
		}
	}
	seen.check(t)
}
