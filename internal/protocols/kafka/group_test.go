package kafka_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestGroupLifecycleInEveryVersion finds, joins, commits to, describes, leaves and deletes a group.
func TestGroupLifecycleInEveryVersion(t *testing.T) {
	for v := range int16(11) {
		t.Run(fmt.Sprint("v", v), func(t *testing.T) {
			s := start(t)
			id := [16]byte(s.topic("t", 2).ID)
			s.find(v)
			a := s.member(v)
			beat := kmsg.NewPtrHeartbeatRequest()
			beat.Group, beat.MemberID, beat.Generation = "g", a.MemberID, a.Generation
			if got := ask[*kmsg.HeartbeatResponse](s, v, beat); got.ErrorCode != 0 {
				t.Fatalf("%+v", got)
			}
			if v == 0 { // v0 has no member ID, so the commit is that of a non-member
				must.Equal(t, fmt.Sprint(s.commit(0, a, offsets("t", id, 3))), "[25]")
			}
			must.Equal(t, fmt.Sprint(s.commit(max(1, v), a, offsets("t", id, 3, 4))), "[0 0]")
			s.fetched(v, id)
			s.described(v, a)
			s.leave(v, a)
			del := kmsg.NewPtrDeleteGroupsRequest()
			del.Groups = []string{"g", "h"}
			got := ask[*kmsg.DeleteGroupsResponse](s, v, del)
			if got.Groups[0].ErrorCode != 0 || got.Groups[1].ErrorCode != 69 || len(s.b.Groups(t.Context())) != 0 {
				t.Fatalf("%+v", got)
			}
		})
	}
}

func (s *server) find(v int16) {
	s.t.Helper()
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g", "h"}
	got := ask[*kmsg.FindCoordinatorResponse](s, v, r)
	if v < 4 && (got.ErrorCode != 0 || got.NodeID != 1 || got.Host != "self" || got.Port != 9092) {
		s.t.Fatalf("%+v", got)
	}
	if v >= 4 && (len(got.Coordinators) != 2 || got.Coordinators[1].Key != "h" || got.Coordinators[1].NodeID != 1 || got.Coordinators[1].ErrorCode != 0) {
		s.t.Fatalf("%+v", got)
	}
	for kind, want := range map[int8]int16{1: 0, 2: 42} {
		node := int32(-1)
		if want == 0 {
			node = 1
		}
		r.CoordinatorType = kind
		got := ask[*kmsg.FindCoordinatorResponse](s, v, r)
		if v >= 1 && v < 4 && (got.ErrorCode != want || got.NodeID != node) || v >= 4 && (got.Coordinators[0].ErrorCode != want || got.Coordinators[0].NodeID != node) {
			s.t.Fatalf("%+v", got)
		}
	}
}

// fetched checks the offsets 3 and 4 in all forms of a version.
func (s *server) fetched(v int16, id [16]byte) {
	s.t.Helper()
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group, r.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{1, 0, 5}}}
	r.Groups = []kmsg.OffsetFetchRequestGroup{
		{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: id, Partitions: []int32{1, 0, 5}}}},
		{Group: "g"},
		{Group: "none"},
		{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{}},
	}
	got := ask[*kmsg.OffsetFetchResponse](s, v, r)
	said := ""
	for _, t := range got.Topics {
		for _, p := range t.Partitions {
			said += fmt.Sprintf(" %s/%d=%d%s:%d", t.Topic, p.Partition, p.Offset, *p.Metadata, p.ErrorCode)
		}
	}
	if want := " t/1=4m:0 t/0=3m:0 t/5=-1:0"; v < 8 && said != want {
		s.t.Fatalf("%s, want %s", said, want)
	}
	if v >= 2 && v < 8 {
		r.Topics = nil
		if got := ask[*kmsg.OffsetFetchResponse](s, v, r); len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 2 || got.Topics[0].Partitions[1].Offset != 4 {
			s.t.Fatalf("%+v", got)
		}
	}
	if v < 8 {
		return
	}
	said = ""
	for _, g := range got.Groups {
		said += fmt.Sprintf(" %s(%d)", g.Group, g.ErrorCode)
		for _, t := range g.Topics {
			if v >= 10 && t.TopicID != id || v < 10 && t.Topic != "t" {
				s.t.Fatalf("%+v", t)
			}
			for _, p := range t.Partitions {
				said += fmt.Sprintf(" %d=%d%s:%d", p.Partition, p.Offset, *p.Metadata, p.ErrorCode)
			}
		}
	}
	must.Equal(s.t, said, " g(0) 1=4m:0 0=3m:0 5=-1:0 g(0) 0=3m:0 1=4m:0 none(0) g(0)")
}

func (s *server) described(v int16, a *kmsg.JoinGroupResponse) {
	s.t.Helper()
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{"g", "none"}
	got := ask[*kmsg.DescribeGroupsResponse](s, v, r)
	g, none := got.Groups[0], got.Groups[1]
	if g.ErrorCode != 0 || g.State != "Stable" || g.Protocol != "range" || g.ProtocolType != "consumer" || len(g.Members) != 1 {
		s.t.Fatalf("%+v", g)
	}
	if m := g.Members[0]; m.MemberID != a.MemberID || m.ClientID != "raw" || m.ClientHost != "/127.0.0.1" || string(m.MemberAssignment) != "work" {
		s.t.Fatalf("%+v", m)
	}
	if none.State != "Dead" || v < 6 && none.ErrorCode != 0 || v >= 6 && (none.ErrorCode != 69 || none.ErrorMessage == nil) {
		s.t.Fatalf("%+v", none)
	}
	list := kmsg.NewPtrListGroupsRequest()
	for _, c := range []struct {
		states, types []string
		want          int
	}{{nil, nil, 1}, {[]string{"stable"}, nil, 1}, {[]string{"Empty"}, nil, 0}, {nil, []string{"Classic"}, 1}, {nil, []string{"consumer"}, 0}} {
		list.StatesFilter, list.TypesFilter = c.states, c.types
		if c.states != nil && v < 4 || c.types != nil && v < 5 {
			continue
		}
		got := ask[*kmsg.ListGroupsResponse](s, v, list)
		if len(got.Groups) != c.want || c.want == 1 && (got.Groups[0].Group != "g" || got.Groups[0].ProtocolType != "consumer" || v >= 5 && got.Groups[0].GroupType != "classic") {
			s.t.Fatalf("%+v: %+v", c, got)
		}
	}
}

func (s *server) leave(v int16, a *kmsg.JoinGroupResponse) {
	s.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = "g", a.MemberID
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.MemberID}, {MemberID: "x"}, {InstanceID: ref("i")}}
	got := ask[*kmsg.LeaveGroupResponse](s, v, r)
	if got.ErrorCode != 0 || v >= 3 && (got.Members[0].ErrorCode != 0 || got.Members[1].ErrorCode != 25 || got.Members[2].ErrorCode != 25) {
		s.t.Fatalf("%+v", got)
	}
	r.Group = ""
	if got := ask[*kmsg.LeaveGroupResponse](s, v, r); got.ErrorCode != 24 {
		s.t.Fatalf("%+v", got)
	}
	if r.Group = "g"; v < 3 {
		if got := ask[*kmsg.LeaveGroupResponse](s, v, r); got.ErrorCode != 25 {
			s.t.Fatalf("%+v", got)
		}
	}
}

func TestCommitsThatAreRefused(t *testing.T) {
	s := start(t)
	id := [16]byte(s.topic("t", 1).ID)
	with := func(change func(t *kmsg.OffsetCommitRequestTopic)) []kmsg.OffsetCommitRequestTopic {
		topics := offsets("t", id, 1)
		change(&topics[0])
		return topics
	}
	for _, c := range []struct {
		name    string
		version int16
		topics  []kmsg.OffsetCommitRequestTopic
		want    string
	}{
		{"topic", 9, offsets("none", id, 1), "[3]"},
		{"topic id", 10, offsets("t", [16]byte{1}, 1), "[100]"},
		{"partition", 9, offsets("t", id, 1, 2), "[0 3]"},
		{"metadata", 9, with(func(t *kmsg.OffsetCommitRequestTopic) { t.Partitions[0].Metadata = ref(strings.Repeat("m", 4097)) }), "[12]"},
		{"most metadata", 9, with(func(t *kmsg.OffsetCommitRequestTopic) { t.Partitions[0].Metadata = ref(strings.Repeat("m", 4096)) }), "[0]"},
		{"no metadata", 9, with(func(t *kmsg.OffsetCommitRequestTopic) { t.Partitions[0].Metadata = nil }), "[0]"},
		{"offset", 9, offsets("t", id, -1025), "[42]"},
		{"nothing", 9, nil, "[]"},
	} {
		check.Equalf(t, fmt.Sprint(s.commit(c.version, nil, c.topics)), c.want, "%s", c.name)
	}
	a := s.member(9)
	stale := *a
	stale.Generation--
	for _, c := range []struct {
		from *kmsg.JoinGroupResponse
		want string
	}{{a, "[0]"}, {nil, "[25]"}, {&stale, "[22]"}, {&kmsg.JoinGroupResponse{MemberID: "x", Generation: 1}, "[25]"}} {
		check.Equalf(t, fmt.Sprint(s.commit(9, c.from, offsets("t", id, 5))), c.want, "%+v", c.from)
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	for name, want := range map[string]int16{"": 24, "g\n": 24} {
		r.Group, r.Topics = name, offsets("t", id, 1)
		if got := ask[*kmsg.OffsetCommitResponse](s, 9, r); got.Topics[0].Partitions[0].ErrorCode != want {
			t.Errorf("group %q: %+v", name, got)
		}
	}
	j := join("", "range")
	for _, j.Group = range []string{"", "g\n", strings.Repeat("g", 250)} {
		if got := ask[*kmsg.JoinGroupResponse](s, 9, j); got.ErrorCode != 24 {
			t.Errorf("%+v", got)
		}
	}
}

func TestNegativeOffsets(t *testing.T) {
	store := objstore.NewMemory()
	s := startOn(t, store)
	id := [16]byte(s.topic("t", 3).ID)
	must.Equal(t, fmt.Sprint(s.commit(9, nil, offsets("t", id, -1, -2, -1024))), "[0 0 0]")
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group, fetch.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 2}}}
	verify := func() {
		t.Helper()
		got := ask[*kmsg.OffsetFetchResponse](s, 7, fetch)
		for i, want := range []int64{-1, -2, -1024} {
			if p := got.Topics[0].Partitions[i]; p.ErrorCode != 0 || p.Offset != want {
				t.Errorf("%+v, want offset %d", p, want)
			}
		}
		if info, err := s.b.Group(t.Context(), "g", true); err != nil || len(info.Offsets) != 3 {
			t.Errorf("%+v, %v", info, err)
		}
	}
	verify()
	s = startOn(t, store) // reads the log
	verify()
	must.Equal(t, fmt.Sprint(s.commit(9, nil, offsets("t", id, 5, 0))), "[0 0]")
	if got := ask[*kmsg.OffsetFetchResponse](s, 7, fetch).Topics[0].Partitions; got[0].Offset != 5 || got[1].Offset != 0 || got[2].Offset != -1024 {
		t.Errorf("%+v", got)
	}
}

func TestOffsetsAreDeletedOfGroupsWithoutMembers(t *testing.T) {
	s := start(t)
	id := [16]byte(s.topic("t", 2).ID)
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = "g"
	r.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 5}, {Partition: 0}, {Partition: 0}}},
		{Topic: "none", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}},
	}
	if got := ask[*kmsg.OffsetDeleteResponse](s, 0, r); got.ErrorCode != 69 {
		t.Fatalf("%+v", got)
	}
	a := s.member(9)
	s.commit(9, a, offsets("t", id, 1, 2))
	codes := func() string {
		got := ask[*kmsg.OffsetDeleteResponse](s, 0, r)
		said := fmt.Sprint(got.ErrorCode)
		for _, t := range got.Topics {
			for _, p := range t.Partitions {
				said += fmt.Sprintf(" %d", p.ErrorCode)
			}
		}
		return said
	}
	must.Equal(t, codes(), "0 86 86 86 86 86")
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g", ""}
	if got := ask[*kmsg.DeleteGroupsResponse](s, 2, del); got.Groups[0].ErrorCode != 68 || got.Groups[1].ErrorCode != 69 {
		t.Fatalf("%+v", got)
	}
	s.leave(5, a)
	must.Equal(t, codes(), "0 0 3 0 0 3")
	must.Equalf(t, len(s.b.Groups(t.Context())), 0, "offsets are left")
}

func TestStaticMembersComeBack(t *testing.T) {
	s := start(t)
	r := join("", "range")
	r.InstanceID = ref("i")
	first := ask[*kmsg.JoinGroupResponse](s, 9, r)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = "g", first.MemberID, ref("i"), first.Generation
	if got := ask[*kmsg.SyncGroupResponse](s, 5, sync); got.ErrorCode != 23 {
		t.Fatalf("without a protocol: %+v", got)
	}
	sync.Protocol, sync.ProtocolType = ref("range"), ref("consumer")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: first.MemberID, MemberAssignment: []byte("work")}}
	ask[*kmsg.SyncGroupResponse](s, 5, sync)
	again := ask[*kmsg.JoinGroupResponse](s, 9, r)
	if again.ErrorCode != 0 || again.Generation != first.Generation || again.MemberID == first.MemberID || !again.SkipAssignment {
		t.Fatalf("%+v", again)
	}
	if got := ask[*kmsg.SyncGroupResponse](s, 5, sync); got.ErrorCode != 82 {
		t.Fatalf("%+v", got)
	}
	sync.MemberID, sync.GroupAssignment = again.MemberID, nil
	if got := ask[*kmsg.SyncGroupResponse](s, 5, sync); got.ErrorCode != 0 || string(got.MemberAssignment) != "work" {
		t.Fatalf("%+v", got)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.InstanceID, beat.Generation = "g", first.MemberID, ref("i"), first.Generation
	if got := ask[*kmsg.HeartbeatResponse](s, 4, beat); got.ErrorCode != 82 {
		t.Fatalf("%+v", got)
	}
}

// TestPipelinedRequestsDoNotDeadlock: a JoinGroup waits for an earlier commit of the same
// connection. The commit is settled although its answer is not written yet.
func TestPipelinedRequestsDoNotDeadlock(t *testing.T) {
	s := start(t)
	id := [16]byte(s.topic("t", 1).ID)
	a := s.member(9)
	second := s.parked()
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation, r.Topics = "g", a.MemberID, a.Generation, offsets("t", id, 7)
	j := join(a.MemberID, "range")
	commit, joining, late := s.conn.encode(r, 9), s.conn.encode(j, 9), s.conn.encode(r, 9)
	must.Get(s.conn.Write(slices.Concat(commit, joining, late)))(t)
	if got := s.conn.receive(r, 9, s.conn.last-2).(*kmsg.OffsetCommitResponse); got.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if got := s.conn.receive(j, 9, s.conn.last-1).(*kmsg.JoinGroupResponse); got.ErrorCode != 0 || len(got.Members) != 2 {
		t.Fatalf("%+v", got)
	}
	if got := second(); got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if got := s.conn.receive(r, 9, s.conn.last).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; got != 22 && got != 27 {
		t.Fatal(got)
	}
}

// TestDeposedBroker: a deposed broker answers every request with NOT_COORDINATOR.
func TestDeposedBroker(t *testing.T) {
	store := objstore.NewMemory()
	s := startOn(t, store)
	id := [16]byte(s.topic("t", 1).ID)
	a := s.member(9)
	parked := s.parked()
	next := startOn(t, store)
	if got := s.commit(9, a, offsets("t", id, 1))[0]; got != 16 && got != 7 {
		t.Fatal(got)
	}
	<-s.b.Done()
	if got := parked(); got.ErrorCode != 16 {
		t.Fatalf("%+v", got)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	fetch.Group, fetch.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g"}
	codes := []int16{
		ask[*kmsg.FindCoordinatorResponse](s, 4, find).Coordinators[0].ErrorCode - 15 + 16,
		ask[*kmsg.OffsetFetchResponse](s, 9, fetch).Groups[0].ErrorCode,
		ask[*kmsg.OffsetFetchResponse](s, 5, fetch).ErrorCode,
		ask[*kmsg.OffsetFetchResponse](s, 1, fetch).Topics[0].Partitions[0].ErrorCode,
		ask[*kmsg.DescribeGroupsResponse](s, 6, describe).Groups[0].ErrorCode,
		ask[*kmsg.DeleteGroupsResponse](s, 2, del).Groups[0].ErrorCode,
		ask[*kmsg.ListGroupsResponse](s, 4, kmsg.NewPtrListGroupsRequest()).ErrorCode,
		ask[*kmsg.OffsetDeleteResponse](s, 0, kmsg.NewPtrOffsetDeleteRequest()).ErrorCode,
		s.commit(9, a, offsets("t", id, 1))[0],
	}
	for i, code := range codes {
		check.Equalf(t, code, 16, "%d", i)
	}
	if got := next.commit(9, a, offsets("t", id, 1)); got[0] != 22 {
		t.Fatal("commit of a member of the deposed broker:", got)
	}
}

func TestAnswersWithoutMemory(t *testing.T) {
	s := start(t)
	s.topic("t", 100)
	var all []broker.OffsetCommit
	for i := range 100 {
		all = append(all, broker.OffsetCommit{Topic: "t", Partition: int32(i), Metadata: strings.Repeat("m", 4096)})
	}
	s.b.CommitOffsets(t.Context(), "g", all)
	memory := s.b.Budget().Class(budget.Fetch)
	held := must.Get(memory.Reserve(memory.Limit() - 100_000))(t)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	if got := ask[*kmsg.OffsetFetchResponse](s, 9, fetch); got.Groups[0].ErrorCode != 15 || len(got.Groups[0].Topics) != 0 {
		t.Fatalf("%+v", got)
	}
	held.Release()
	if got := ask[*kmsg.OffsetFetchResponse](s, 9, fetch); got.Groups[0].ErrorCode != 0 || len(got.Groups[0].Topics[0].Partitions) != 100 {
		t.Fatalf("%+v", got)
	}
	sebtest.Eventually(t, "no memory is reserved", func() bool { return memory.Used() == 0 })
}

// TestCommitToUnknownPartitions: a commit reports unknown topics and partitions whatever its
// member, and commits the others.
func TestCommitToUnknownPartitions(t *testing.T) {
	s := start(t)
	id := [16]byte(s.topic("t", 1).ID)
	a := s.member(9)
	check.Equal(t, fmt.Sprint(s.commit(9, a, offsets("t", id, 3, 4))), "[0 3]")
	unauthenticated := *a
	unauthenticated.MemberID = "unknown"
	check.Equal(t, fmt.Sprint(s.commit(9, &unauthenticated, offsets("other", id, 3))), "[3]")
	check.Equal(t, fmt.Sprint(s.commit(9, &unauthenticated, offsets("t", id, 3, 4))), "[25 3]")
	r := kmsg.NewPtrOffsetDeleteRequest()
	if got := ask[*kmsg.OffsetDeleteResponse](s, 0, r); got.ErrorCode != 24 {
		t.Errorf("deletion in an unnamed group: %+v", got)
	}
}
