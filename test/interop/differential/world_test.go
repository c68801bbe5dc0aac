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
	what    string // for people
	actor   int    // the connection
	key     kmsg.Key
	version int16 // anyVersion: one that both speak
	// build makes the request for a side; what is random in it has been chosen before.
	build func(s *side) kmsg.Request
	// raw, if not nil, is sent instead, for what the codec does not make.
	raw func(s *side) []byte

	producer int    // that asks for an id
	group    string // that is joined

	small  bool // a fetch with a limit that may cut
	cut    bool // the partition has lost its first records
	dry    bool // nothing is to be changed
	silent bool // no answer is right, as of acks=0
	reads  bool // it changes nothing, so it may be asked again
	parks  bool // it may wait for other members
	// changes says that it may change topics, so that the run has to wait until both brokers show it.
	changes bool
	// after is called with Kafka's answer, when both have answered.
	after func(resp kmsg.Response)
}

const anyVersion = -1

// topic is what the generator knows of one.
type topic struct {
	name       string
	partitions int
	starts     map[int32]int64
	ends       map[int32]int64
}

// world is what the generator of one seed knows, all of it from Kafka's answers, and its chance.
type world struct {
	*rand.Rand
	prefix string
	topics map[string]*topic
	names  int // given to topics so far

	sequences map[seqKey]int32 // next sequence of a producer in a partition
	epochs    map[int]int16    // by how much producers have raised the epoch that they were given
	producers int
	members   map[int]*memberState // by connection
	groups    []string
	open      map[int]bool // connections with a request that waits
}

type seqKey struct {
	producer  int
	topic     string
	partition int32
}

// The connections: one for what is not about members, and some for members.
const (
	mainActor    = 0
	firstMember  = 1
	membersCount = 4
)

// groupsCount is small, so that members meet.
const groupsCount = 3

// newWorld makes the generator of a seed. nonce keeps its names apart from those of other runs; it is always of the same length.
func newWorld(seed uint64, nonce string) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 0x5eb)), prefix: fmt.Sprintf("s%d-%s-", seed, nonce), topics: map[string]*topic{},
		sequences: map[seqKey]int32{}, epochs: map[int]int16{}, members: map[int]*memberState{}, open: map[int]bool{},
	}
	for i := range groupsCount {
		w.groups = append(w.groups, fmt.Sprintf("%sgroup%d", w.prefix, i))
	}
	return w
}

// pick is one of a list.
func pick[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// sorted are the topics in the order of their names.
func (w *world) sorted() []*topic {
	list := make([]*topic, 0, len(w.topics))
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		list = append(list, w.topics[name])
	}
	return list
}

// some is a topic that is there; nil if there is none.
func (w *world) some() *topic {
	list := w.sorted()
	if len(list) == 0 {
		return nil
	}
	return list[w.IntN(len(list))]
}

// fresh is a name that no topic had.
func (w *world) fresh() string {
	w.names++
	return fmt.Sprintf("%stopic%d", w.prefix, w.names)
}

// topicName is mostly that of a topic that is there.
func (w *world) topicName() string {
	if t := w.some(); t != nil && !w.chance(8) {
		return t.name
	}
	return w.prefix + "nowhere"
}

// partition is mostly one that is there.
func (w *world) partition(name string) int32 {
	if t := w.topics[name]; t != nil && !w.chance(12) {
		return w.Int32N(int32(t.partitions))
	}
	return pick(w, int32(0), 7, -1)
}

// offset is an interesting one of a partition: around its ends, and anywhere between.
func (w *world) offset(name string, p int32) int64 {
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

// idOf is a topic's id on a side; one that nobody has if it has none.
func idOf(s *side, name string) [16]byte {
	if id, ok := s.topics[name]; ok {
		return id
	}
	return [16]byte{0xde, 0xad, 15: 0x01}
}

// areas are the kinds of steps and how often each comes.
var areas = []struct {
	weight int
	next   func(w *world) *step
}{
	{3, (*world).apiVersions},
	{10, (*world).metadata},
	{7, (*world).createTopics},
	{2, (*world).deleteTopics},
	{3, (*world).createPartitions},
	{28, (*world).produce},
	{4, (*world).initProducer},
	{22, (*world).fetch},
	{12, (*world).listOffsets},
	{6, (*world).offsetForLeaderEpoch},
	{4, (*world).deleteRecords},
	{5, (*world).describeConfigs},
	{3, (*world).alterConfigs},
	{4, (*world).incrementalAlterConfigs},
	{4, (*world).describeTopicPartitions},
	{2, (*world).describeCluster},
	{4, (*world).findCoordinator},
	{30, (*world).membership},
	{14, (*world).offsetCommit},
	{10, (*world).offsetFetch},
	{3, (*world).offsetDelete},
	{5, (*world).describeGroups},
	{3, (*world).listGroups},
	{3, (*world).deleteGroups},
	{4, (*world).absent},
	{2, (*world).saslHandshake},
	{2, (*world).unsupported},
}

// next is the next step.
func (w *world) next() *step {
	if len(w.topics) < 2 {
		return w.createPlain()
	}
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
