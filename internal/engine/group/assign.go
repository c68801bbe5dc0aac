package group

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// The assignors: the algorithms by which the coordinator assigns partitions.
const (
	// Uniform gives all members the same number of partitions, within one if all subscribe to the
	// same topics. It moves as few partitions as possible.
	Uniform = "uniform"
	// Range gives each member adjacent partitions of each topic. Topics with the same number of
	// partitions are split alike.
	Range = "range"
)

// Assignors lists the names of all assignors. Groups whose members prefer none use the first.
func Assignors() []string { return []string{Uniform, Range} }

// topic is a topic that members subscribe to.
type topic struct {
	id         [16]byte
	partitions int32
	members    []*consumer // its subscribers
}

// assign sets every member's target.
func (cs *consumers) assign(assignor string) {
	topics := cs.subscriptions()
	if assignor == Range {
		assignRanges(cs.order, topics)
	} else {
		assignUniformly(cs.order, topics)
	}
	for _, m := range cs.order {
		sorting.Sort(m.target, comparePartitions)
	}
}

// subscriptions lists the existing topics by name, each with its subscribers by ID.
func (cs *consumers) subscriptions() []topic {
	byName := map[string]int{}
	var topics []topic
	members := slices.SortedFunc(slices.Values(cs.order), func(a, b *consumer) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.id, b.id))
	})
	for _, name := range cs.known.names() {
		byName[name] = len(topics)
		topics = append(topics, topic{id: cs.known.topics[name].ID, partitions: cs.known.topics[name].Partitions})
	}
	for _, m := range members {
		for _, name := range m.subscribed {
			if i, ok := byName[name]; ok {
				topics[i].members = append(topics[i].members, m)
			}
		}
	}
	return topics
}

func assignRanges(members []*consumer, topics []topic) {
	for _, m := range members {
		m.target = nil
	}
	for _, t := range topics {
		n := int32(len(t.members))
		for i, m := range t.members {
			for p := t.partitions * int32(i) / n; p < t.partitions*int32(i+1)/n; p++ {
				m.target = append(m.target, Partition{t.id, p})
			}
		}
	}
}

// assignUniformly balances the partitions in three steps:
//   - Members keep the partitions that they may still have.
//   - Partitions without an owner go to the member with the fewest.
//   - A partition moves while its owner has at least two more than another member that may have it.
func assignUniformly(members []*consumer, topics []topic) {
	keepTargets(members, topics)
	var all []candidate
	taken := map[Partition]*consumer{}
	for _, m := range members {
		for _, p := range m.target {
			taken[p] = m
		}
	}
	for i := range topics {
		t := &topics[i]
		if len(t.members) == 0 {
			continue
		}
		for n := range t.partitions {
			all = append(all, candidate{t, Partition{t.id, n}, taken[Partition{t.id, n}]})
		}
	}
	for _, m := range members {
		m.load = len(m.target)
	}
	// Topics with few subscribers come first.
	sorting.Stable(all, func(a, b candidate) int { return cmp.Compare(len(a.topic.members), len(b.topic.members)) })
	for moved := true; moved; {
		moved = false
		for i := range all {
			p := &all[i]
			to := slices.MinFunc(p.topic.members, func(a, b *consumer) int { return cmp.Compare(a.load, b.load) })
			if p.owner != nil && p.owner.load-to.load < 2 {
				continue
			}
			if p.owner != nil {
				p.owner.load--
			}
			to.load++
			p.owner, moved = to, true
		}
	}
	for _, m := range members {
		m.target = nil
	}
	for _, p := range all {
		p.owner.target = append(p.owner.target, p.partition)
	}
}

// candidate is a partition and the member that gets it.
type candidate struct {
	topic     *topic
	partition Partition
	owner     *consumer // nil: unassigned
}

// keepTargets removes partitions that no longer exist or are no longer subscribed to.
func keepTargets(members []*consumer, topics []topic) {
	type reader struct {
		id [16]byte
		m  *consumer
	}
	counts := map[reader]int32{}
	for i := range topics {
		for _, m := range topics[i].members {
			counts[reader{topics[i].id, m}] = topics[i].partitions
		}
	}
	for _, m := range members {
		m.target = m.target.filter(func(p Partition) bool { return p.Number < counts[reader{p.Topic, m}] })
	}
}

// Partition is a partition of a topic.
type Partition struct {
	Topic  [16]byte
	Number int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Number, b.Number))
}

// partitions is a sorted set. The functions below return new sets.
type partitions []Partition

// setOf builds a set from a client's list, which has any order.
func setOf(list []Partition) partitions {
	own := slices.Clone(list)
	sorting.Sort(own, comparePartitions)
	return slices.Compact(own)
}

func (s partitions) has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(s, p, comparePartitions)
	return ok
}

// intersect is the intersection of s and o.
func (s partitions) intersect(o partitions) partitions {
	return s.filter(o.has)
}

// without is s minus o.
func (s partitions) without(o partitions) partitions {
	return s.filter(func(p Partition) bool { return !o.has(p) })
}

func (s partitions) filter(keep func(Partition) bool) partitions {
	var left partitions
	for _, p := range s {
		if keep(p) {
			left = append(left, p)
		}
	}
	return left
}

// union is the union of s and o.
func (s partitions) union(o partitions) partitions {
	return setOf(append(slices.Clone(s), o...))
}

// disjoint reports whether s and o are disjoint.
func (s partitions) disjoint(o partitions) bool { return !slices.ContainsFunc(s, o.has) }

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// DecodeAssignment decodes the assignment of a member of the classic protocol, in the layout of
// protocol type "consumer": version, topics with their partitions, and data of the assignor, which
// it ignores. Members write assignments and the broker does not check them, so ok is false for
// other data.
func DecodeAssignment(data []byte) (list []TopicPartitions, ok bool) {
	r := assignmentReader{data: data}
	r.take(2) // version
	for n := r.count(6); n > 0; n-- {
		t := TopicPartitions{Topic: string(r.take(int(binary.BigEndian.Uint16(r.take(2)))))}
		for k := r.count(4); k > 0; k-- {
			t.Partitions = append(t.Partitions, int32(binary.BigEndian.Uint32(r.take(4))))
		}
		if r.short {
			return nil, false
		}
		list = append(list, t)
	}
	return list, !r.short
}

// assignmentReader reads fields of an assignment. After its end it is short, and fields are zero.
type assignmentReader struct {
	data  []byte
	short bool
}

func (r *assignmentReader) take(n int) []byte {
	if n > len(r.data) {
		r.short, r.data = true, nil
		return make([]byte, min(n, 4))
	}
	field := r.data[:n]
	r.data = r.data[n:]
	return field
}

// count reads the length of an array whose elements have at least size bytes.
func (r *assignmentReader) count(size int) int {
	n := int(int32(binary.BigEndian.Uint32(r.take(4))))
	if n > len(r.data)/size {
		r.short = true
		return 0
	}
	return max(n, 0)
}
