package kafka_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestMissedGeneration: franz-go keeps its partitions and positions if its JoinGroup is answered with
// UNKNOWN_MEMBER_ID. While that request was on its way, another member had the partitions and committed: what the
// client holds must not be copied again.
func TestMissedGeneration(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{"dynamic": nil, "static": {kgo.InstanceID("i")}} {
		t.Run(name, func(t *testing.T) {
			h := newHolder(t)
			s := reachable(t, objstore.NewMemory(), kafka.Options{Advertised: h.l.Addr().String()})
			h.target.Store(&s.addr)
			s.conn, s.keys = dial(t, s.served), dial(t, s.served).keys()
			ref := topic(t, s.b, "in", broker.TopicSpec{})
			topic(t, s.b, "out", broker.TopicSpec{})
			store(t, s.served, ref, 0, batch(t, nil, "a", "b", "c", "d"))
			session := must.Get(kgo.NewGroupTransactSession(append(sessionOptions(s, opts), kgo.SeedBrokers(h.l.Addr().String()),
				kgo.HeartbeatInterval(20*time.Millisecond), kgo.RebalanceTimeout(100*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))...))(t)
			defer session.Close()
			copied := func(n int) (list []string) {
				must.NoError(t, session.Begin())
				for len(list) == 0 && t.Context().Err() == nil {
					session.PollRecords(t.Context(), n).EachRecord(func(r *kgo.Record) { list = append(list, string(r.Value)) })
				}
				must.NoError(t, session.ProduceSync(t.Context(), &kgo.Record{Topic: "out", Value: []byte("x")}).FirstErr())
				if !must.Get(session.End(t.Context(), kgo.TryCommit))(t) {
					return nil
				}
				return list
			}
			must.EqualSlicesf(t, copied(2), []string{"a", "b"}, "copied")

			h.hold(kmsg.JoinGroup)
			s.missed(t)
			store(t, s.served, ref, 0, batch(t, nil, "e"))
			close(h.let)
			got := copied(1)
			for len(got) == 0 {
				got = copied(1) // the session was lost in between
			}
			check.EqualSlices(t, got, []string{"e"})
		})
	}
}

// missed lets a member have all partitions of group g in a generation without its other member, and commit.
func (s *server) missed(t *testing.T) {
	r := join("", "cooperative-sticky")
	r.RebalanceTimeoutMillis = 100
	a := ask[*kmsg.JoinGroupResponse](s, 3, r)
	must.Equal(t, a.ErrorCode, 0)
	must.Equal(t, a.LeaderID, a.MemberID)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", a.MemberID, a.Generation
	must.Equal(t, ask[*kmsg.SyncGroupResponse](s, 3, sync).ErrorCode, 0)
	ref, _ := s.b.TopicNamed("in")
	must.EqualSlicesf(t, s.commit(7, a, offsets("in", ref.ID, 4)), []int16{0}, "committed")
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", a.MemberID
	must.Equal(t, ask[*kmsg.LeaveGroupResponse](s, 2, leave).ErrorCode, 0)
}

// stopped is a store whose PUTs wait while it is shut.
type stopped struct {
	objstore.Store
	shut  atomic.Pointer[chan struct{}]
	waits atomic.Int32 // PUTs
}

func (s *stopped) Put(ctx context.Context, key string, body objstore.Body) error {
	if ch := s.shut.Load(); ch != nil {
		s.waits.Add(1)
		select {
		case <-*ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.Put(ctx, key, body)
}

// TestReplacedMemberStages: the next run of a static member, which has its generation and partitions at once, does not
// get offsets that are about to change: those that the last run has just added to its transaction.
func TestReplacedMemberStages(t *testing.T) {
	slow := &stopped{Store: objstore.NewMemory()}
	s := reachable(t, slow, kafka.Options{})
	s.conn, s.keys = dial(t, s.served), dial(t, s.served).keys()
	topic(t, s.b, "t", broker.TopicSpec{})
	r := join("", "range")
	r.InstanceID = ref("i")
	old := ask[*kmsg.JoinGroupResponse](s, 5, r)
	must.Equal(t, old.ErrorCode, 0)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = "g", old.MemberID, r.InstanceID, old.Generation
	must.Equal(t, ask[*kmsg.SyncGroupResponse](s, 3, sync).ErrorCode, 0)
	x := newTxn(t, s.served, "tx", false)

	gate := make(chan struct{})
	slow.shut.Store(&gate)
	stage := x.staging(old, 4)
	stage.InstanceID = r.InstanceID
	x.c.send(stage, 5)
	sebtest.Eventually(t, "the offsets are on their way to the store", func() bool { return slow.waits.Load() > 0 })
	now := ask[*kmsg.JoinGroupResponse](s, 5, r)
	must.Equal(t, now.ErrorCode, 0)
	must.Equalf(t, now.Generation, old.Generation, "generation")
	_, code := s.fetchOffset(true)
	check.Equalf(t, code, kerr.UnstableOffsetCommit.Code, "the offset for the next run")
	offset, code := s.fetchOffset(false)
	check.Equalf(t, [2]int64{offset, int64(code)}, [2]int64{-1, 0}, "the offset for a client that takes any")

	slow.shut.Store(nil)
	close(gate)
	must.Equal(t, x.c.receive(stage, 5, x.c.last).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, 0)
	_, code = s.fetchOffset(true)
	check.Equalf(t, code, kerr.UnstableOffsetCommit.Code, "the offset in the open transaction")
	must.Equal(t, x.end(true), 0)
	offset, code = s.fetchOffset(true)
	check.Equalf(t, [2]int64{offset, int64(code)}, [2]int64{4, 0}, "the offset after the end")
	check.Equalf(t, x.stage(x.staging(old, 5), 5), kerr.UnknownMemberID.Code, "the last run, without its instance")
	late := x.staging(old, 5)
	late.InstanceID = r.InstanceID
	check.Equalf(t, x.stage(late, 5), kerr.FencedInstanceID.Code, "the last run")
}
