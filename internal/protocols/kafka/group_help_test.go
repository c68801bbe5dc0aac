package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// server is a broker that serves consumer groups, and a connection to it.
type server struct {
	*served
	t    testing.TB
	c    *coordinator.Coordinator
	conn *raw
	keys map[int16]kmsg.ApiVersionsResponseApiKey
}

func start(t testing.TB) *server { return startOn(t, objstore.NewMemory()) }

func startOn(t testing.TB, store objstore.Store) *server {
	t.Helper()
	b := openBroker(t, store, nil)
	c := coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, SessionMin: time.Millisecond, Logger: quiet})
	t.Cleanup(c.Close)
	s := &server{served: serve(t, b, kafka.Options{Groups: c, Advertised: "self:9092"}), t: t, c: c}
	s.conn = dial(t, s.served)
	s.keys = s.conn.keys()
	return s
}

func (s *server) topic(name string, partitions int) broker.TopicInfo {
	s.t.Helper()
	info := must.Get(s.b.CreateTopic(s.t.Context(), name, broker.TopicSpec{Partitions: partitions}))(s.t)
	return info
}

// within limits a version of a request to those that are served.
func (s *server) within(r kmsg.Request, version int16) int16 {
	k := s.keys[r.Key()]
	return max(k.MinVersion, min(version, k.MaxVersion))
}

// ask returns the answer to a request.
func ask[R kmsg.Response](s *server, version int16, r kmsg.Request) R {
	s.t.Helper()
	return s.conn.ask(r, s.within(r, version)).(R)
}

// parked is a second member of group g, whose join waits for the others.
func (s *server) parked() (answer func() *kmsg.JoinGroupResponse) {
	s.t.Helper()
	c, r := dial(s.t, s.served), join("", "range")
	c.send(r, 3) // version 3 joins in one step
	sebtest.Eventually(s.t, "a second member has joined", func() bool {
		v, _ := s.c.Describe("g")
		return len(v.Members) == 2
	})
	return func() *kmsg.JoinGroupResponse { return c.receive(r, 3, c.last).(*kmsg.JoinGroupResponse) }
}

func ref[T any](v T) *T { return &v }

func join(member, protocol string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = "g", member, 60_000, 60_000, "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: protocol, Metadata: []byte("told")}}
	return r
}

// member joins a group of one member.
func (s *server) member(version int16) *kmsg.JoinGroupResponse {
	s.t.Helper()
	a := ask[*kmsg.JoinGroupResponse](s, version, join("", "range"))
	if version >= 4 {
		if a.ErrorCode != 79 || a.MemberID == "" || a.Generation != -1 {
			s.t.Fatalf("v%d: %+v", version, a)
		}
		a = ask[*kmsg.JoinGroupResponse](s, version, join(a.MemberID, "range"))
	}
	if a.ErrorCode != 0 || a.LeaderID != a.MemberID || len(a.Members) != 1 || string(a.Members[0].ProtocolMetadata) != "told" ||
		*a.Protocol != "range" || version >= 7 && *a.ProtocolType != "consumer" {
		s.t.Fatalf("v%d: %+v", version, a)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.Protocol, sync.ProtocolType = "g", a.MemberID, a.Generation, a.Protocol, ref("consumer")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: a.MemberID, MemberAssignment: []byte("work")}}
	if got := ask[*kmsg.SyncGroupResponse](s, version, sync); got.ErrorCode != 0 || string(got.MemberAssignment) != "work" {
		s.t.Fatalf("v%d: %+v", version, got)
	}
	return a
}

func offsets(topic string, id [16]byte, of ...int64) []kmsg.OffsetCommitRequestTopic {
	t := kmsg.OffsetCommitRequestTopic{Topic: topic, TopicID: id}
	for i, o := range of {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), o, ref("m")
		t.Partitions = append(t.Partitions, p)
	}
	return []kmsg.OffsetCommitRequestTopic{t}
}

// commit commits offsets and returns the codes.
func (s *server) commit(version int16, a *kmsg.JoinGroupResponse, topics []kmsg.OffsetCommitRequestTopic) []int16 {
	s.t.Helper()
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.Topics = "g", topics
	if a != nil {
		r.MemberID, r.Generation = a.MemberID, a.Generation
	}
	var codes []int16
	for _, t := range ask[*kmsg.OffsetCommitResponse](s, version, r).Topics {
		for _, p := range t.Partitions {
			codes = append(codes, p.ErrorCode)
		}
	}
	return codes
}
