package drivers_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// subject is a tested system.
type subject struct {
	driver string
	config sut.Config // the tests set its Name, Partitions and PayloadBytes
	// left lists what remains of a run's name in the system after its teardown; nil: nothing can
	// remain.
	left      func(ctx context.Context, address, name string) ([]string, error)
	noSharing bool // shared subscribers are refused
	// victim starts a system of the same kind, and returns a function that kills it. nil: not
	// possible.
	victim func(t *testing.T) (c sut.Config, kill func())
}

const (
	timeout  = 2 * time.Minute // for a whole test
	leakWait = 5 * time.Second
	small    = 1 << 10
	large    = 1 << 20
)

// contract runs the contract's tests: the promises of package sut on publishers and subscribers.
func (target *subject) contract(t *testing.T) {
	t.Run("an unknown option is refused", target.refusal)
	for _, c := range []load{
		{name: "1 B", publishers: 1, subscribers: 2, messages: 200, bytes: 1},
		{name: "1 KiB from several publishers", publishers: 3, subscribers: 2, messages: 400, bytes: small},
		{name: "1 MiB from several publishers", publishers: 2, subscribers: 2, messages: 8, bytes: large},
		{name: "in batches", publishers: 2, subscribers: 1, messages: 200, bytes: small, batch: 50},
		{name: "batches over partitions", publishers: 1, subscribers: 1, messages: 200, bytes: small, partitions: 3, keys: 7, batch: 50},
		{name: "keys over partitions", publishers: 2, subscribers: 1, messages: 200, bytes: small, partitions: 3, keys: 7},
		{name: "shared", publishers: 2, subscribers: 2, messages: 200, bytes: small, partitions: 2, keys: 16, shared: true},
	} {
		t.Run("every message arrives once, intact and in order: "+c.name, func(t *testing.T) { target.deliver(t, c) })
	}
	t.Run("a subscriber gets messages sent after it subscribed", target.fromNowOn)
	t.Run("several processes use it", func(t *testing.T) { target.processes(t, false) })
	t.Run("several processes share it", func(t *testing.T) { target.processes(t, true) })
	t.Run("messages in flight are done when the publisher's time is over", target.impatience)
	t.Run("teardown removes everything that a run created", target.removal)
	t.Run("a broker that dies", target.death)
}

// load is a run of the contract.
type load struct {
	name                    string
	publishers, subscribers int
	messages, bytes         int // of each publisher
	partitions, keys        int
	batch                   int
	shared                  bool
}

// named returns a configuration with a new name.
func (target *subject) named(partitions, bytes int) sut.Config {
	c := target.config
	c.Name, c.Partitions, c.PayloadBytes = "contract-"+strings.ToLower(rand.Text()[:12]), max(partitions, 1), bytes
	return c
}

// open opens and sets up a system, which is torn down with the test. It checks for leaked
// goroutines. broken means that the test breaks the system.
func (target *subject) open(t *testing.T, c sut.Config, broken bool) (context.Context, sut.System) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	c.Options = maps.Clone(c.Options)
	s := must.Get(sut.Open(ctx, target.driver, c))(t)
	t.Cleanup(func() {
		cancel()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := s.Teardown(ctx); err != nil && !broken { // it may be called again
			t.Errorf("teardown: %v", err)
		}
		err := goleak.Find(before)
		// Some clients end slightly later.
		for ends := time.Now().Add(leakWait); err != nil && time.Now().Before(ends); {
			err = goleak.Find(before)
		}
		check.NoErrorf(t, err, "after teardown")
	})
	info := must.Get(s.Setup(ctx))(t)
	if c.Creates() && (info.System == "" || info.Ack == "" || info.Durability == "") {
		t.Errorf("system, acknowledgement or durability are missing: %+v", info)
	}
	return ctx, s
}

func (target *subject) refusal(t *testing.T) {
	c := target.named(1, small)
	c.Options = map[string]string{"no-such-option": "1"}
	maps.Copy(c.Options, target.config.Options)
	s, err := sut.Open(t.Context(), target.driver, c)
	if err == nil {
		t.Fatal("accepted", s.Teardown(t.Context()))
	}
	check.Containsf(t, err.Error(), `"no-such-option"`, "the error does not name the option: %v", err)
}

func (target *subject) deliver(t *testing.T, l load) {
	c := target.named(l.partitions, l.bytes)
	c.Batch = l.batch
	ctx, s := target.open(t, c, false)
	if l.shared && target.noSharing {
		if b, err := s.Subscriber(ctx, true); err == nil {
			t.Errorf("a subscriber that shares is not refused: %v", b.Close())
		}
		return
	}
	target.exchange(t, ctx, slices.Repeat([]sut.System{s}, l.subscribers), slices.Repeat([]sut.System{s}, l.publishers), l)
}

// exchange opens a subscriber of each receiver and a publisher of each sender. It requires every
// message to arrive everywhere.
func (*subject) exchange(t *testing.T, ctx context.Context, receivers, senders []sut.System, l load) {
	t.Helper()
	seen := newRecorder(l)
	stop := subscribe(t, ctx, receivers, l.shared, seen)
	var publishing sync.WaitGroup
	for p, s := range senders {
		pub := must.Get(s.Publisher(ctx))(t)
		publishing.Go(func() { publish(t, ctx, pub, p, l) })
	}
	publishing.Wait()
	seen.wait(t, ctx)
	stop(nil)
	seen.check(t)
}

// subscribe opens a subscriber of each system. They receive into seen until stop is called with the
// expected error of Receive.
func subscribe(t *testing.T, ctx context.Context, systems []sut.System, shared bool, seen *recorder) (stop func(want error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var list []sut.Subscriber
	for _, s := range systems {
		b := must.Get(s.Subscriber(ctx, shared))(t)
		list = append(list, b)
	}
	faults := make([]error, len(list))
	var receiving sync.WaitGroup
	for i, b := range list {
		receiving.Go(func() { faults[i] = b.Receive(ctx, func(payload []byte) { seen.add(i, payload) }) })
	}
	return func(want error) {
		if want == nil {
			cancel()
		}
		receiving.Wait()
		cancel()
		for i, b := range list {
			check.Equalf(t, faults[i] == nil, want == nil, "subscriber %d: Receive returned %v", i, faults[i])
			if err := b.Close(); err != nil && want == nil {
				t.Errorf("close subscriber %d: %v", i, err)
			}
		}
	}
}

// publish sends the messages of publisher p in buffers that are overwritten after they are
// returned.
func publish(t *testing.T, ctx context.Context, pub sut.Publisher, p int, l load) {
	dones := newDones(l.messages)
	for i := range l.messages {
		payload := payloadOf(p, i, l.bytes)
		pub.Publish(ctx, keyOf(p, i, l), payload, func(err error) {
			clear(payload)
			dones.add(i, err)
		})
	}
	check.NoErrorf(t, pub.Close(ctx), "close publisher %d", p)
	once, failed := dones.counts(t)
	if once != l.messages || failed != nil {
		t.Errorf("publisher %d: %d of %d messages are done after Close: %v", p, once, l.messages, failed)
	}
}

func keyOf(p, i int, l load) []byte {
	if l.keys == 0 {
		return nil
	}
	return fmt.Appendf(nil, "%d-%d", p, i%l.keys)
}

// dones counts the calls of done by message.
type dones struct {
	mu    sync.Mutex // guards the fields below
	calls []int
	last  error // one of them
	fails int
}

func newDones(n int) *dones { return &dones{calls: make([]int, n)} }

func (d *dones) add(i int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[i]++
	if err != nil {
		d.last = err
		d.fails++
	}
}

// failed returns the number of messages done with an error.
func (d *dones) failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fails
}

// counts returns the number of done messages and the last error. It checks that none was done
// twice.
func (d *dones) counts(t *testing.T) (done int, last error) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, n := range d.calls {
		if n > 0 {
			done++
		}
		if n > 1 {
			t.Errorf("message %d was done %d times", i, n)
		}
	}
	return done, d.last
}

func (target *subject) fromNowOn(t *testing.T) {
	l := load{publishers: 1, subscribers: 1, messages: 20, bytes: small}
	ctx, s := target.open(t, target.named(1, small), false)
	for p := 7; p >= 0; p -= 7 { // publisher 7 before the subscriber, publisher 0 after it
		pub := must.Get(s.Publisher(ctx))(t)
		if p == 7 {
			publish(t, ctx, pub, p, l)
			continue
		}
		seen := newRecorder(l)
		stop := subscribe(t, ctx, []sut.System{s}, false, seen)
		publish(t, ctx, pub, p, l)
		seen.wait(t, ctx)
		stop(nil)
		seen.check(t)
	}
}

func (target *subject) impatience(t *testing.T) {
	ctx, s := target.open(t, target.named(1, small), false)
	pub := must.Get(s.Publisher(ctx))(t)
	const n = 100
	dones := newDones(n)
	for i := range n {
		pub.Publish(ctx, nil, payloadOf(0, i, small), func(err error) { dones.add(i, err) })
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = pub.Close(over) // it may have had enough time
	if done, _ := dones.counts(t); done != n {
		t.Errorf("%d of %d messages are done", done, n)
	}
}

func (target *subject) removal(t *testing.T) {
	if target.left == nil {
		t.Skip("the system ends with its process")
	}
	c := target.named(2, small)
	ctx, s := target.open(t, c, false)
	var stops []func(error)
	l := load{publishers: 1, subscribers: 2, messages: 10, bytes: small}
	seen := newRecorder(l)
	stops = append(stops, subscribe(t, ctx, []sut.System{s, s}, false, seen))
	if !target.noSharing {
		stops = append(stops, subscribe(t, ctx, []sut.System{s, s}, true, newRecorder(l)))
	}
	pub := must.Get(s.Publisher(ctx))(t)
	publish(t, ctx, pub, 0, l)
	seen.wait(t, ctx)
	for _, stop := range stops {
		stop(nil)
	}
	must.NoError(t, s.Teardown(ctx))
	target.nothingLeft(t, ctx, c.Name)
}

func (target *subject) nothingLeft(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if left, err := target.left(ctx, target.config.Address, name); err != nil || len(left) > 0 {
		t.Errorf("left: %q, error %v", left, err)
	}
}

// processes runs a host and two guests on the system under one name, like processes of several
// machines: each guest sends to the subscribers of both, and only the host removes anything.
func (target *subject) processes(t *testing.T, shared bool) {
	if sut.Inside(target.driver) {
		t.Skip("it is inside each process")
	}
	if shared && target.noSharing {
		t.Skip("subscribers cannot share")
	}
	l := load{publishers: 2, subscribers: 2, messages: 200, bytes: small, partitions: 2, shared: shared}
	if shared {
		l.keys = 16
	}
	c := target.named(l.partitions, l.bytes)
	open := func(group sut.ProcessGroup) (context.Context, sut.System) {
		c := c
		c.Group = &group
		if !group.Host {
			c.PID = 0 // the broker need not be on the guest's machine
		}
		return target.open(t, c, false)
	}
	ctx, host := open(sut.ProcessGroup{Host: true, SubscribersAll: l.subscribers, Shared: shared})
	var guests []sut.System
	for i := range l.subscribers {
		_, s := open(sut.ProcessGroup{PublisherFirst: i, Subscribers: []int{i}, SubscribersAll: l.subscribers, Shared: shared})
		guests = append(guests, s)
	}
	target.exchange(t, ctx, guests, guests, l)
	for _, s := range append(slices.Clone(guests), host) {
		check.NoErrorf(t, s.Teardown(ctx), "teardown")
	}
	if target.left != nil {
		target.nothingLeft(t, ctx, c.Name)
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

func (target *subject) death(t *testing.T) {
	if target.victim == nil {
		t.Skip("no broker of this kind may be killed here")
	}
	c := target.named(1, small)
	victim, kill := target.victim(t)
	c.Address, c.Options, c.PID = victim.Address, victim.Options, victim.PID
	ctx, s := target.open(t, c, true)
	seen := newRecorder(load{publishers: 1, subscribers: 1, messages: deathMessages, bytes: small})
	stop := subscribe(t, ctx, []sut.System{s}, false, seen)
	pub := must.Get(s.Publisher(ctx))(t)
	dones := newDones(deathMessages)
	sent := 0
	send := func(n int) {
		for range n {
			i := sent
			sent++
			pub.Publish(ctx, nil, payloadOf(0, i, small), func(err error) { dones.add(i, err) })
		}
	}
	send(deathBurst)
	seen.some(t, ctx)
	send(deathBurst)
	kill()
	send(deathBurst) // a replaced broker detects it at a write
	stop(errAny)     // Receive returns an error by itself
	// A publisher without an error from the broker detects the end of its connection.
	for ends := time.Now().Add(deathWait); sent < deathMessages && dones.failed() == 0 && time.Now().Before(ends); {
		send(1)
	}
	within, cancel := context.WithTimeout(ctx, deathWait)
	defer cancel()
	_ = pub.Close(within) // with or without an error
	done, failed := dones.counts(t)
	if done != sent || failed == nil {
		t.Errorf("%d of %d messages are done, one of them with the error: %v", done, sent, failed)
	}
	t.Logf("%d of %d messages failed: %v", dones.failed(), sent, failed)
	torn, cancelTorn := context.WithTimeout(ctx, deathWait)
	defer cancelTorn()
	if err := s.Teardown(torn); err != nil {
		t.Logf("teardown without a broker: %v", err)
	}
}

const (
	deathMessages = 20_000 // most of them until the end of the connection is detected
	deathBurst    = 200
	deathWait     = 5 * time.Second
)
