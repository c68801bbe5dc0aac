package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupName usually returns the name of a group that may exist.
func (w *generator) groupName() string {
	if w.chance(8) {
		return pick(w, "", w.prefix+"nogroup", w.prefix+"nogroup")
	}
	return pick(w, w.groups...)
}

func (w *generator) findCoordinator() *step {
	kind := pick(w, int8(0), 0, 0, 1, 2, 3, -1)
	keys := []string{w.groupName()}
	if w.chance(3) {
		keys = append(keys, w.groupName())
	}
	if w.chance(10) {
		keys = []string{}
	}
	st := &step{what: fmt.Sprintf("find the coordinator of %q, type %d", keys, kind), key: kmsg.FindCoordinator, version: anyVersion, reads: true}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorType, r.CoordinatorKeys = kind, keys
		if len(keys) > 0 {
			r.CoordinatorKey = keys[0]
		}
		return r
	}
	return st
}

func (w *generator) offsetCommit() *step {
	type commit struct {
		topic    string
		n        int32
		offset   int64
		metadata *string
	}
	var list []commit
	for range 1 + w.IntN(2) {
		c := commit{topic: w.topicName(), metadata: pick(w, text(""), text("m"), nil)}
		c.n = w.partition(c.topic)
		c.offset = pick(w, int64(0), 3, 100, -1, -2)
		if w.chance(12) {
			c.metadata = text(strings.Repeat("m", pick(w, 4096, 4097)))
		}
		if len(list) == 0 || list[0].topic != c.topic || list[0].n != c.n {
			list = append(list, c)
		}
	}
	var commits strings.Builder
	for _, c := range list {
		fmt.Fprintf(&commits, " %d in %s/%d", c.offset, c.topic, c.n)
	}
	group, actor, o, what := w.groupName(), mainActor, off{}, "as no member"
	var instance *string
	if a, ok := w.idle(); ok && w.members[a] != nil && w.members[a].phase > named && w.chance(2) {
		actor, group, instance, o = a, w.members[a].group, w.members[a].instance, w.off()
		what = fmt.Sprintf("as member %d%s", a, o.what)
	} else if w.chance(6) {
		o.member, what = "unknown", "as an unknown member"
	} else if w.chance(6) {
		o.generation, what = 5, "as no member, with a generation"
	}
	// Kafka stores it, so this group is used for nothing else.
	if strings.Contains(commits.String(), " -1 ") {
		group, actor, instance, o, what = w.prefix+"negative", mainActor, nil, off{}, "as no member"
	}
	st := &step{what: fmt.Sprintf("commit%s to %q %s", commits.String(), group, what), actor: actor, key: kmsg.OffsetCommit, version: anyVersion, group: group}
	if instance != nil {
		st.version = 7 + w.IntN16(4)
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.Generation, r.MemberID, r.InstanceID = group, -1+o.generation, o.member, instance
		if actor != mainActor {
			r.MemberID, r.Generation = o.as(s, actor)
		}
		for i, c := range list {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.Metadata = c.n, c.offset, c.metadata
			if i == 0 || list[i-1].topic != c.topic {
				t := kmsg.NewOffsetCommitRequestTopic()
				t.Topic, t.TopicID = c.topic, idOf(s, c.topic)
				r.Topics = append(r.Topics, t)
			}
			t := &r.Topics[len(r.Topics)-1]
			t.Partitions = append(t.Partitions, p)
		}
		return r
	}
	return st
}

func (w *generator) offsetFetch() *step {
	type ask struct {
		group  string
		all    bool
		topics []string
		n      []int32
	}
	var asks []ask
	for range 1 + w.IntN(2) {
		a := ask{group: w.groupName(), all: w.chance(3)}
		for range w.IntN(3) {
			name := w.topicName()
			if slices.Contains(a.topics, name) {
				continue
			}
			a.topics, a.n = append(a.topics, name), append(a.n, w.partition(name))
		}
		asks = append(asks, a)
	}
	if len(asks) == 2 && asks[0].group == asks[1].group {
		asks = asks[:1]
	}
	stable := w.chance(3)
	st := &step{what: fmt.Sprintf("offsets of %+v", asks), key: kmsg.OffsetFetch, version: anyVersion, reads: true}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group, r.RequireStable = asks[0].group, stable
		if !asks[0].all {
			r.Topics = []kmsg.OffsetFetchRequestTopic{}
			for i, name := range asks[0].topics {
				r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: []int32{asks[0].n[i]}})
			}
		}
		for _, a := range asks {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = a.group
			if !a.all {
				g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
				for i, name := range a.topics {
					t := kmsg.NewOffsetFetchRequestGroupTopic()
					t.Topic, t.TopicID, t.Partitions = name, idOf(s, name), []int32{a.n[i]}
					g.Topics = append(g.Topics, t)
				}
			}
			r.Groups = append(r.Groups, g)
		}
		return r
	}
	return st
}

func (w *generator) offsetDelete() *step {
	group, name := w.groupName(), w.topicName()
	n := w.partition(name)
	st := &step{what: fmt.Sprintf("delete the offset of %s/%d in %q", name, n, group), key: kmsg.OffsetDelete, version: anyVersion, group: group}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic, t.Partitions = name, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: n}}
		r.Topics = append(r.Topics, t)
		return r
	}
	return st
}

func (w *generator) describeGroups() *step {
	list := []string{w.groupName()}
	if other := w.groupName(); w.chance(3) && other != list[0] {
		list = append(list, other)
	}
	operations := w.chance(2)
	st := &step{what: fmt.Sprintf("describe %q", list), key: kmsg.DescribeGroups, version: anyVersion, reads: true}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups, r.IncludeAuthorizedOperations = list, operations
		return r
	}
	return st
}

func (w *generator) listGroups() *step {
	states := pick(w, nil, nil, []string{"Stable"}, []string{"Empty", "stable"}, []string{"nonsense"})
	types := pick(w, nil, nil, []string{"classic"}, []string{"Classic"}, []string{"consumer"}, []string{"nonsense"})
	st := &step{what: fmt.Sprintf("list groups %v %v", states, types), key: kmsg.ListGroups, version: anyVersion, reads: true}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrListGroupsRequest()
		r.StatesFilter, r.TypesFilter = states, types
		return r
	}
	return st
}

func (w *generator) deleteGroups() *step {
	list := []string{w.groupName()}
	for _, m := range w.members {
		if m.group == list[0] && m.phase == named {
			return nil // Kafka deletes the group and the id; see "a group without members"
		}
	}
	st := &step{what: fmt.Sprintf("delete groups %q", list), key: kmsg.DeleteGroups, version: anyVersion, group: list[0]}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = list
		return r
	}
	return st
}

// saslHandshake returns a handshake on an authenticated or a new connection.
func (w *generator) saslHandshake() *step {
	mechanism := pick(w, "PLAIN", "NONSENSE", "")
	anonymous := w.chance(2)
	st := &step{what: fmt.Sprintf("handshake %q, anonymous %v", mechanism, anonymous), key: kmsg.SASLHandshake, version: 1, actor: mainActor}
	if anonymous {
		st.actor = anonymousActor
	}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrSASLHandshakeRequest()
		r.Mechanism = mechanism
		return r
	}
	return st
}

// unsupported returns a request that no broker supports.
func (w *generator) unsupported() *step {
	type odd struct {
		what         string
		key, version int16
		body         []byte
		actor        int
	}
	o := pick(w,
		odd{"an unknown API key", 999, 0, nil, mainActor},
		odd{"Metadata v99", int16(kmsg.Metadata), 99, nil, mainActor},
		odd{"Fetch v0", int16(kmsg.Fetch), 0, make([]byte, 40), mainActor},
		odd{"JoinGroup v-1", int16(kmsg.JoinGroup), -1, nil, mainActor},
		odd{"Metadata that is cut off", int16(kmsg.Metadata), 1, []byte{0, 0, 0, 9}, mainActor},
		odd{"DescribeGroups with 2^31-1 groups", int16(kmsg.DescribeGroups), 0, []byte{0x7f, 0xff, 0xff, 0xff}, mainActor},
		odd{"Metadata without authentication", int16(kmsg.Metadata), 0, []byte{0, 0, 0, 0}, anonymousActor},
	)
	return &step{what: o.what, key: kmsg.Key(o.key), actor: o.actor, silent: true, raw: func(*side) []byte {
		return append(header(o.key, o.version, 1, false), o.body...)
	}}
}
