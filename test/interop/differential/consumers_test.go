package differential

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// consumersWanted are the lines of the scenario in which the brokers differ, and the reasons.
var consumersWanted = map[string]string{
	"a heartbeat to a group that is not there": "members join again after a restart of the broker: Kafka's clients end at GROUP_ID_NOT_FOUND",
}

// TestConsumerProtocol plays the same scenario of members of the consumer protocol with Kafka and
// Seb, and compares the answers. It compares whether epochs have grown, and the number of assigned
// partitions.
func TestConsumerProtocol(t *testing.T) {
	testenv.InteropWanted(t)
	k := kafkaFor(t)
	s := must.Get(startSeb(t.Context()))(t)
	t.Cleanup(func() { check.NoError(t, s.stop(context.Background())) })
	began := time.Now()
	kafka, seb := newStory(t, "Kafka", k.address), newStory(t, "Seb", s.address)
	for _, y := range []*story{kafka, seb} {
		y.play()
	}
	if len(kafka.lines) != len(seb.lines) {
		t.Fatalf("%d lines of Kafka, %d of Seb", len(kafka.lines), len(seb.lines))
	}
	for i, line := range kafka.lines {
		other := seb.lines[i]
		_, wanted := consumersWanted[line.what]
		switch {
		case line.what != other.what:
			t.Fatalf("line %d is %q of Kafka, %q of Seb", i, line.what, other.what)
		case line.heard != other.heard && !wanted:
			t.Errorf("%s: Kafka: %s, Seb: %s", line.what, line.heard, other.heard)
		case line.heard == other.heard && wanted:
			t.Errorf("%s: both answer %s, but the table has a difference", line.what, line.heard)
		}
	}
	testenv.Report("Kafka "+kafkaVersion, fmt.Sprintf("the same story of the consumer protocol as Seb, %d lines", len(seb.lines)), time.Since(began))
}

// line is an action and its result.
type line struct{ what, heard string }

// story is the scenario with one broker.
type story struct {
	t     *testing.T
	c     *client
	group string
	topic string
	id    [16]byte
	lines []line
}

// hand is a member as its client knows it.
type hand struct {
	id, instance string
	epoch        int32
	owned        []int32
}

func newStory(t *testing.T, name, address string) *story {
	t.Helper()
	c, err := dial(address)
	must.NoErrorf(t, err, "%s", name)
	t.Cleanup(func() { _ = c.Close() })
	nonce := nonceNow()
	return &story{t: t, c: c, group: "group-" + nonce, topic: "topic-" + nonce}
}

func (y *story) record(what, format string, args ...any) {
	y.lines = append(y.lines, line{what, fmt.Sprintf(format, args...)})
}

// asked sends a request and ends the test without an answer.
func asked[R kmsg.Response](y *story, r kmsg.Request, version int16) R {
	y.t.Helper()
	o := y.c.ask(r, version)
	resp, ok := o.resp.(R)
	if !ok {
		y.t.Fatalf("%T v%d: %+v", r, version, o)
	}
	return resp
}

// request returns a member's full heartbeat.
func (y *story) request(m *hand) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = y.group, m.id, m.epoch, 60_000
	r.SubscribedTopicNames = []string{y.topic}
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(m.owned) > 0 {
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: y.id, Partitions: m.owned})
	}
	if m.instance != "" {
		r.InstanceID = &m.instance
	}
	return r
}

func (y *story) beat(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	y.t.Helper()
	return asked[*kmsg.ConsumerGroupHeartbeatResponse](y, r, 1)
}

// follow sends heartbeats of members, which follow the assignments, until each has the wanted
// number of partitions.
func (y *story) follow(what string, members []*hand, want ...int) {
	y.t.Helper()
	for until := time.Now().Add(lagTime); ; time.Sleep(againWait) {
		var have []int
		for _, m := range members {
			a := y.beat(y.request(m))
			must.Equalf(y.t, a.ErrorCode, 0, "%s: %s got code", what, m.id)
			m.epoch = a.MemberEpoch
			if a.Assignment != nil {
				m.owned = nil
				for _, t := range a.Assignment.Topics {
					m.owned = append(m.owned, t.Partitions...)
				}
			}
			have = append(have, len(m.owned))
		}
		slices.Sort(have)
		if slices.Equal(have, want) {
			y.record(what, "%v", have)
			return
		}
		if time.Now().After(until) {
			y.record(what, "%v, and no more", have)
			return
		}
	}
}

func (y *story) play() {
	y.t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = y.topic, 3, 1
	create.Topics, create.TimeoutMillis = append(create.Topics, topic), 10_000
	y.id = asked[*kmsg.CreateTopicsResponse](y, create, 7).Topics[0].TopicID
	y.coordinated()
	y.refusals()
	a, b := &hand{id: "member-a"}, &hand{id: "member-b"}
	y.follow("one has all", []*hand{a}, 3)
	before := a.epoch
	y.record("a second joins", "%d", y.beat(y.request(b)).ErrorCode)
	y.follow("two share", []*hand{a, b}, 1, 2)
	y.record("the epoch", "grown: %v, one: %v", a.epoch > before, a.epoch == b.epoch)
	y.epochs(a)
	y.commits(a, before)
	y.described()
	y.statics(a, b)
	r := y.request(a)
	r.MemberEpoch = -1
	left := y.beat(r)
	y.record("the first leaves", "%d %d", left.ErrorCode, left.MemberEpoch)
	y.record("and leaves again", "%d", y.beat(r).ErrorCode)
	y.follow("the second has all", []*hand{b}, 3)
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{y.group}
	y.record("deleted with a member", "%d", asked[*kmsg.DeleteGroupsResponse](y, del, 2).Groups[0].ErrorCode)
	r = y.request(b)
	r.MemberEpoch = -1
	y.record("the second leaves", "%d", y.beat(r).ErrorCode)
	y.record("deleted", "%d", asked[*kmsg.DeleteGroupsResponse](y, del, 2).Groups[0].ErrorCode)
}

// coordinated waits until the broker coordinates the group, which Kafka starts at the first
// request.
func (y *story) coordinated() {
	y.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(againWait) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = y.group
		found := asked[*kmsg.FindCoordinatorResponse](y, find, 2)
		heart := kmsg.NewPtrHeartbeatRequest()
		heart.Group, heart.MemberID = y.group, "unknown"
		if found.ErrorCode == 0 && asked[*kmsg.HeartbeatResponse](y, heart, 2).ErrorCode == codeUnknownMember {
			return
		}
		if time.Now().After(until) {
			y.t.Fatal("the group is not coordinated")
		}
	}
}

// refusals sends heartbeats that must be refused.
func (y *story) refusals() {
	y.t.Helper()
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		what   string
		change func(r *kmsg.ConsumerGroupHeartbeatRequest)
	}{
		{"a heartbeat without a group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
		{"a heartbeat without an id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }},
		{"an epoch below all", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }},
		{"away without an instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }},
		{"an instance without a name", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("") }},
		{"joining without a rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
		{"joining without topics", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }},
		{"joining with an empty list of topics", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Group, r.SubscribedTopicNames = y.group+"-empty", []string{}
		}},
		{"joining without what one has", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
		{"joining with partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: y.id, Partitions: []int32{0}}}
		}},
		{"an assignor that is not there", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("best") }},
		{"an assignor without a name", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("") }},
		{"a pattern that is none", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("(a") }},
		{"a heartbeat to a group that is not there", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 5 }},
	} {
		r := y.request(&hand{id: "unknown"})
		c.change(r)
		y.record(c.what, "%d", y.beat(r).ErrorCode)
	}
}

// epochs sends heartbeats with other epochs or ids than the member's.
func (y *story) epochs(m *hand) {
	y.t.Helper()
	for i, change := range []func(r *kmsg.ConsumerGroupHeartbeatRequest){
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch++ },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.Topics = m.epoch-2, nil },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "unknown" },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { none := "none"; r.InstanceID = &none },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
		func(*kmsg.ConsumerGroupHeartbeatRequest) {},
	} {
		r := y.request(m)
		change(r)
		a := y.beat(r)
		y.record(fmt.Sprint("epochs, ", i), "%d, assigned: %v, %v", a.ErrorCode, a.Assignment != nil, a.MemberEpoch == m.epoch)
	}
}

// commits sends commits and requests for offsets with a member's epoch and with others.
func (y *story) commits(m *hand, before int32) {
	y.t.Helper()
	for _, c := range []struct {
		what, member string
		epoch        int32
	}{
		{"its epoch", m.id, m.epoch},
		{"a later one", m.id, m.epoch + 1},
		{"one of before it had anything", m.id, before - 1},
		{"0", m.id, 0},
		{"no member's", "unknown", m.epoch},
		{"no member's", "", -1},
	} {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.MemberID, r.Generation = y.group, c.member, c.epoch
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = m.owned[0], 0
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: y.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		y.record("commit with "+c.what, "%d", asked[*kmsg.OffsetCommitResponse](y, r, 9).Topics[0].Partitions[0].ErrorCode)
		f := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch = y.group, c.epoch
		if c.member != "" {
			g.MemberID = &c.member
		}
		f.Groups = append(f.Groups, g)
		y.record("offsets with "+c.what, "%d", asked[*kmsg.OffsetFetchResponse](y, f, 9).Groups[0].ErrorCode)
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = y.group, "other", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	y.record("a member of another type", "%d", asked[*kmsg.JoinGroupResponse](y, join, 5).ErrorCode)
	heart := kmsg.NewPtrHeartbeatRequest()
	heart.Group, heart.MemberID, heart.Generation = y.group, "unknown", m.epoch
	y.record("a classic heartbeat", "%d", asked[*kmsg.HeartbeatResponse](y, heart, 4).ErrorCode)
}

func (y *story) described() {
	y.t.Helper()
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{y.group, "none"}
	for i, g := range asked[*kmsg.ConsumerGroupDescribeResponse](y, r, 1).Groups {
		y.record(fmt.Sprint("described, ", i), "%d %s %s %d members, one epoch: %v", g.ErrorCode, g.State, g.AssignorName, len(g.Members), g.Epoch == g.AssignmentEpoch)
		slices.SortFunc(g.Members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int {
			return int(a.MemberID[len(a.MemberID)-1]) - int(b.MemberID[len(b.MemberID)-1])
		})
		for _, m := range g.Members {
			count := func(a kmsg.Assignment) (n int) {
				for _, t := range a.TopicPartitions {
					if t.Topic != y.topic || t.TopicID != y.id {
						y.t.Errorf("%+v", t)
					}
					n += len(t.Partitions)
				}
				return n
			}
			y.record("a member of it", "%s %v %s %s of type %d, %d topics, all: %v", m.MemberID, m.InstanceID == nil, m.ClientID, m.ClientHost, m.MemberType, len(m.SubscribedTopics),
				count(m.Assignment) == count(m.TargetAssignment) && m.MemberEpoch == g.Epoch)
		}
	}
	old := kmsg.NewPtrDescribeGroupsRequest()
	old.Groups = []string{y.group}
	y.record("described as a classic group", "%d", asked[*kmsg.DescribeGroupsResponse](y, old, 6).Groups[0].ErrorCode)
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"Consumer"}
	for _, g := range asked[*kmsg.ListGroupsResponse](y, list, 5).Groups {
		if g.Group == y.group {
			y.record("listed", "%s %s %s", g.GroupType, g.ProtocolType, g.GroupState)
		}
	}
}

// statics plays a static member that joins two others, is away, returns with another id, and
// leaves.
func (y *story) statics(a, b *hand) {
	y.t.Helper()
	static := &hand{id: "static-one", instance: "instance"}
	joined := y.beat(y.request(static))
	static.epoch = joined.MemberEpoch
	y.record("a static member joins", "%d", joined.ErrorCode)
	y.follow("three share", []*hand{a, b, static}, 1, 1, 1)
	next := &hand{id: "static-two", instance: "instance"}
	y.record("another with its instance", "%d", y.beat(y.request(next)).ErrorCode)
	r := y.request(static)
	r.MemberEpoch = -2
	away := y.beat(r)
	y.record("it goes away", "%d %d", away.ErrorCode, away.MemberEpoch)
	y.follow("the others have what they had", []*hand{a, b}, 1, 1)
	had := static.owned
	y.follow("the other comes", []*hand{next, a, b}, 1, 1, 1)
	y.record("with what it had", "%v", slices.Equal(had, next.owned))
	y.record("the first is fenced", "%d", y.beat(y.request(static)).ErrorCode)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = y.group
	leave.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: &next.instance}, {MemberID: "unknown"}}
	left := asked[*kmsg.LeaveGroupResponse](y, leave, 5)
	for i, m := range left.Members {
		y.record(fmt.Sprint("removed, ", i), "%d %d", left.ErrorCode, m.ErrorCode)
	}
	y.follow("two share again", []*hand{a, b}, 1, 2)
}
