package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
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
