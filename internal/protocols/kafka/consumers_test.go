package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/check"
)

// joining is the heartbeat of a joining member.
func joining(member string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.RebalanceTimeoutMillis, r.SubscribedTopicNames = "g", member, 60_000, []string{"t", "none"}
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

// TestConsumerLifecycle runs a member of the consumer protocol through all requests that concern
// it.
func TestConsumerLifecycle(t *testing.T) {
	for v := range int16(2) {
		t.Run(fmt.Sprint("v", v), func(t *testing.T) {
			s := start(t)
			id := [16]byte(s.topic("t", 3).ID)
			r := joining("mine")
			r.RackID = ref("r")
			if v == 1 {
				r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, ref("[t-z]")
			}
			a := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, v, r)
			if a.ErrorCode != 0 || a.MemberID == nil || *a.MemberID != "mine" || a.MemberEpoch <= 0 || a.HeartbeatIntervalMillis != 5000 ||
				a.Assignment == nil || len(a.Assignment.Topics) != 1 || a.Assignment.Topics[0].TopicID != id || fmt.Sprint(a.Assignment.Topics[0].Partitions) != "[0 1 2]" {
				t.Fatalf("%+v", a)
			}
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Group, beat.MemberID, beat.MemberEpoch = "g", "mine", a.MemberEpoch
			if got := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, v, beat); got.ErrorCode != 0 || got.Assignment != nil || got.MemberEpoch != a.MemberEpoch {
				t.Errorf("%+v", got)
			}
			s.consumerOffsets(a.MemberEpoch, id)
			s.describedConsumer(v, a.MemberEpoch, id)
			beat.MemberEpoch = -1
			if got := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, v, beat); got.ErrorCode != 0 || got.MemberEpoch != -1 {
				t.Errorf("%+v", got)
			}
			list := ask[*kmsg.ListGroupsResponse](s, 5, kmsg.NewPtrListGroupsRequest()).Groups
			if len(list) != 1 || list[0].GroupState != "Empty" {
				t.Errorf("%+v", list)
			}
		})
	}
}

// consumerOffsets commits and fetches offsets as the member, with an earlier epoch, and as an
// unknown member.
func (s *server) consumerOffsets(epoch int32, id [16]byte) {
	s.t.Helper()
	for _, c := range []struct {
		member string
		epoch  int32
		want   int16
	}{{"mine", epoch, 0}, {"mine", epoch - 1, 113}, {"other", epoch, 25}} {
		for v := int16(9); v <= 10; v++ {
			as := kmsg.NewPtrJoinGroupResponse()
			as.MemberID, as.Generation = c.member, c.epoch
			check.Equalf(s.t, fmt.Sprint(s.commit(v, as, offsets("t", id, 3))), fmt.Sprint([]int16{c.want}), "%+v v%d", c, v)
			r := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.MemberID, g.MemberEpoch = "g", &c.member, c.epoch
			r.Groups = append(r.Groups, g)
			got := ask[*kmsg.OffsetFetchResponse](s, v, r).Groups[0]
			if got.ErrorCode != c.want || c.want == 0 && (len(got.Topics) != 1 || got.Topics[0].Partitions[0].Offset != 3) {
				s.t.Errorf("%+v v%d: %+v", c, v, got)
			}
		}
	}
}

func (s *server) describedConsumer(v int16, epoch int32, id [16]byte) {
	s.t.Helper()
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{"g", "h"}
	got := ask[*kmsg.ConsumerGroupDescribeResponse](s, v, r).Groups
	if got[1].ErrorCode != 69 || got[1].ErrorMessage == nil {
		s.t.Errorf("%+v", got[1])
	}
	if got[0].ErrorCode != 0 || got[0].State != "Stable" || got[0].Epoch != epoch || got[0].AssignmentEpoch != epoch || got[0].AssignorName != "uniform" || len(got[0].Members) != 1 {
		s.t.Fatalf("%+v", got[0])
	}
	m := got[0].Members[0]
	if m.MemberID != "mine" || m.MemberEpoch != epoch || *m.RackID != "r" || m.ClientID != "raw" || m.ClientHost != "/127.0.0.1" || v == 1 && m.MemberType != 1 {
		s.t.Errorf("%+v", m)
	}
	for _, a := range []kmsg.Assignment{m.Assignment, m.TargetAssignment} {
		if len(a.TopicPartitions) != 1 || a.TopicPartitions[0].Topic != "t" || a.TopicPartitions[0].TopicID != id || fmt.Sprint(a.TopicPartitions[0].Partitions) != "[0 1 2]" {
			s.t.Errorf("%+v", a)
		}
	}
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{"g"}
	if g := ask[*kmsg.DescribeGroupsResponse](s, 6, classic).Groups[0]; g.ErrorCode != 69 {
		s.t.Errorf("%+v", g)
	}
	for kind, want := range map[string]int{"consumer": 1, "classic": 0} {
		list := kmsg.NewPtrListGroupsRequest()
		list.TypesFilter = []string{kind}
		if g := ask[*kmsg.ListGroupsResponse](s, 5, list).Groups; len(g) != want || want == 1 && (g[0].GroupType != kind || g[0].ProtocolType != "consumer" || g[0].GroupState != "Stable") {
			s.t.Errorf("%s: %+v", kind, g)
		}
	}
	if j := ask[*kmsg.JoinGroupResponse](s, 9, join("", "range")); j.ErrorCode != 23 {
		s.t.Errorf("%+v", j)
	}
}

// TestHeartbeatsThatAreRefused: a refusal has its code and a message.
func TestHeartbeatsThatAreRefused(t *testing.T) {
	s := start(t)
	s.topic("t", 1)
	if a := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, 0, joining("")); a.ErrorCode != 0 || *a.MemberID == "" {
		t.Fatalf("%+v", a) // v0: the broker chooses the member ID
	}
	for name, c := range map[string]struct {
		want   int16
		change func(r *kmsg.ConsumerGroupHeartbeatRequest)
	}{
		"no id":               {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }},
		"no owned partitions": {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
		"assignor":            {112, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ref("mine") }},
		"pattern":             {128, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = ref("(") }},
		"empty instance":      {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ref("") }},
		"empty rack":          {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ref("") }},
		"unknown member":      {25, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 7 }},
		"no group":            {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
		"too many names":      {81, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = make([]string, 20_000) }},
		"no rebalance time":   {42, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
	} {
		r := joining("x")
		c.change(r)
		a := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, 1, r)
		if a.ErrorCode != c.want || a.Assignment != nil || (a.ErrorMessage == nil) != (c.want == 25) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
