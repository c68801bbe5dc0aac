package group

import (
	"cmp"
	"slices"
)

// The assignors: how partitions are shared out by the coordinator.
const (
	// Uniform gives all members as many partitions, within one where all have the same topics, and moves as few as it can.
	Uniform = "uniform"
	// Range gives each member neighbouring partitions of each topic, the same of topics with as many partitions.
	Range = "range"
)

// Assignors are the names of all assignors; the first is that of groups whose members wish for none.
func Assignors() []string { return []string{Uniform, Range} }

// topic is a topic that members are subscribed to.
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
		slices.SortFunc(m.target, comparePartitions)
	}
}

// subscriptions lists the topics that there are by name, each with its subscribers by id.
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
			if at, ok := byName[name]; ok {
				topics[at].members = append(topics[at].members, m)
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

// assignUniformly keeps what members have as far as it is theirs to have, gives what nobody has to who has least, and then
// moves partitions from who has two more than another that may have them, until there is nobody like that.
func assignUniformly(members []*consumer, topics []topic) {
	keepTargets(members, topics)
	var all []placed
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
			all = append(all, placed{t, Partition{t.id, n}, taken[Partition{t.id, n}]})
		}
	}
	for _, m := range members {
		m.load = len(m.target)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(len(a.topic.members), len(b.topic.members)) }) // who can go to few goes first
	for moved := true; moved; {
		moved = false
		for i := range all {
			p := &all[i]
			to := leastLoaded(p.topic.members)
			if p.at != nil && p.at.load-to.load < 2 {
				continue
			}
			if p.at != nil {
				p.at.load--
			}
			to.load++
			p.at, moved = to, true
		}
	}
	for _, m := range members {
		m.target = nil
	}
	for _, p := range all {
		p.at.target = append(p.at.target, p.partition)
	}
}

// placed is a partition and who has it.
type placed struct {
	topic     *topic
	partition Partition
	at        *consumer // nil: nobody
}

// keepTargets takes from targets what is not there any more, or not subscribed to.
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

func leastLoaded(members []*consumer) *consumer {
	return slices.MinFunc(members, func(a, b *consumer) int { return cmp.Compare(a.load, b.load) })
}
