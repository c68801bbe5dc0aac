package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// phase is the progress of a member.
type phase int

const (
	outside  phase = iota // in no group
	named                 // has an id to join with
	joined                // in a generation, without an assignment
	synced                // has an assignment
	behind                // must join again
	unproven              // must join again, on a new connection
)

// memberState is the generator's knowledge of the member on a connection.
type memberState struct {
	group    string
	phase    phase
	instance *string
	protocol []string
	kind     string
}

// The codes that change a member's phase.
const (
	codeIllegalGeneration = 22
	codeUnknownMember     = 25
	codeRebalance         = 27
	codeMemberIDRequired  = 79
	codeFencedInstance    = 82
)

// moved changes the phase for a code.
func (m *memberState) moved(code int16, success phase) {
	switch code {
	case 0:
		m.phase = success
	case codeRebalance, codeIllegalGeneration:
		m.phase = behind
	case codeMemberIDRequired:
		m.phase = named
	case codeUnknownMember, codeFencedInstance:
		m.phase, m.instance = outside, nil
	}
}

// idle returns a connection without an open request; false if there is none.
func (w *generator) idle() (int, bool) {
	var list []int
	for a := firstMember; a < firstMember+membersCount; a++ {
		if !w.open[a] {
			list = append(list, a)
			if m := w.members[a]; m != nil && (m.phase == behind || m.phase == joined) {
				list = append(list, a, a, a) // others may wait for it
			}
		}
	}
	if len(list) == 0 {
		return 0, false
	}
	return list[w.IntN(len(list))], true
}

// membership returns a step of a member.
func (w *generator) membership() *step {
	actor, ok := w.idle()
	if !ok {
		return nil
	}
	m := w.members[actor]
	if m == nil {
		m = &memberState{}
		w.members[actor] = m
	}
	if w.chance(8) {
		return w.oddJoin(actor)
	}
	switch m.phase {
	case outside:
		m.group, m.kind = pick(w, w.groups...), "consumer"
		if m.group == w.groups[len(w.groups)-1] {
			m.kind = "other"
		}
		// Equal votes depend on Kafka's hash map.
		m.protocol = pick(w, []string{"range"}, []string{"range", "roundrobin"})
		if m.instance = nil; w.chance(5) {
			m.instance = text(fmt.Sprintf("instance%d", actor))
		}
		return w.join(actor, m, false)
	case named, behind:
		if w.chance(10) {
			return w.leave(actor, m)
		}
		return w.join(actor, m, true)
	case joined:
		if w.chance(6) {
			return w.heartbeat(actor, m)
		}
		return w.sync(actor, m)
	}
	switch w.IntN(8) {
	case 0:
		return w.join(actor, m, true)
	case 1:
		m.protocol = pick(w, []string{"range"}, []string{"range", "roundrobin"})
		return w.join(actor, m, true)
	case 2:
		return w.leave(actor, m)
	case 3:
		return w.sync(actor, m)
	}
	return w.heartbeat(actor, m)
}

// subscription returns a member's subscription.
func (w *generator) subscription() []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 0
	m.Topics = []string{w.topicName()}
	return m.AppendTo(nil)
}

func (w *generator) join(actor int, m *memberState, known bool) *step {
	metadata := w.subscription()
	group, instance, kind, protocols := m.group, m.instance, m.kind, slices.Clone(m.protocol)
	st := &step{
		what: fmt.Sprintf("member %d joins %s, known %v, with %v, instance %v", actor, group, known, protocols, instance != nil), actor: actor,
		key: kmsg.JoinGroup, version: anyVersion, group: group, parks: true,
	}
	if instance != nil {
		st.version = 5 + w.IntN16(5) // the first with static members, and later
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType, r.InstanceID = group, 300_000, 300_000, kind, instance
		if known {
			r.MemberID = s.members[actor].id
		}
		for _, p := range protocols {
			r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: metadata})
		}
		return r
	}
	st.after = func(resp kmsg.Response) { m.moved(resp.(*kmsg.JoinGroupResponse).ErrorCode, joined) }
	return st
}

// oddJoin returns a join that is usually refused.
func (w *generator) oddJoin(actor int) *step {
	type odd struct {
		what, group, member, kind string
		protocols                 []string
		session                   int32
		instance                  *string
	}
	o := odd{"", pick(w, w.groups...), "", "consumer", []string{"range"}, 300_000, nil}
	switch w.IntN(9) {
	case 0:
		o.what, o.member = "unknown member", "unknown"
	case 1:
		o.what, o.session = "session too short", 10
	case 2:
		o.what, o.session = "session too long", 1_800_001
	case 3:
		o.what, o.group = "no group", ""
	case 4:
		o.what, o.protocols = "no protocols", nil
	case 5:
		o.what, o.kind = "no type of protocol", ""
	case 6:
		o.what, o.protocols, o.member = "a protocol that no member has", []string{"mine"}, "unknown"
	case 7:
		o.what, o.member, o.instance = "unknown instance with a member id", "unknown", text("unknown")
	case 8:
		o.what, o.group, o.member = "a missing group", w.prefix+"nogroup", "unknown"
	}
	return &step{
		what: "join: " + o.what, actor: mainActor, key: kmsg.JoinGroup, version: anyVersion, group: o.group,
		build: func(*side) kmsg.Request {
			r := kmsg.NewPtrJoinGroupRequest()
			r.Group, r.MemberID, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = o.group, o.member, o.session, 300_000, o.kind
			r.InstanceID = o.instance
			for _, p := range o.protocols {
				r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte("x")})
			}
			return r
		},
	}
}

// off is a deviation of a request from the member's generation or id.
type off struct {
	what       string
	generation int32
	member     string
}

func (w *generator) off() off {
	switch w.IntN(10) {
	case 0:
		return off{what: ", generation too large", generation: 1}
	case 1:
		return off{what: ", generation too small", generation: -1}
	case 2:
		return off{what: ", another's id", member: "unknown"}
	}
	return off{}
}

// as returns the id and generation that a member's request has.
func (o *off) as(s *side, actor int) (string, int32) {
	m := s.members[actor]
	if o.member != "" {
		return o.member, m.generation
	}
	return m.id, m.generation + o.generation
}

func (w *generator) sync(actor int, m *memberState) *step {
	o := w.off()
	group, instance, kind := m.group, m.instance, m.kind
	protocol := text(m.protocol[0])
	if w.chance(3) {
		protocol = nil
	}
	wrongKind := w.chance(15)
	st := &step{
		what: fmt.Sprintf("member %d syncs in %s%s, protocol %v", actor, group, o.what, protocol != nil), actor: actor, key: kmsg.SyncGroup,
		version: anyVersion, group: group, parks: true,
	}
	if instance != nil {
		st.version = 3 + w.IntN16(3)
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Group, r.InstanceID, r.Protocol = group, instance, protocol
		r.MemberID, r.Generation = o.as(s, actor)
		if protocol != nil {
			r.ProtocolType = text(kind)
		}
		if wrongKind {
			r.ProtocolType = text("wrong")
		}
		if me := s.members[actor]; me.leader {
			list := slices.Clone(me.members)
			slices.SortFunc(list, func(a, b string) int { return strings.Compare(s.symbols.of("member", a), s.symbols.of("member", b)) })
			for i, id := range list {
				a := kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(fmt.Sprintf("part %d", i))}
				r.GroupAssignment = append(r.GroupAssignment, a)
			}
		}
		return r
	}
	st.after = func(resp kmsg.Response) {
		if o == (off{}) {
			m.moved(resp.(*kmsg.SyncGroupResponse).ErrorCode, synced)
		}
	}
	return st
}

func (w *generator) heartbeat(actor int, m *memberState) *step {
	o := w.off()
	group, instance := m.group, m.instance
	st := &step{
		what: fmt.Sprintf("member %d lives in %s%s", actor, group, o.what), actor: actor, key: kmsg.Heartbeat, version: anyVersion, group: group,
	}
	if instance != nil {
		st.version = 3 + w.IntN16(2)
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.InstanceID = group, instance
		r.MemberID, r.Generation = o.as(s, actor)
		return r
	}
	st.after = func(resp kmsg.Response) {
		if o == (off{}) {
			m.moved(resp.(*kmsg.HeartbeatResponse).ErrorCode, m.phase)
		}
	}
	return st
}

func (w *generator) leave(actor int, m *memberState) *step {
	group, instance := m.group, m.instance
	withUnknown, onlyInstance := w.chance(6), w.chance(2)
	st := &step{what: fmt.Sprintf("member %d leaves %s", actor, group), actor: actor, key: kmsg.LeaveGroup, version: anyVersion, group: group}
	if instance != nil {
		st.version = 3 + w.IntN16(3)
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group, r.MemberID = group, s.members[actor].id
		out := kmsg.NewLeaveGroupRequestMember()
		out.MemberID, out.InstanceID = r.MemberID, instance
		if instance != nil && onlyInstance {
			out.MemberID = ""
		}
		r.Members = append(r.Members, out)
		if withUnknown {
			other := kmsg.NewLeaveGroupRequestMember()
			other.MemberID = "unknown"
			r.Members = append(r.Members, other)
		}
		return r
	}
	st.after = func(resp kmsg.Response) {
		if resp.(*kmsg.LeaveGroupResponse).ErrorCode == 0 {
			m.phase, m.instance = outside, nil
		}
	}
	return st
}
