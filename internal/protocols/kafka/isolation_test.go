package kafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

// TestIsolation: in every version, a fetch of committed records ends at the last stable offset and names the aborted
// transactions in its data by first offset; one of all records has all of them, and names none. ListOffsets finds no
// record behind the last stable offset for a reader of committed ones.
func TestIsolation(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	x, y, z := newTxn(t, s.served, "x", false), newTxn(t, s.served, "y", false), newTxn(t, s.served, "z", false)
	// 0 x, 1 y, 2 x, 3 marker of y, 4 marker of x, 5 z (committed), 6 marker of z, 7 x (open), 8 no transaction
	for _, of := range []*txn{x, y, x} {
		must.Equal(t, of.produce(ref, of.id), 0)
	}
	xPid, yPid := x.pid, y.pid
	must.Equal(t, y.end(false), 0)
	must.Equal(t, x.end(false), 0)
	must.Equal(t, z.produce(ref, "z"), 0)
	must.Equal(t, z.end(true), 0)
	must.Equal(t, x.produce(ref, "x"), 0)
	store(t, s.served, ref, 0, batch(t, nil, "plain"))
	aborted := func(p *kmsg.FetchResponseTopicPartition) (list [][2]int64) {
		for _, a := range p.AbortedTransactions {
			list = append(list, [2]int64{a.ProducerID, a.FirstOffset})
		}
		return list
	}
	offsets := func(b []byte) (list []int64) {
		for len(b) > 0 {
			one, rest := must.Get2(record.Split(b))(t)
			list, b = append(list, one.BaseOffset()), rest
		}
		return list
	}
	for version := int16(4); version <= 18; version++ {
		r := fetchRequest(ref, 0)
		p := fetched(x.c.ask(r, version))
		check.Equalf(t, fmt.Sprint(p.HighWatermark, p.LastStableOffset, offsets(p.RecordBatches), p.AbortedTransactions == nil), "9 7 [0 1 2 3 4 5 6 7 8] true", "v%d of all records", version)
		r.IsolationLevel = 1
		p = fetched(x.c.ask(r, version))
		want := fmt.Sprint(9, 7, []int64{0, 1, 2, 3, 4, 5, 6}, [][2]int64{{xPid, 0}, {yPid, 1}})
		check.Equalf(t, fmt.Sprint(p.HighWatermark, p.LastStableOffset, offsets(p.RecordBatches), aborted(p)), want, "v%d of committed records", version)
		r.Topics[0].Partitions[0].FetchOffset = 5
		p = fetched(x.c.ask(r, version))
		check.Equalf(t, fmt.Sprint(offsets(p.RecordBatches), len(p.AbortedTransactions), p.AbortedTransactions == nil), "[5 6] 0 false", "v%d behind the aborted ones", version)
	}
	find := func(isolation int8, at int64) int64 {
		r := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = at
		r.IsolationLevel, r.Topics = isolation, []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		return x.c.ask(r, 7).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
	}
	for at, want := range map[int64][2]int64{-1: {9, 7}, -2: {0, 0}, 1000: {0, 0}} {
		check.Equalf(t, [2]int64{find(0, at), find(1, at)}, want, "offset at %d of all and of committed records", at)
	}
	store(t, s.served, ref, 0, batch(t, nil, "1000", "1001"))
	check.Equalf(t, [2]int64{find(0, 1001), find(1, 1001)}, [2]int64{10, -1}, "offset of a record behind the last stable offset")
}

// staging is the offsets of group g that a transaction commits.
func (x *txn) staging(member *kmsg.JoinGroupResponse, offset int64) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = x.id, x.pid, x.epoch, "g"
	if member != nil {
		r.MemberID, r.Generation = member.MemberID, member.Generation
	}
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	return r
}

func (x *txn) stage(r *kmsg.TxnOffsetCommitRequest, version int16) int16 {
	x.t.Helper()
	return x.c.ask(r, version).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// fetchOffset returns the offset of group g in partition 0 of topic t, and its code.
func (s *server) fetchOffset(stable bool) (offset int64, code int16) {
	s.t.Helper()
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group, r.RequireStable = "g", stable
	r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	p := dial(s.t, s.served).ask(r, 7).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

// TestStagedOffsets: in every version, offsets that a transaction commits are hidden until it does. A client that
// requires stable offsets waits for the end. An abort drops them.
func TestStagedOffsets(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	unstable := kerr.UnstableOffsetCommit.Code
	want := int64(-1)
	for version := int16(0); version <= 6; version++ {
		x := newTxn(t, s.served, "tx", version < 5)
		for _, commit := range []bool{false, true} {
			if x.first {
				lacks := kerr.InvalidTxnState.Code
				if version == 4 {
					lacks = kerr.TransactionAbortable.Code
				}
				check.Equalf(t, x.stage(x.staging(nil, 5), version), lacks, "v%d without a group", version)
				must.Equal(t, x.addGroup("g"), 0)
			}
			r := x.staging(nil, int64(version)+10)
			r.Topics[0].TopicID = ref.ID
			must.Equalf(t, x.stage(r, version), 0, "v%d", version)
			offset, code := s.fetchOffset(false)
			check.Equalf(t, fmt.Sprint(offset, code), fmt.Sprint(want, 0), "v%d: the offset meanwhile", version)
			offset, code = s.fetchOffset(true)
			check.Equalf(t, fmt.Sprint(offset, code), fmt.Sprint(-1, unstable), "v%d: the stable offset meanwhile", version)
			must.Equal(t, x.end(commit), 0)
			if commit {
				want = int64(version) + 10
			}
			offset, code = s.fetchOffset(true)
			check.Equalf(t, fmt.Sprint(offset, code), fmt.Sprint(want, 0), "v%d: the stable offset after commit %v", version, commit)
		}
	}
}

// TestStagedOffsetsOfOtherGroups: version 1 needs each group in the transaction, up to a number that is remembered.
func TestStagedOffsetsOfOtherGroups(t *testing.T) {
	s := reachable(t, objstore.NewMemory(), kafka.Options{})
	topic(t, s.b, "t", broker.TopicSpec{})
	x := newTxn(t, s.served, "tx", true)
	must.Equal(t, x.addGroup("h"), 0)
	check.Equalf(t, x.stage(x.staging(nil, 1), 3), kerr.InvalidTxnState.Code, "another group was added")
	check.Equalf(t, x.stage(x.staging(nil, 1), 4), kerr.TransactionAbortable.Code, "another group was added, in v4")
	must.Equal(t, x.addGroup("g"), 0)
	check.Equalf(t, x.stage(x.staging(nil, 1), 3), 0, "it was added, too")
	must.Equal(t, x.end(true), 0)
	for i := range 101 {
		must.Equal(t, x.addGroup(fmt.Sprint("g-", i)), 0)
	}
	check.Equalf(t, x.stage(x.staging(nil, 1), 3), 0, "too many were added")
}

// TestStagedOffsetsOfConsumers: the same as TestStagedOffsetsOfMembers for the consumer protocol.
func TestStagedOffsetsOfConsumers(t *testing.T) {
	store := objstore.NewMemory()
	s := reachable(t, store, kafka.Options{})
	s.conn, s.keys = dial(t, s.served), dial(t, s.served).keys()
	topic(t, s.b, "t", broker.TopicSpec{})
	joined := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, 1, joining("mine"))
	must.Equal(t, joined.ErrorCode, 0)
	member := &kmsg.JoinGroupResponse{MemberID: "mine", Generation: joined.MemberEpoch}
	x := newTxn(t, s.served, "tx", false)
	check.Equalf(t, x.stage(x.staging(member, 1), 5), 0, "a member")
	check.Equalf(t, x.stage(x.staging(nil, 2), 5), 0, "no member")
	late, stranger, nameless := *member, *member, *member
	late.Generation--
	stranger.MemberID, nameless.MemberID = "stranger", ""
	check.Equalf(t, x.stage(x.staging(&late, 3), 5), kerr.IllegalGeneration.Code, "an earlier epoch")
	check.Equalf(t, x.stage(x.staging(&stranger, 4), 5), kerr.UnknownMemberID.Code, "another member")
	check.Equalf(t, x.stage(x.staging(&nameless, 4), 5), kerr.UnknownMemberID.Code, "an epoch without a member")

	// The member joins again with its ID and the epoch of a new leader. What it has sent before is refused.
	next := reachable(t, store, kafka.Options{})
	next.conn, next.keys = dial(t, next.served), dial(t, next.served).keys()
	y := x.again(next.served)
	check.Equalf(t, y.stage(y.staging(member, 5), 5), kerr.UnknownMemberID.Code, "a member after a takeover")
	must.Equal(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](next, 1, joining("mine")).ErrorCode, 0)
	check.Equalf(t, y.stage(y.staging(member, 6), 5), kerr.IllegalGeneration.Code, "its earlier epoch")
	_, code := next.fetchOffset(true)
	check.Equalf(t, code, kerr.UnstableOffsetCommit.Code, "the offset in the open transaction")
	check.Equalf(t, y.end(true), 0, "EndTxn after the takeover")
	offset, code := next.fetchOffset(true)
	check.Equalf(t, fmt.Sprint(offset, code), "2 0", "the offset")
}

// TestStagedOffsetsOfMembers: only a present member with its generation adds offsets to a transaction, and a client that
// names no member, as old ones do. After a takeover a member gets a code after which it joins again (KIP-447).
func TestStagedOffsetsOfMembers(t *testing.T) {
	store := objstore.NewMemory()
	s := reachable(t, store, kafka.Options{})
	s.conn, s.keys = dial(t, s.served), dial(t, s.served).keys()
	topic(t, s.b, "t", broker.TopicSpec{})
	member := s.member(5)
	x := newTxn(t, s.served, "tx", false)
	check.Equalf(t, x.stage(x.staging(member, 1), 5), 0, "a member")
	check.Equalf(t, x.stage(x.staging(nil, 2), 5), 0, "no member")
	late, stranger := *member, *member
	late.Generation--
	stranger.MemberID = "stranger"
	check.Equalf(t, x.stage(x.staging(&late, 3), 5), kerr.IllegalGeneration.Code, "an earlier generation")
	check.Equalf(t, x.stage(x.staging(&stranger, 4), 5), kerr.UnknownMemberID.Code, "another member")
	r := x.staging(member, 5)
	r.Topics[0].Partitions[0].Partition = 7
	check.Equalf(t, x.stage(r, 5), kerr.UnknownTopicOrPartition.Code, "an unknown partition")
	other := x.staging(member, 6)
	other.ProducerEpoch = 9
	check.Equalf(t, x.stage(other, 5), kerr.InvalidProducerEpoch.Code, "another epoch")
	other.ProducerID++
	check.Equalf(t, x.stage(other, 5), kerr.InvalidProducerIDMapping.Code, "another producer")

	next := reachable(t, store, kafka.Options{})
	y := x.again(next.served)
	if code := y.stage(y.staging(member, 7), 5); code != kerr.UnknownMemberID.Code && code != kerr.IllegalGeneration.Code {
		t.Errorf("a member after a takeover: %d", code)
	}
	check.Equalf(t, y.end(true), 0, "EndTxn after the takeover")
	offset, code := next.fetchOffset(true)
	check.Equalf(t, fmt.Sprint(offset, code), "2 0", "the offset")
}

// TestTransactionsNeedTheLevel: below the format level of transactions they are refused with a code that stops
// producers, and clients are not told of the feature.
func TestTransactionsNeedTheLevel(t *testing.T) {
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	b := openBroker(t, store, func(o *broker.Options) {
		o.RaiseMax = func() uint32 { return state.LevelTransactions - 1 }
	})
	must.Get(b.Raise(t.Context()))(t)
	c := coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	t.Cleanup(c.Close)
	s := serve(t, b, kafka.Options{Groups: c})
	ref := topic(t, b, "t", broker.TopicSpec{})
	refused := kerr.TransactionalIDAuthorizationFailed.Code
	x := &txn{t: t, c: dial(t, s), id: "tx"}
	check.Equalf(t, x.init(), refused, "InitProducerId")
	x.pid, x.epoch = 5, 0
	check.Equalf(t, x.produce(ref, "v"), refused, "Produce")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorType = "tx", 1
	if got := x.c.ask(find, 3).(*kmsg.FindCoordinatorResponse); got.ErrorCode != refused || got.ErrorMessage == nil {
		t.Errorf("FindCoordinator: %+v", got)
	}
	check.Equalf(t, len(x.c.ask(kmsg.NewPtrApiVersionsRequest(), 3).(*kmsg.ApiVersionsResponse).FinalizedFeatures), 0, "features")
}
