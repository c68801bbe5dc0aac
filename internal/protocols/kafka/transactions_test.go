package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// versions are clients of both versions of transactions.
var versions = map[string][]kgo.Opt{
	"version 2": nil,
	"version 1": {kgo.MaxVersions(kversion.V3_9_0())},
}

// reachable is start with an address that clients can use.
func reachable(t testing.TB, store objstore.Store, o kafka.Options) *server {
	t.Helper()
	b := openBroker(t, store, nil)
	o.Groups = coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	t.Cleanup(o.Groups.Close)
	return &server{served: serve(t, b, o), t: t, c: o.Groups}
}

// transactional is a client with a transactional ID.
func transactional(t testing.TB, s *served, id string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, s, append([]kgo.Opt{
		kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	}, opts...)...)
}

// transact produces values to topics, "topic value", and ends the transaction.
func transact(t testing.TB, p *kgo.Client, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	ctx := t.Context()
	must.NoError(t, p.BeginTransaction())
	for _, v := range values {
		var topic, value string
		must.Get(fmt.Sscan(v, &topic, &value))(t)
		must.NoErrorf(t, p.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(), "%s", v)
	}
	must.NoError(t, p.EndTransaction(ctx, end))
}

// read reads n records of a topic.
func read(t testing.TB, s *served, topic string, n int, level kgo.IsolationLevel) (list []string) {
	t.Helper()
	c := client(t, s, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for _, r := range consume(t, c, n) {
		list = append(list, string(r.Value))
	}
	return list
}

// TestTransactions: a reader of committed records gets those of committed transactions over two topics, and no
// others; a reader of uncommitted ones gets all. The end offsets are those of the isolation.
func TestTransactions(t *testing.T) {
	for name, opts := range versions {
		t.Run(name, func(t *testing.T) {
			s := reachable(t, objstore.NewMemory(), kafka.Options{})
			for _, name := range []string{"t", "u"} {
				topic(t, s.b, name, broker.TopicSpec{})
			}
			p := transactional(t, s.served, "tx", opts...)
			transact(t, p, kgo.TryCommit, "t a", "u a", "t b")
			transact(t, p, kgo.TryAbort, "t c", "u c")
			transact(t, p, kgo.TryCommit) // an empty one
			transact(t, p, kgo.TryAbort)
			transact(t, p, kgo.TryCommit, "t d")
			must.NoError(t, p.BeginTransaction())
			must.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("e")}).FirstErr())

			a := admin(t, s.served)
			open := must.Get(a.ListEndOffsets(t.Context(), "t"))(t)["t"][0].Offset
			stable := must.Get(a.ListCommittedOffsets(t.Context(), "t"))(t)["t"][0].Offset
			check.Equalf(t, open-stable, 1, "end offsets %d and %d: records of open transactions", open, stable)
			check.EqualSlices(t, read(t, s.served, "t", 5, kgo.ReadUncommitted()), []string{"a", "b", "c", "d", "e"})
			check.EqualSlices(t, read(t, s.served, "t", 3, kgo.ReadCommitted()), []string{"a", "b", "d"})
			must.NoError(t, p.EndTransaction(t.Context(), kgo.TryCommit))
			check.EqualSlices(t, read(t, s.served, "t", 4, kgo.ReadCommitted()), []string{"a", "b", "d", "e"})
			check.EqualSlices(t, read(t, s.served, "u", 1, kgo.ReadCommitted()), []string{"a"})
			epoch := must.Get(a.DescribeTransactions(t.Context(), "tx"))(t)["tx"].ProducerEpoch
			check.Equalf(t, epoch > 0, opts == nil, "epoch %d: raised by each transaction", epoch)
		})
	}
}

// TestOffsetsInTransactions: offsets that a transaction commits become the group's with its records. Until then a
// client that requires stable offsets gets an error.
func TestOffsetsInTransactions(t *testing.T) {
	for name, opts := range versions {
		t.Run(name, func(t *testing.T) {
			s := reachable(t, objstore.NewMemory(), kafka.Options{})
			for _, name := range []string{"in", "out"} {
				topic(t, s.b, name, broker.TopicSpec{})
			}
			in := client(t, s.served)
			for i := range 4 {
				must.NoError(t, in.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte{'a' + byte(i)}}).FirstErr())
			}
			session := must.Get(kgo.NewGroupTransactSession(sessionOptions(s, opts)...))(t)
			defer session.Close()
			for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
				must.NoError(t, session.Begin())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				f := session.PollFetches(ctx)
				cancel()
				must.Equalf(t, f.NumRecords(), 4, "%v", f.Err())
				for _, r := range f.Records() {
					must.NoError(t, session.ProduceSync(t.Context(), &kgo.Record{Topic: "out", Value: r.Value}).FirstErr())
				}
				committed := must.Get(session.End(t.Context(), end))(t)
				check.Equalf(t, committed, bool(end), "committed")
			}
			check.EqualSlices(t, read(t, s.served, "out", 4, kgo.ReadCommitted()), []string{"a", "b", "c", "d"})
			got := must.Get(admin(t, s.served).FetchOffsets(t.Context(), "g"))(t)
			check.Equalf(t, got["in"][0].At, 4, "offset of the group")
		})
	}
}

func sessionOptions(s *server, opts []kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(s.addr), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()), kgo.TransactionalID("tx"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)
}

// txn sends requests about the transactions of one producer, of a version of transactions.
type txn struct {
	t     *testing.T
	c     *raw
	id    string
	pid   int64
	epoch int16
	first bool // version 1
	next  map[string]int32
}

// begin gets a producer for a transactional ID.
func (x *txn) init() int16 {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = &x.id, 60_000
	got := x.c.ask(r, 5).(*kmsg.InitProducerIDResponse)
	x.pid, x.epoch, x.next = got.ProducerID, got.ProducerEpoch, map[string]int32{}
	return got.ErrorCode
}

// recover raises the epoch of the producer (KIP-360).
func (x *txn) recover() int16 {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &x.id, 60_000, x.pid, x.epoch
	got := x.c.ask(r, 4).(*kmsg.InitProducerIDResponse)
	x.epoch, x.next = got.ProducerEpoch, map[string]int32{}
	return got.ErrorCode
}

func newTxn(t *testing.T, s *served, id string, first bool) *txn {
	t.Helper()
	x := &txn{t: t, c: dial(t, s), id: id, first: first}
	must.Equal(t, x.init(), 0)
	return x
}

// again is the same producer on another connection.
func (x *txn) again(s *served) *txn {
	x.t.Helper()
	y := *x
	y.c = dial(x.t, s)
	return &y
}

func (x *txn) end(commit bool) int16 {
	x.t.Helper()
	version := int16(5)
	if x.first {
		version = 4
	}
	got := x.c.ask(x.ending(commit), version).(*kmsg.EndTxnResponse)
	if version == 5 && got.ErrorCode == 0 {
		x.pid, x.epoch, x.next = got.ProducerID, got.ProducerEpoch, map[string]int32{}
	}
	return got.ErrorCode
}

func (x *txn) ending(commit bool) *kmsg.EndTxnRequest {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = x.id, x.pid, x.epoch, commit
	return r
}

// add adds partition 0 of topics to a transaction of version 1.
func (x *txn) add(topics ...string) (codes []int16) {
	x.t.Helper()
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = x.id, x.pid, x.epoch
	for _, name := range topics {
		r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{0}})
	}
	for _, topic := range x.c.ask(r, 3).(*kmsg.AddPartitionsToTxnResponse).Topics {
		codes = append(codes, topic.Partitions[0].ErrorCode)
	}
	return codes
}

// produce writes a value to partition 0 of a topic.
func (x *txn) produce(ref broker.TopicRef, value string) int16 {
	x.t.Helper()
	version := int16(12)
	if x.first {
		version = 9
	}
	r := produceRequest(ref, -1, ofTransaction(batch(x.t, &record.Producer{ID: x.pid, Epoch: x.epoch, Sequence: x.next[ref.Name]}, value)))
	r.TransactionID = &x.id
	code := produced(x.c.ask(r, version)).ErrorCode
	if code == 0 {
		x.next[ref.Name]++
	}
	return code
}

// TestRetriedEnds: a repeated EndTxn gets the same answer, and one with the other outcome INVALID_TXN_STATE.
func TestRetriedEnds(t *testing.T) {
	for _, first := range []bool{false, true} {
		for _, commit := range []bool{false, true} {
			t.Run(fmt.Sprintf("first %v commit %v", first, commit), func(t *testing.T) {
				s := reachable(t, objstore.NewMemory(), kafka.Options{})
				ref := topic(t, s.b, "t", broker.TopicSpec{})
				x := newTxn(t, s.served, "tx", first)
				if first {
					must.EqualSlicesf(t, x.add("t"), []int16{0}, "added")
				}
				must.Equal(t, x.produce(ref, "v"), 0)
				was := *x
				must.Equal(t, x.end(commit), 0)
				check.Equalf(t, x.epoch != was.epoch, !first, "epoch %d after %d: raised", x.epoch, was.epoch)
				again := was
				check.Equalf(t, again.end(commit), 0, "the same end again")
				check.Equalf(t, [2]int64{again.pid, int64(again.epoch)}, [2]int64{x.pid, int64(x.epoch)}, "the producer of the repetition")
				other := was
				check.Equalf(t, other.end(!commit), kerr.InvalidTxnState.Code, "the other end")
			})
		}
	}
}

// TestEmptyTransactions: a transaction of version 1 to which partitions were added, but no records, ends as its client
// says, whatever the one before did; one to which nothing was added does not.
func TestEmptyTransactions(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	x := newTxn(t, s.served, "tx", true)
	check.Equalf(t, x.end(true), kerr.InvalidTxnState.Code, "nothing was added")
	for _, commit := range []bool{true, false} {
		must.EqualSlicesf(t, x.add("t"), []int16{0}, "added")
		must.Equal(t, x.produce(ref, "v"), 0)
		must.Equal(t, x.end(commit), 0)
		must.EqualSlicesf(t, x.add("t"), []int16{0}, "added")
		check.Equalf(t, x.end(!commit), 0, "an empty one after one with commit %v", commit)
		check.Equalf(t, x.end(!commit), 0, "the same end again")
		check.Equalf(t, x.end(commit), kerr.InvalidTxnState.Code, "the other end")
	}
	y := newTxn(t, s.served, "ty", false)
	epoch := y.epoch
	check.Equalf(t, y.end(false), 0, "an empty abort of version 2")
	check.Equalf(t, y.epoch, epoch+1, "its epoch")
	check.Equalf(t, y.end(true), kerr.InvalidTxnState.Code, "an empty commit of version 2")
}

// TestAddedPartitions: a batch of version 1 needs a partition that was added; an unknown one adds none.
func TestAddedPartitions(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref, other := topic(t, s.b, "t", broker.TopicSpec{}), topic(t, s.b, "u", broker.TopicSpec{})
	x := newTxn(t, s.served, "tx", true)
	check.EqualSlices(t, x.add("t", "missing"), []int16{kerr.OperationNotAttempted.Code, kerr.UnknownTopicOrPartition.Code})
	check.Equal(t, x.produce(ref, "v"), kerr.InvalidTxnState.Code)
	must.EqualSlicesf(t, x.add("t"), []int16{0}, "added")
	check.Equal(t, x.produce(ref, "v"), 0)
	check.Equal(t, x.produce(other, "v"), kerr.InvalidTxnState.Code)
	r := produceRequest(other, -1, ofTransaction(batch(t, &record.Producer{ID: x.pid}, "v")))
	r.TransactionID = &x.id
	check.Equalf(t, produced(x.c.ask(r, 11)).ErrorCode, kerr.TransactionAbortable.Code, "in v11")
	check.Equalf(t, produced(x.c.ask(r, 12)).ErrorCode, 0, "in v12")
	must.Equal(t, x.end(true), 0)
	check.Equalf(t, x.produce(ref, "v"), kerr.InvalidTxnState.Code, "in the next transaction")
	if n := read(t, s.served, "t", 1, kgo.ReadCommitted()); len(n) != 1 {
		t.Errorf("%v", n)
	}
}

// TestFencing: a client that takes a transactional ID fences the one before, with the codes that each version knows,
// and aborts its transaction.
func TestFencing(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	old := newTxn(t, s.served, "tx", true)
	must.EqualSlicesf(t, old.add("t"), []int16{0}, "added")
	must.Equal(t, old.produce(ref, "old"), 0)
	now := newTxn(t, s.served, "tx", false)
	must.Equal(t, now.pid, old.pid)
	must.Equal(t, now.epoch, old.epoch+1)
	check.Equalf(t, old.produce(ref, "old"), kerr.InvalidProducerEpoch.Code, "Produce")
	check.EqualSlices(t, old.add("t"), []int16{kerr.ProducerFenced.Code})
	check.Equalf(t, old.c.ask(old.ending(true), 1).(*kmsg.EndTxnResponse).ErrorCode, kerr.InvalidProducerEpoch.Code, "EndTxn v1")
	check.Equalf(t, old.end(true), kerr.ProducerFenced.Code, "EndTxn")
	must.Equal(t, now.produce(ref, "new"), 0)
	must.Equal(t, now.end(true), 0)
	check.EqualSlices(t, read(t, s.served, "t", 1, kgo.ReadCommitted()), []string{"new"})

	stranger := *now
	stranger.pid += 5
	check.Equalf(t, stranger.end(true), kerr.InvalidProducerIDMapping.Code, "another producer ID")
	check.Equalf(t, stranger.produce(ref, "v"), kerr.InvalidProducerIDMapping.Code, "Produce of another producer ID")
	stranger.id = "unknown"
	check.Equalf(t, stranger.end(true), kerr.InvalidProducerIDMapping.Code, "another transactional ID")

	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &now.id, 60_000, old.pid, old.epoch
	check.Equalf(t, now.c.ask(r, 3).(*kmsg.InitProducerIDResponse).ErrorCode, kerr.InvalidProducerEpoch.Code, "InitProducerId v3 of an old epoch")
	check.Equalf(t, now.c.ask(r, 4).(*kmsg.InitProducerIDResponse).ErrorCode, kerr.ProducerFenced.Code, "InitProducerId v4 of an old epoch")
	r.ProducerID, r.ProducerEpoch = now.pid, now.epoch
	got := now.c.ask(r, 4).(*kmsg.InitProducerIDResponse)
	check.Equalf(t, got.ErrorCode, 0, "InitProducerId of the present epoch")
	check.Equalf(t, got.ProducerEpoch, now.epoch+1, "its epoch")
	for _, millis := range []int32{0, -1, 15*60_000 + 1} {
		r.TransactionTimeoutMillis = millis
		check.Equalf(t, now.c.ask(r, 4).(*kmsg.InitProducerIDResponse).ErrorCode, kerr.InvalidTransactionTimeout.Code, "a timeout of %d ms", millis)
	}
}

// TestAbortedByOperator: `kafka-transactions.sh` lists, describes and aborts a transaction. Its client gets
// INVALID_PRODUCER_EPOCH, and raises its epoch (KIP-360).
func TestAbortedByOperator(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{Partitions: 2})
	x := newTxn(t, s.served, "tx", false)
	idle := newTxn(t, s.served, "idle", false)
	must.Equal(t, x.produce(ref, "v"), 0)
	a, ctx := admin(t, s.served), t.Context()
	listed := must.Get(a.ListTransactions(ctx, nil, nil))(t)
	check.Equal(t, fmt.Sprint(listed["tx"].State, listed["tx"].ProducerID == x.pid, listed["idle"].State), "OngoingtrueEmpty")
	check.Equalf(t, len(must.Get(a.ListTransactions(ctx, nil, []string{"Ongoing"}))(t)), 1, "with a state")
	check.Equalf(t, len(must.Get(a.ListTransactions(ctx, []int64{idle.pid}, nil))(t)), 1, "of a producer")
	listsFiltered(t, x.c)
	described := must.Get(a.DescribeTransactions(ctx, "tx", "none"))(t)
	d := described["tx"]
	check.Equal(t, fmt.Sprint(d.State, d.TimeoutMillis, d.ProducerID == x.pid, d.ProducerEpoch, d.StartTimestamp > 0, d.Topics.Sorted()), "Ongoing60000 true 0 true [{t [0]}]")
	check.ErrorIs(t, described["none"].Err, kerr.TransactionalIDNotFound)
	set := kadm.TopicsSet{}
	set.Add("t", 0, 1)
	producers := must.Get(a.DescribeProducers(ctx, set))(t)["t"].Partitions
	check.Equal(t, len(producers[1].ActiveProducers), 0)
	one := producers[0].ActiveProducers[x.pid]
	check.Equal(t, fmt.Sprint(one.ProducerEpoch, one.LastSequence, one.LastTimestamp > 0, one.CurrentTxnStartOffset), "0 0 true 0")

	mark := func(epoch int16, commit bool, partition int32) int16 {
		r := kmsg.NewPtrWriteTxnMarkersRequest()
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch, m.Committed = x.pid, epoch, commit
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{partition}}}
		r.Markers = append(r.Markers, m)
		return dial(t, s.served).ask(r, 1).(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions[0].ErrorCode
	}
	check.Equalf(t, mark(x.epoch, true, 0), kerr.InvalidRequest.Code, "a commit")
	check.Equalf(t, mark(x.epoch+1, false, 0), kerr.InvalidProducerEpoch.Code, "another epoch")
	check.Equalf(t, mark(x.epoch, false, 1), 0, "a partition without batches of it")
	check.Equalf(t, must.Get(a.ListTransactions(ctx, nil, nil))(t)["tx"].State, "Ongoing", "meanwhile")
	must.Equal(t, mark(x.epoch, false, 0), 0)
	check.Equal(t, must.Get(a.ListTransactions(ctx, nil, nil))(t)["tx"].State, "CompleteAbort")
	check.Equalf(t, x.produce(ref, "v"), kerr.InvalidProducerEpoch.Code, "Produce")
	check.Equalf(t, x.end(true), kerr.InvalidProducerEpoch.Code, "EndTxn")
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &x.id, 60_000, x.pid, x.epoch
	check.Equalf(t, x.c.ask(r, 4).(*kmsg.InitProducerIDResponse).ErrorCode, 0, "InitProducerId")
}

// listsFiltered checks the filters of ListTransactions that kadm does not have.
func listsFiltered(t *testing.T, c *raw) {
	t.Helper()
	for _, x := range []struct {
		version  int16
		duration int64
		pattern  string
		want     string
	}{
		{0, 1 << 40, "", "0 [idle tx]"},
		{1, -1, "", "0 [idle tx]"},
		{1, 1 << 40, "", "0 []"},
		{2, -1, "t.", "0 [tx]"},
		{2, -1, "t", "0 []"},
		{2, -1, "(", "128 []"},
	} {
		r := kmsg.NewPtrListTransactionsRequest()
		r.DurationFilterMillis, r.TransactionalIDPattern = x.duration, &x.pattern
		r.StateFilters = []string{"Ongoing", "Empty", "Asleep"}
		got := c.ask(r, x.version).(*kmsg.ListTransactionsResponse)
		ids := []string{}
		for _, s := range got.TransactionStates {
			ids = append(ids, s.TransactionalID)
		}
		slices.Sort(ids)
		check.Equalf(t, fmt.Sprint(got.ErrorCode, " ", ids), x.want, "v%d, %d ms, %q", x.version, x.duration, x.pattern)
		check.EqualSlices(t, got.UnknownStateFilters, []string{"Asleep"})
	}
}

// TestTransactionalRights: a transactional ID needs Write, for lists and its coordinator Describe, and records of a
// transaction the right to their topic as well.
func TestTransactionalRights(t *testing.T) {
	g := guard(t)
	ref, hidden := topic(t, g.b, "mine", broker.TopicSpec{}), topic(t, g.b, "hidden", broker.TopicSpec{})
	id := access.TransactionalID
	key := g.token("app", access.Rule{Resource: id, Name: "app-", Prefix: true, Operation: access.Write, Host: access.Any}, rule(access.Topic, "mine", access.Write))
	mine := &txn{t: t, c: g.dialAs("app", key), id: "app-1"}
	other := &txn{t: t, c: mine.c, id: "other"}
	refused := kerr.TransactionalIDAuthorizationFailed.Code
	check.Equalf(t, mine.init(), 0, "InitProducerId")
	check.Equalf(t, other.init(), refused, "InitProducerId of another ID")
	check.Equalf(t, mine.produce(ref, "v"), 0, "Produce")
	check.Equalf(t, mine.produce(hidden, "v"), kerr.TopicAuthorizationFailed.Code, "Produce to another topic")
	owner := newTxn(t, g.served, "other", false)
	other.pid, other.epoch = owner.pid, owner.epoch
	check.Equalf(t, other.produce(ref, "v"), refused, "Produce of another ID")
	other.id = "app-1"
	check.Equalf(t, other.produce(ref, "v"), kerr.InvalidProducerIDMapping.Code, "Produce with the producer of another ID")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 1, []string{"app-2", "other"}
	found := mine.c.ask(find, 4).(*kmsg.FindCoordinatorResponse).Coordinators
	check.EqualSlicesf(t, []int16{found[0].ErrorCode, found[1].ErrorCode}, []int16{0, refused}, "FindCoordinator")
	listed := mine.c.ask(kmsg.NewPtrListTransactionsRequest(), 0).(*kmsg.ListTransactionsResponse).TransactionStates
	check.Equalf(t, fmt.Sprint(len(listed), listed[0].TransactionalID), "1app-1", "ListTransactions")
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"app-1", "other"}
	described := mine.c.ask(describe, 0).(*kmsg.DescribeTransactionsResponse).TransactionStates
	check.EqualSlicesf(t, []int16{described[0].ErrorCode, described[1].ErrorCode}, []int16{0, refused}, "DescribeTransactions")

	// The right ends before the end of the transaction.
	must.NoError(t, g.a.ChangeRules(t.Context(), g.a.Root(), nil, []access.Rule{{Principal: "app", Resource: id, Name: "app-", Prefix: true, Operation: access.Write, Host: access.Any}}))
	check.Equalf(t, mine.end(true), refused, "EndTxn")
}

// TestManyPartitions: a transaction with more partitions than are remembered is not checked.
func TestManyPartitions(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	x := newTxn(t, s.served, "tx", true)
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = x.id, x.pid, x.epoch
	for _, name := range []string{"a", "b"} {
		topic(t, s.b, name, broker.TopicSpec{Partitions: 6_000})
		top := kmsg.AddPartitionsToTxnRequestTopic{Topic: name}
		for n := range int32(6_000) {
			top.Partitions = append(top.Partitions, n)
		}
		r.Topics = append(r.Topics, top)
	}
	few := *r
	few.Topics = r.Topics[:1]
	must.Equal(t, x.c.ask(&few, 3).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode, 0)
	check.Equalf(t, x.produce(ref, "v"), kerr.InvalidTxnState.Code, "a partition that was not added, with 6,000 that were")
	must.Equal(t, x.c.ask(r, 3).(*kmsg.AddPartitionsToTxnResponse).Topics[1].Partitions[0].ErrorCode, 0)
	check.Equalf(t, x.produce(ref, "v"), 0, "with 12,000")
	check.Equalf(t, x.end(true), 0, "EndTxn")
}
