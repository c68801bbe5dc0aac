package differential

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// step is one request to both brokers.
type step struct {
	what    string // description
	actor   int    // the connection
	key     kmsg.Key
	version int16 // anyVersion: one that both support
	// build makes the request for a side. Random values have been chosen before.
	build func(s *side) kmsg.Request
	// raw, if not nil, is sent instead, for requests that the codec does not make.
	raw func(s *side) []byte

	producer int // that requests an id
	// transactional is the transactional ID that the step is about, and awaits means that it first waits
	// until no transaction of it is open.
	transactional string
	awaits        bool
	late          bool   // the transaction has had its timeout
	from, until   int16  // versions that it may have; 0: no limit
	group         string // that is joined

	small  bool // a fetch with a limit that may cut
	cut    bool // the partition has lost its first records
	dry    bool // nothing is to be changed
	silent bool // no answer is correct, as with acks=0
	reads  bool // it changes nothing, so it may be repeated
	parks  bool // it may wait for other members
	// changes means that it may change topics, so the run must wait until both brokers return the
	// change.
	changes bool
	// marker is a topic that watchActor may create once both brokers apply the changed rules.
	marker string
	// after is called with Kafka's answer, after both have answered.
	after func(resp kmsg.Response)
}

const anyVersion = -1

// topic is the generator's knowledge of a topic.
type topic struct {
	name       string
	partitions int
	starts     map[int32]int64
	ends       map[int32]int64
}

// generator is the generator of one seed's steps: its knowledge, all from Kafka's answers, and its
// randomness.
type generator struct {
	*rand.Rand
	prefix string
	topics map[string]*topic
	names  int // given to topics so far

	sequences map[seqKey]int32 // next sequence of a producer in a partition
	epochs    map[int]int16    // increments of the assigned epochs of producers
	producers int
	members   map[int]*memberState // by connection
	groups    []string
	limited   string // a user to whom rules apply, "" for none
	markers   int
	open      map[int]bool // connections with an open request
}

type seqKey struct {
	producer  int
	topic     string
	partition int32
}

// The connections: one for requests that are not about members, and some for members.
const (
	mainActor    = 0
	firstMember  = 1
	membersCount = 4
	limitedActor = 9  // the user to whom rules apply
	watchActor   = 10 // a user that may only create the last marker
)

// groupsCount is small, so that members share groups.
const groupsCount = 3

// newGenerator returns the generator of a seed. nonce distinguishes its names from those of other
// runs; its length is constant.
func newGenerator(seed uint64, nonce string) *generator {
	w := &generator{
		Rand: rand.New(rand.NewPCG(seed, 0x5eb)), prefix: fmt.Sprintf("s%d-%s-", seed, nonce), topics: map[string]*topic{},
		sequences: map[seqKey]int32{}, epochs: map[int]int16{}, members: map[int]*memberState{}, open: map[int]bool{},
	}
	for i := range groupsCount {
		w.groups = append(w.groups, fmt.Sprintf("%sgroup%d", w.prefix, i))
	}
	return w
}

// pick returns one of a list.
func pick[T any](w *generator, list ...T) T { return list[w.IntN(len(list))] }

// chance is true once in n times.
func (w *generator) chance(n int) bool { return w.IntN(n) == 0 }

// sorted returns the topics ordered by name.
func (w *generator) sorted() []*topic {
	list := make([]*topic, 0, len(w.topics))
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		list = append(list, w.topics[name])
	}
	return list
}

// some returns an existing topic; nil if there is none.
func (w *generator) some() *topic {
	list := w.sorted()
	if len(list) == 0 {
		return nil
	}
	return list[w.IntN(len(list))]
}

// fresh returns a name that no topic had.
func (w *generator) fresh() string {
	w.names++
	return fmt.Sprintf("%stopic%d", w.prefix, w.names)
}

// topicName usually returns the name of an existing topic.
func (w *generator) topicName() string {
	if t := w.some(); t != nil && !w.chance(8) {
		return t.name
	}
	return w.prefix + "nowhere"
}

// partition usually returns an existing partition.
func (w *generator) partition(name string) int32 {
	if t := w.topics[name]; t != nil && !w.chance(12) {
		return w.Int32N(int32(t.partitions))
	}
	return pick(w, int32(0), 7, -1)
}

// offset returns an interesting offset of a partition: around its ends, or anywhere between.
func (w *generator) offset(name string, p int32) int64 {
	t := w.topics[name]
	if t == nil {
		return int64(w.IntN(3))
	}
	start, end := t.starts[p], t.ends[p]
	switch w.IntN(8) {
	case 0:
		return start - 1
	case 1:
		return start
	case 2:
		return end
	case 3:
		return end + 1
	}
	return start + w.Int64N(max(1, end-start))
}

// idOf returns a topic's id on a side, or an unused one.
func idOf(s *side, name string) [16]byte {
	if id, ok := s.topics[name]; ok {
		return id
	}
	return [16]byte{0xde, 0xad, 15: 0x01}
}

// areas are the kinds of steps with their weights.
var areas = []struct {
	weight int
	next   func(w *generator) *step
}{
	{3, (*generator).apiVersions},
	{10, (*generator).metadata},
	{7, (*generator).createTopics},
	{2, (*generator).deleteTopics},
	{3, (*generator).createPartitions},
	{28, (*generator).produce},
	{4, (*generator).initProducer},
	{22, (*generator).fetch},
	{12, (*generator).listOffsets},
	{6, (*generator).offsetForLeaderEpoch},
	{4, (*generator).deleteRecords},
	{5, (*generator).describeConfigs},
	{3, (*generator).alterConfigs},
	{4, (*generator).incrementalAlterConfigs},
	{4, (*generator).describeTopicPartitions},
	{2, (*generator).describeCluster},
	{4, (*generator).findCoordinator},
	{30, (*generator).membership},
	{14, (*generator).offsetCommit},
	{10, (*generator).offsetFetch},
	{3, (*generator).offsetDelete},
	{5, (*generator).describeGroups},
	{3, (*generator).listGroups},
	{3, (*generator).deleteGroups},
	{4, (*generator).absent},
	{3, (*generator).describeRules},
	{2, (*generator).oddRules},
	{2, (*generator).changeRules},
	{3, (*generator).passwords},
	{1, (*generator).describePasswords},
	{3, (*generator).changeQuotas},
	{2, (*generator).describeQuotas},
	{2, (*generator).saslHandshake},
	{2, (*generator).unsupported},
}

// next returns the next step. With rules, most steps come from the limited user.
func (w *generator) next() *step {
	if len(w.topics) < 2 {
		return w.createPlain()
	}
	if w.limited == "" {
		return w.any()
	}
	if w.chance(12) {
		return w.changeRules()
	}
	st := w.any()
	if st.actor == mainActor && st.raw == nil && st.marker == "" && !w.chance(5) {
		st.actor = limitedActor
		st.what += ", limited"
	}
	return st
}

// any returns a step of any area.
func (w *generator) any() *step {
	for {
		total := 0
		for _, a := range areas {
			total += a.weight
		}
		n := w.IntN(total)
		for _, a := range areas {
			if n -= a.weight; n < 0 {
				if st := a.next(w); st != nil {
					return st
				}
				break
			}
		}
	}
}
