package link_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// messages are messages of all kinds with all fields.
func messages(from cluster.Run) []cluster.Message {
	hand := cluster.Hand{ID: 1 << 63, Epoch: 7, Nonce: record.ID{5}, Pos: state.Position{Epoch: 7, Slot: 1 << 40}, PrevCRC: 1 << 31, Undrained: true}
	return []cluster.Message{
		{Kind: cluster.MsgBeat, Sent: 1, Beat: cluster.Beat{
			From: from, Leads: true, Epoch: 7, Nonce: record.ID{5}, Pos: state.Position{Epoch: 7, Slot: 9}, PosNonce: record.ID{6}, Loaded: true, StoreOK: true,
			Leaving: true, OtherKey: true, Level: 6, Committed: time.UnixMicro(1_700_000_000_000_001),
		}},
		{Kind: cluster.MsgBeat, Beat: cluster.Beat{From: from, Stands: true}},
		{Kind: cluster.MsgEcho, Sent: 1<<64 - 1},
		{Kind: cluster.MsgPrepare, Hand: hand},
		{Kind: cluster.MsgReady, Hand: cluster.Hand{ID: 3}},
		{Kind: cluster.MsgTake, Hand: hand},
		{Kind: cluster.MsgGoodbye},
		{Kind: cluster.MsgForgotten},
	}
}

func TestMessagesPassBothWays(t *testing.T) {
	a, b := two(t)
	for _, x := range []struct{ from, to *end }{{a, b}, {b, a}} {
		sent := messages(x.from.reg.Run)
		for i := range sent {
			if !x.from.net.Send(x.to.reg.Run, &sent[i]) {
				t.Fatalf("message %d of %s is not queued", i, x.from.reg.Name)
			}
		}
		for i := range sent {
			if got := x.to.want(link.Received, x.from.reg.Run); !reflect.DeepEqual(got.Message, sent[i]) {
				t.Errorf("sent %+v, received %+v", sent[i], got.Message)
			}
		}
	}
	if a.net.Send(cluster.Run{Node: record.ID{9}}, &cluster.Message{Kind: cluster.MsgEcho}) {
		t.Error("a message to an unknown run is queued")
	}
}

// TestBothEndsKnowTheOther: the run that is dialed reads the registration of the other.
func TestBothEndsKnowTheOther(t *testing.T) {
	store := objstore.NewMemory()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	a.net.Expect(&b.reg)
	for _, x := range []struct{ at, other *end }{{a, b}, {b, a}} {
		ev := x.at.want(link.Linked, x.other.reg.Run)
		if !reflect.DeepEqual(ev.Registration, x.other.reg) || ev.OtherKey || ev.OtherSecrets || x.at.net.Linked() != 1 {
			t.Errorf("%d links, %+v", x.at.net.Linked(), ev)
		}
	}
}

// TestTheLargerNodeDialsLater: the run with the smaller node does not know the other one.
func TestTheLargerNodeDialsLater(t *testing.T) {
	store := objstore.NewMemory()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, func(o *link.Options) { o.Times.Other = time.Millisecond })
	pair(t, b, a)
}

// TestBothDial: with dials in both directions at any time the ends agree on one link.
func TestBothDial(t *testing.T) {
	for range 20 {
		store := objstore.NewMemory()
		at := func(o *link.Options) { o.Times.Other = time.Nanosecond }
		a, b := newEnd(t, store, 1, at), newEnd(t, store, 2, at)
		a.net.Expect(&b.reg)
		b.net.Expect(&a.reg)
		passes(t, a, b)
		passes(t, b, a)
		a.net.Close(false)
		b.net.Close(false)
	}
}

func TestOtherKeysAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*link.Options)
		root, secrets bool
	}{
		"another root key":    {func(o *link.Options) { o.RootKey = []byte("another") }, true, false},
		"another secrets key": {func(o *link.Options) { o.SecretsKey = []byte("another") }, false, true},
		"no secrets key":      {func(o *link.Options) { o.SecretsKey = nil }, false, true},
		"keys exchanged":      {func(o *link.Options) { o.RootKey, o.SecretsKey = o.SecretsKey, o.RootKey }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := objstore.NewMemory()
			a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, c.change)
			a.net.Expect(&b.reg)
			for _, ev := range []link.Event{a.want(link.Linked, b.reg.Run), b.want(link.Linked, a.reg.Run)} {
				if ev.OtherKey != c.root || ev.OtherSecrets != c.secrets {
					t.Errorf("%+v", ev)
				}
			}
		})
	}
}

func TestGoodbye(t *testing.T) {
	a, b := two(t)
	b.net.Close(true)
	if got := a.want(link.Received, b.reg.Run); got.Message.Kind != cluster.MsgGoodbye {
		t.Errorf("received %+v", got.Message)
	}
	if ev := a.want(link.Ended, b.reg.Run); !ev.ByPeer {
		t.Errorf("%+v", ev)
	}
	if b.net.Send(a.reg.Run, &cluster.Message{Kind: cluster.MsgEcho}) {
		t.Error("a closed Net sends")
	}
	b.net.Close(true) // again
}

// TestTheEndByAPeer: FIN and RST are the end by the other side, and the run then refuses dials.
func TestTheEndByAPeer(t *testing.T) {
	for _, reset := range []bool{false, true} {
		store := objstore.NewMemory()
		b := newEnd(t, store, 2, nil)
		x := newProxy(t, b.reg.Addresses[0])
		a := newEnd(t, store, 1, func(o *link.Options) { o.Self.Addresses = nil }) // so b does not dial
		b.reg.Addresses = []string{x.listener.Addr().String()}
		pair(t, a, b)
		_ = x.listener.Close()
		x.cut(reset)
		if ev := a.want(link.Ended, b.reg.Run); !ev.ByPeer {
			t.Errorf("reset %v: %+v", reset, ev)
		}
		if ev := b.want(link.Ended, a.reg.Run); !ev.ByPeer {
			t.Errorf("reset %v, at the other end: %+v", reset, ev)
		}
		for range 2 {
			if ev := a.want(link.Refused, b.reg.Run); ev.Address != b.reg.Addresses[0] {
				t.Errorf("%+v", ev)
			}
		}
		a.net.Close(false)
		b.net.Close(false)
	}
}

// TestALinkReturns: after a cut the run dials again.
func TestALinkReturns(t *testing.T) {
	store := objstore.NewMemory()
	b := newEnd(t, store, 2, nil)
	x := newProxy(t, b.reg.Addresses[0])
	a := newEnd(t, store, 1, nil)
	b.reg.Addresses = []string{x.listener.Addr().String()}
	pair(t, a, b)
	x.cut(false)
	a.want(link.Ended, b.reg.Run)
	a.want(link.Linked, b.reg.Run)
	passes(t, a, b)
	passes(t, b, a)
}

// TestSilenceEndsALink: nothing arrives, because the network drops it. That is no end by the other side.
func TestSilenceEndsALink(t *testing.T) {
	store := objstore.NewMemory()
	quick := func(o *link.Options) { o.Times.Dead = 300 * time.Millisecond }
	a := newEnd(t, store, 1, quick)
	b := newEnd(t, store, 2, func(o *link.Options) { o.Times.Idle, o.Times.Dead = time.Hour, time.Hour })
	a.net.Expect(&b.reg)
	a.want(link.Linked, b.reg.Run)
	if ev := a.want(link.Ended, b.reg.Run); ev.ByPeer {
		t.Errorf("%+v", ev)
	}
}

// TestAnIdleLinkStays: without messages the ends still hear each other.
func TestAnIdleLinkStays(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	quick := func(o *link.Options) { o.Times.Idle, o.Times.Dead = 50*time.Millisecond, 3*time.Second }
	a, b := newEnd(t, store, 1, quick), newEnd(t, store, 2, quick)
	pair(t, a, b)
	select {
	case ev := <-a.events:
		t.Errorf("%+v", ev)
	case <-time.After(3500 * time.Millisecond):
	}
}

func TestFeed(t *testing.T) {
	a, b := two(t)
	at := state.Position{Epoch: 3, Slot: 4}
	prefix := bytes.Repeat([]byte("x"), link.SlotMax)
	a.net.Feed(at, prefix)
	prefix[0] = 'y' // it was copied
	if ev := b.want(link.Fed, a.reg.Run); ev.Pos != at || len(ev.Prefix) != link.SlotMax || ev.Prefix[0] != 'x' {
		t.Errorf("%+v", ev.Pos)
	}
	a.net.Feed(at, append(prefix, 'z'))
	if ev := b.want(link.Fed, a.reg.Run); ev.Pos != at || ev.Prefix != nil {
		t.Errorf("a slot of more than %d bytes: %+v", link.SlotMax, ev)
	}
}

// TestASlowReceiverDoesNotBlock: the sender never waits, and the receiver gets a notice of the newest
// slot, and later messages.
func TestASlowReceiverDoesNotBlock(t *testing.T) {
	store := objstore.NewMemory()
	slow := func(o *link.Options) { o.Times.Dead = timeout }
	a, b := newEnd(t, store, 1, slow), newEnd(t, store, 2, slow)
	pair(t, a, b)
	b.block = make(chan struct{})
	prefix := make([]byte, link.SlotMax)
	const slots = 1000 // 64 MB: more than the kernel and the queue take
	began := time.Now()
	for i := range uint64(slots) {
		a.net.Feed(state.Position{Epoch: 1, Slot: i}, prefix)
	}
	if took := time.Since(began); took > timeout/2 {
		t.Errorf("the sender waited for %s", took)
	}
	a.net.Send(b.reg.Run, &cluster.Message{Kind: cluster.MsgEcho, Sent: 5})
	close(b.block)
	whole, message := 0, -1
	for at := uint64(0); at < slots-1 || message < 0; {
		switch ev := b.next(); {
		case ev.Kind == link.Received && ev.Message.Sent == 5:
			message = whole
		case ev.Kind != link.Fed:
			t.Fatalf("%+v", ev)
		case ev.Prefix != nil && ev.Pos.Slot != at && at > 0:
			t.Fatalf("slot %d behind slot %d", ev.Pos.Slot, at)
		default:
			if at = ev.Pos.Slot + 1; ev.Prefix != nil {
				whole++
			}
			if ev.Pos.Slot == slots-1 {
				at = slots
			}
		}
	}
	if whole == 0 || whole > slots/2 || message == whole {
		t.Errorf("%d of %d slots arrived whole, and the message behind %d of them", whole, slots, message)
	}
}

// TestAnotherRunAnswers: at the address of a run its successor listens.
func TestAnotherRunAnswers(t *testing.T) {
	store := objstore.NewMemory()
	a, b, c := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil), newEnd(t, store, 3, nil)
	old, gone := b.reg, c.reg
	old.Run.ID, old.KeyHash = record.ID{7}, [32]byte{7}
	gone.Run.Node, gone.KeyHash = record.ID{8}, [32]byte{8} // of another data folder
	a.net.Expect(&gone)
	if ev := a.until(func(link.Event) bool { return true }); ev.Kind != link.Failed || ev.From != gone.Run {
		t.Errorf("the address is of another broker now: %+v", ev)
	}
	a.net.Forget(gone.Run)
	a.net.Expect(&old)
	if ev := a.until(func(ev link.Event) bool { return ev.From == old.Run }); ev.Kind != link.Replaced || ev.Other != b.reg.Run || ev.Address != b.reg.Addresses[0] {
		t.Errorf("%+v", ev)
	}
}

// TestEachMachineIsLocalhost: a broker that advertises localhost finds itself at the address of another one
// that does too, which proves nothing.
func TestEachMachineIsLocalhost(t *testing.T) {
	for name, kind := range map[string]link.EventKind{"localhost": link.Failed, "db1": link.Replaced} {
		t.Run(name, func(t *testing.T) {
			a := newEnd(t, objstore.NewMemory(), 1, func(o *link.Options) { o.Self.URL = "http://" + name + ":51313" })
			other := a.reg
			other.Run.Node = record.ID{9}
			a.net.Expect(&other)
			if ev := a.until(func(link.Event) bool { return true }); ev.Kind != kind {
				t.Errorf("%+v", ev)
			}
		})
	}
}

// TestOwnAddressIsSkipped: machines have equal addresses, such as those of container bridges.
func TestOwnAddressIsSkipped(t *testing.T) {
	store := objstore.NewMemory()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	b.reg.Addresses = append([]string{a.reg.Addresses[0]}, b.reg.Addresses...)
	pair(t, a, b)
	_ = b.server.Listener.Close()
	b.net.Close(false)
	a.want(link.Ended, b.reg.Run)
	if ev := a.want(link.Refused, b.reg.Run); ev.Address != b.reg.Addresses[1] {
		t.Errorf("%+v", ev)
	}
}

func TestExpectIgnores(t *testing.T) {
	a := newEnd(t, objstore.NewMemory(), 1, nil)
	own := a.reg
	own.Run.ID = record.ID{5}
	a.net.Expect(&own) // an earlier run of the data folder
	lonely := example(9, 9)
	lonely.Addresses = nil
	a.net.Expect(&lonely)
	a.net.Close(true)
	select {
	case ev := <-a.events:
		t.Errorf("%+v", ev)
	default:
	}
}

// TestForget: no event tells the end of a link that is not wanted, and the run may return.
func TestForget(t *testing.T) {
	a, b := two(t)
	a.net.Forget(b.reg.Run)
	b.want(link.Ended, a.reg.Run)
	b.want(link.Linked, a.reg.Run) // b dials
	a.want(link.Linked, b.reg.Run)
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := link.New(link.Options{})
	must.Error(t, err, "no error")
	contains(t, "error", err.Error(), "run is required", "key of the registration", "lookup is required")
}
