package kafka_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// holder is a proxy that holds one request of a key, as a network may, although its client closes the connection.
type holder struct {
	t      *testing.T
	l      net.Listener
	target atomic.Pointer[string]
	key    atomic.Int32  // of the request to hold; -1: none
	held   chan struct{} // closed when there is one
	let    chan struct{} // closed to let it go
	over   chan struct{} // closed when the broker has answered it, or ended its connection
	wg     sync.WaitGroup
}

func newHolder(t *testing.T) *holder {
	h := &holder{
		t: t, l: must.Get(net.Listen("tcp", "127.0.0.1:0"))(t),
		held: make(chan struct{}), let: make(chan struct{}), over: make(chan struct{}),
	}
	h.key.Store(-1)
	t.Cleanup(h.wg.Wait)
	t.Cleanup(func() { _ = h.l.Close() })
	h.wg.Go(func() {
		for {
			c, err := h.l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", *h.target.Load())
			if err != nil {
				_ = c.Close()
				continue
			}
			h.wg.Go(func() { h.serve(c, up) })
		}
	})
	return h
}

func (h *holder) serve(c, up net.Conn) {
	answers := make(chan struct{}, 1) // there are some, or the broker has ended the connection
	h.wg.Go(func() {
		defer close(answers)
		for b := make([]byte, 4096); ; {
			n, err := up.Read(b)
			if err != nil {
				_ = c.Close()
				return
			}
			_, _ = c.Write(b[:n]) // the client may be gone
			select {
			case answers <- struct{}{}:
			default:
			}
		}
	})
	defer up.Close()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(c, size); err != nil {
			return
		}
		frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
		if _, err := io.ReadFull(c, frame[4:]); err != nil {
			return
		}
		key := int32(binary.BigEndian.Uint16(frame[4:]))
		if h.key.CompareAndSwap(key, -1) {
			close(h.held)
			<-h.let
			select {
			case <-answers: // of earlier requests
			default:
			}
			_, _ = up.Write(frame)
			<-answers
			close(h.over)
			return
		}
		if _, err := up.Write(frame); err != nil {
			return
		}
	}
}

// hold holds the next request of a key.
func (h *holder) hold(k kmsg.Key) { h.key.Store(int32(k)) }

// through is dial through the proxy.
func (h *holder) through() *raw { return dial(h.t, &served{addr: h.l.Addr().String()}) }

// TestLateEnd: an EndTxn that the network holds while its client times out, asks again on another connection and begins
// the next transaction ends nothing (Jepsen on Bufstream 0.1.0). In version 2 its epoch is old, in version 1 its
// connection.
func TestLateEnd(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("first %v commit %v", first, commit), func(t *testing.T) {
				h := newHolder(t)
				s := reachable(t, objstore.NewMemory(), kafka.Options{})
				h.target.Store(&s.addr)
				ref := topic(t, s.b, "t", broker.TopicSpec{})
				x := &txn{t: t, c: h.through(), id: "tx", first: first}
				must.Equal(t, x.init(), 0)
				x.begun("t")
				must.Equal(t, x.produce(ref, "one"), 0)
				h.hold(kmsg.EndTxn)
				x.c.send(x.ending(commit), x.endVersion())
				<-h.held
				_ = x.c.Close()

				x.c = h.through()
				must.Equal(t, x.end(commit), 0)
				x.begun("t")
				must.Equal(t, x.produce(ref, "two"), 0)
				close(h.let)
				s.asked(t, "EndTxn", 2)
				<-h.over
				check.Equalf(t, x.produce(ref, "three"), 0, "in the second transaction")
				check.Equalf(t, x.end(!commit), 0, "end of the second transaction")
				want := []string{"one"}
				if !commit {
					want = []string{"two", "three"}
				}
				check.EqualSlices(t, read(t, s.served, "t", len(want), kgo.ReadCommitted()), want)
				bounds := must.Get(s.b.Bounds(ref.ID, 0))(t)
				check.Equalf(t, bounds.Next, 5, "three records and two markers: next offset")
				check.Equalf(t, bounds.Stable, bounds.Next, "last stable offset")
			})
		}
	}
}

// endVersion is the version of EndTxn.
func (x *txn) endVersion() int16 {
	if x.first {
		return 4
	}
	return 5
}

// begun adds partition 0 of a topic to a transaction, if the version needs it.
func (x *txn) begun(topic string) {
	x.t.Helper()
	if x.first {
		must.EqualSlicesf(x.t, x.add(topic), []int16{0}, "added")
	}
}

// TestLateEndOfAClient is TestLateEnd for franz-go, which gives up the connection itself, and asks again.
func TestLateEndOfAClient(t *testing.T) {
	for name, opts := range versions {
		t.Run(name, func(t *testing.T) {
			h := newHolder(t)
			s := reachable(t, objstore.NewMemory(), kafka.Options{Advertised: h.l.Addr().String()})
			h.target.Store(&s.addr)
			topic(t, s.b, "t", broker.TopicSpec{})
			p := transactional(t, &served{addr: h.l.Addr().String()}, "tx", append(opts, kgo.RequestTimeoutOverhead(time.Second), kgo.RetryTimeout(time.Minute))...)
			must.NoError(t, p.BeginTransaction())
			must.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("one")}).FirstErr())
			h.hold(kmsg.EndTxn)
			err := p.EndTransaction(t.Context(), kgo.TryCommit)
			if err != nil { // it does not know the outcome
				t.Log(err)
				must.NoError(t, p.EndTransaction(t.Context(), kgo.TryAbort))
			}
			must.NoError(t, p.BeginTransaction())
			must.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("two")}).FirstErr())
			close(h.let)
			<-h.over
			must.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("three")}).FirstErr())
			must.NoError(t, p.EndTransaction(t.Context(), kgo.TryCommit))
			want := []string{"one", "two", "three"}
			if err != nil {
				want = want[1:]
			}
			check.EqualSlices(t, read(t, s.served, "t", len(want), kgo.ReadCommitted()), want)
		})
	}
}

// TestLateRequests: on a connection that its client has left, no request of version 1 is executed, and the connection
// ends. A client with two connections takes turns. Version 2 needs no order.
func TestLateRequests(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	for name, ask := range map[string]func(x *txn) int16{
		"AddPartitionsToTxn": func(x *txn) int16 { return x.add("t")[0] },
		"AddOffsetsToTxn":    func(x *txn) int16 { return x.addGroup("g") },
		"EndTxn":             func(x *txn) int16 { return x.end(true) },
	} {
		t.Run(name, func(t *testing.T) {
			old := newTxn(t, s.served, "late "+name, true)
			now := old.again(s.served)
			now.begun("t")
			must.Equal(t, now.produce(ref, "v"), 0)
			check.Equalf(t, ask(old), kerr.CoordinatorNotAvailable.Code, "on the old connection")
			old.c.ended()
			other := now.again(s.served)
			check.Equalf(t, ask(other), 0, "on a new one")
			check.Equalf(t, ask(now), kerr.CoordinatorNotAvailable.Code, "on the one between")
		})
	}
	old := newTxn(t, s.served, "second", false)
	now := old.again(s.served)
	must.Equal(t, now.end(false), 0)
	must.Equal(t, now.produce(ref, "v"), 0)
	old.pid, old.epoch = now.pid, now.epoch
	check.Equalf(t, old.end(true), 0, "version 2 on an old connection")
}

// TestLateStage: a TxnOffsetCommit of version 1 that the network holds while its client aborts on another connection
// and begins the next transaction brings no offsets into that one, although its group was added there, too. A client
// that has a connection to each coordinator is not refused.
func TestLateStage(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	topic(t, s.b, "t", broker.TopicSpec{})
	stages := func(x *txn, offset int64) int16 { return x.stage(x.staging(nil, offset), 3) }
	x := newTxn(t, s.served, "tx", true)
	must.Equal(t, x.addGroup("g"), 0)
	must.Equal(t, stages(x, 1), 0)
	must.Equal(t, x.end(true), 0)
	must.Equal(t, x.addGroup("g"), 0)
	now := x.again(s.served)
	must.Equal(t, now.end(false), 0)
	must.Equal(t, now.addGroup("g"), 0)
	check.Equalf(t, stages(x, 2), kerr.CoordinatorNotAvailable.Code, "on the old connection")
	x.c.ended()
	must.Equal(t, now.end(true), 0)
	offset, code := s.fetchOffset(true)
	check.Equalf(t, fmt.Sprint(offset, code), "1 0", "the offset")

	group := newTxn(t, s.served, "two", true)
	txn := group.again(s.served)
	for range 3 {
		must.Equal(t, txn.addGroup("g"), 0)
		check.Equalf(t, stages(group, 3), 0, "on an older connection to the coordinator of the group")
		must.Equal(t, txn.end(true), 0)
	}
}

// addGroup adds a group to a transaction of version 1.
func (x *txn) addGroup(name string) int16 {
	x.t.Helper()
	r := kmsg.NewPtrAddOffsetsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = x.id, x.pid, x.epoch, name
	return x.c.ask(r, 3).(*kmsg.AddOffsetsToTxnResponse).ErrorCode
}

// TestEndAfterTakeover: an EndTxn of version 1 on a connection from before the leadership is refused, because another
// leader may have seen later ones. On a new connection the transaction ends, although this leader has not seen what
// was added to it. A standby refuses everything about transactions, and names the coordinator.
func TestEndAfterTakeover(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("first ", first), func(t *testing.T) {
			c := newCrew(t, objstore.NewMemory(), 2)
			leader, standby := c.mates[0], c.mates[1]
			ref := topic(t, leader.b, "t", broker.TopicSpec{})
			x := newTxn(t, leader.served, "tx", first)
			x.begun("t")
			must.Equal(t, x.produce(ref, "one"), 0)

			old := x.again(standby.served)
			refusedByStandby(t, c, old)
			before := x.again(standby.served)
			check.Equalf(t, before.end(true), kerr.NotCoordinator.Code, "EndTxn")
			c.lead(standby)
			if first {
				check.Equalf(t, old.stage(old.staging(nil, 1), 4), kerr.CoordinatorNotAvailable.Code, "TxnOffsetCommit on an old connection")
				old.c.ended()
				check.Equalf(t, before.end(true), kerr.CoordinatorNotAvailable.Code, "on an old connection")
				before.c.ended()
				old = x.again(standby.served)
			}
			check.Equalf(t, old.produce(ref, "two"), 0, "Produce without AddPartitionsToTxn")
			check.Equalf(t, old.end(true), 0, "EndTxn")
			check.EqualSlices(t, read(t, standby.served, "t", 2, kgo.ReadCommitted()), []string{"one", "two"})
			if first {
				check.Equalf(t, old.produce(ref, "three"), kerr.InvalidTxnState.Code, "in the next transaction")
			}
		})
	}
}

// TestEndOnTheFirstConnection: a connection that a leader accepts is not from before its leadership, also if the
// goroutines of WhileLeading are late. Here they never run.
func TestEndOnTheFirstConnection(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), nil)
	b.EndWhileLeading()
	s := serve(t, b, kafka.Options{})
	ref := topic(t, b, "t", broker.TopicSpec{})
	x := newTxn(t, s, "tx", true)
	x.begun("t")
	must.Equal(t, x.produce(ref, "one"), 0)
	check.Equalf(t, x.end(true), 0, "EndTxn")
}

func refusedByStandby(t *testing.T, c *crew, x *txn) {
	t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorType = "tx", 1
	if got := x.c.ask(find, 3).(*kmsg.FindCoordinatorResponse); got.ErrorCode != 0 || fmt.Sprintf("%s:%d", got.Host, got.Port) != c.mates[0].addr {
		t.Errorf("%+v", got)
	}
	not := kerr.NotCoordinator.Code
	check.Equalf(t, x.end(true), not, "EndTxn")
	check.EqualSlicesf(t, x.add("t"), []int16{not}, "AddPartitionsToTxn")
	check.Equalf(t, x.addGroup("g"), not, "AddOffsetsToTxn")
	again := *x
	check.Equalf(t, again.init(), not, "InitProducerId")
	plain := x.c.ask(kmsg.NewPtrInitProducerIDRequest(), 4).(*kmsg.InitProducerIDResponse)
	check.Equalf(t, plain.ErrorCode, 0, "InitProducerId without a transactional ID")
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"tx"}
	check.Equalf(t, x.c.ask(describe, 0).(*kmsg.DescribeTransactionsResponse).TransactionStates[0].ErrorCode, not, "DescribeTransactions")
	check.Equalf(t, len(x.c.ask(kmsg.NewPtrListTransactionsRequest(), 0).(*kmsg.ListTransactionsResponse).TransactionStates), 0, "ListTransactions")
	features := x.c.ask(kmsg.NewPtrApiVersionsRequest(), 3).(*kmsg.ApiVersionsResponse)
	if f := features.FinalizedFeatures; len(f) != 1 || f[0].Name != "transaction.version" || f[0].MaxVersionLevel != 2 || features.FinalizedFeaturesEpoch < 0 {
		t.Errorf("features of a standby: %+v", features)
	}
}

// TestEmptyEndAfterTakeover: a transaction of version 1 without records ends on a leader that has not seen what was
// added to it. An abort after a commit may be about what is committed, so the client has to take the next epoch. In
// version 2 a client that has no records sends no commit.
func TestEmptyEndAfterTakeover(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for before, commitBefore := range map[string]bool{"none": false, "commit": true, "abort": false} {
			t.Run(fmt.Sprintf("commit %v before %s", commit, before), func(t *testing.T) {
				c := newCrew(t, objstore.NewMemory(), 2)
				ref := topic(t, c.mates[0].b, "t", broker.TopicSpec{})
				x := newTxn(t, c.mates[0].served, "tx", true)
				if before != "none" {
					x.begun("t")
					must.Equal(t, x.produce(ref, "one"), 0)
					must.Equal(t, x.end(commitBefore), 0)
				}
				x.begun("t")
				c.lead(c.mates[1])
				x = x.again(c.mates[1].served)
				want := int16(0)
				if before == "commit" && !commit {
					want = kerr.UnknownProducerID.Code
				}
				code := x.end(commit)
				if code == kerr.CoordinatorNotAvailable.Code { // the broker was not yet told of its leadership
					x = x.again(c.mates[1].served)
					code = x.end(commit)
				}
				check.Equalf(t, code, want, "EndTxn")
				check.Equalf(t, x.end(commit), want, "EndTxn again")
				if want != 0 {
					must.Equal(t, x.recover(), 0)
				}
				x.begun("t")
				check.Equalf(t, x.produce(ref, "two"), 0, "in the next transaction")
				check.Equalf(t, x.end(true), 0, "EndTxn of the next transaction")
			})
		}
	}
}

// TestManyTransactionalIDs: a leader that has seen thousands of transactional IDs remembers the connections of all that
// the log knows. A client of version 1 ends a transaction without records, and a late end is refused.
func TestManyTransactionalIDs(t *testing.T) {
	var ahead atomic.Int64
	began := time.Now()
	s := serve(t, openBroker(t, objstore.NewMemory(), func(o *broker.Options) {
		o.Batch.Wait = 0
		o.Clocks = func() log.Reading {
			mono := int64(time.Since(began)) + ahead.Load()
			return log.Reading{Mono: mono, Wall: began.UnixMicro() + mono/1000}
		}
	}), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	old := newTxn(t, s, "live", true)
	x := old.again(s)
	const clients = 9
	for round, others := range []int{999, 999, 2} { // the log knows 1,000, and the leader remembers 2,000
		ahead.Add(int64(16 * time.Minute)) // then the log forgets the IDs of the last round
		x.begun("t")
		must.Equal(t, x.produce(ref, "v"), 0)
		must.Equal(t, x.end(true), 0)
		x.begun("t") // without records
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				y := &txn{t: t, c: dial(t, s)}
				for n := i; n < others; n += clients {
					y.id = fmt.Sprint(round, "-", n)
					check.Equalf(t, y.init(), 0, "InitProducerId of %s", y.id)
				}
			})
		}
		all.Wait()
	}
	check.Equalf(t, x.end(true), 0, "EndTxn of a transaction without records")
	x.begun("t")
	must.Equal(t, x.produce(ref, "v"), 0)
	check.Equalf(t, old.end(true), kerr.CoordinatorNotAvailable.Code, "a late EndTxn")
	check.Equalf(t, x.end(false), 0, "EndTxn")
}
