package kafka_test

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/framed"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/kafka"
	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/must"
)

// server is a broker with its coordinator; requests are encoded as on a socket.
type server struct {
	t     testing.TB
	b     *broker.Broker
	c     *coordinator.Coordinator
	s     *kafka.Groups
	table map[kmsg.Key]kafka.API
}

func start(t testing.TB) *server { return startOn(t, objstore.NewMemory()) }

func startOn(t testing.TB, store objstore.Store) *server {
	t.Helper()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Store: store, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}))(t)
	c := coordinator.Open(context.Background(), coordinator.Options{
		Broker: b, InitialDelay: -1, SessionMin: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	s := &server{t: t, b: b, c: c, table: map[kmsg.Key]kafka.API{}}
	s.s = kafka.NewGroups(b, c)
	for _, a := range kafka.GroupTable() {
		s.table[a.Key] = a
	}
	t.Cleanup(s.kill)
	return s
}

// kill stops both like a crash.
func (s *server) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.b.Close(ctx)
	s.c.Close()
}

func (s *server) topic(name string, partitions int) broker.TopicInfo {
	s.t.Helper()
	info := must.Get(s.b.CreateTopic(s.t.Context(), name, broker.TopicSpec{Partitions: partitions}))(s.t)
	return info
}

// begin begins a request in a version, limited to the supported ones.
func (s *server) begin(version int16, r kmsg.Request) (int16, framed.Finish) {
	s.t.Helper()
	a := s.table[kmsg.Key(r.Key())]
	version = max(a.Min, min(version, a.Max))
	r.SetVersion(version)
	body := r.AppendTo(nil)
	_, rest, err := a.Shape.Skim(version, body)
	if err != nil || len(rest) != 0 {
		s.t.Fatalf("%s v%d: %v, %d bytes are left", a.Key.Name(), version, err, len(rest))
	}
	finish, err := s.s.Begin(a, version, slices.Clone(body))
	if err != nil {
		s.t.Fatalf("%s v%d: %v", a.Key.Name(), version, err)
	}
	return version, finish
}

// ask returns the answer to a request as a client decodes it.
func ask[R kmsg.Response](s *server, version int16, r kmsg.Request) R {
	s.t.Helper()
	version, finish := s.begin(version, r)
	return finished[R](s, version, finish)
}

func finished[R kmsg.Response](s *server, version int16, finish framed.Finish) R {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	answer := must.Get(finish(ctx))(s.t)
	answer.Release()
	read := reflect.New(reflect.TypeFor[R]().Elem()).Interface().(R)
	read.SetVersion(version)
	body := answer.Head[8:] // after length and correlation ID
	if read.IsFlexible() {
		body = body[1:] // no tagged fields
	}
	must.NoErrorf(s.t, read.ReadFrom(body), "%T v%d", read, version)
	return read
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
