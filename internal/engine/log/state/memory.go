package state

import "math"

// Estimates of a leader's memory for the parts of a state, in bytes. A leader holds the tables
// twice, committed and in the overlay; a view that is being stored or merged shares most of them.
// TestMemory compares the estimates with the heap.
const (
	RangeMemory     = 112 // per range
	topicMemory     = 800
	partitionMemory = 64  // little is used here; it pays for listing partitions
	writtenMemory   = 640 // per partition with data
	groupMemory     = 1400
	offsetMemory    = 320
	producerMemory  = 168 // a catalog has no copy
	settingMemory   = 96
	startMemory     = 32 // per epoch start and mark of a partition
	packMemory      = 160
	queueMemory     = 256 // per partition of a queue with changes
	queueSentMemory = 40
	queueTryMemory  = 64
)

// tally counts the parts of a state that take memory, so that its size is known without visiting
// it.
type tally struct {
	partitions, written int
	offsets             int // committed offsets of all groups
	producers           int // entries of all partitions
	settings            int
	ranges, starts      int
	queues              int // bytes
	text                int // bytes of names, settings and metadata
	transactions        int // bytes
	staged              int // offsets of open transactions
	aborted             int // transactions, in each partition
}

// Memory is an estimate of a leader's memory for a state, in bytes.
type Memory struct {
	Tables int64 // topics, partitions, group offsets, producers: created by requests of clients
	Ranges int64 // object ranges: grow with every commit, shrink when packs are made
	Queues int64 // messages of queues that are delayed, leased, tried again, or done before older ones
}

// Sum is the total.
func (m Memory) Sum() int64 { return m.Tables + m.Ranges + m.Queues }

// Memory estimates a leader's memory for the state. Ranges and Queues are not meaningful in a catalog.
func (s *State) Memory() Memory {
	n := &s.tally
	return Memory{
		Tables: int64(len(s.topics))*topicMemory + int64(n.partitions)*partitionMemory + int64(n.written)*writtenMemory +
			int64(len(s.groups))*groupMemory + int64(n.offsets)*offsetMemory + int64(n.producers)*producerMemory +
			int64(n.settings)*settingMemory + int64(n.text) + s.Access.Memory() + int64(n.transactions),
		Ranges: int64(n.ranges)*RangeMemory + int64(n.starts)*startMemory + int64(len(s.packs))*packMemory + int64(n.aborted)*abortedMemory,
		Queues: int64(n.queues),
	}
}

// Room is the limit to the growth of a catalog.
type Room struct {
	Max        int64 // bytes of tables and ranges, as in Memory; 0: unlimited
	Ranges     int64 // bytes of ranges of the committed state, because a catalog has none
	Queues     int64 // the same for queues
	RangesFull bool  // no more ranges: appends are refused
}

// fits reports whether the tables may grow by growth bytes.
func (s *State) fits(growth int64) bool {
	return growth == 0 || s.Room.Max <= 0 || s.Memory().Tables+growth <= s.Room.Max-s.Room.Ranges-s.Room.Queues
}

func (s *State) full(ranges bool) error {
	return &StateFullError{Held: Memory{s.Memory().Tables, s.Room.Ranges, s.Room.Queues}, Max: s.Room.Max, Ranges: ranges}
}

// ProducersWithin is how many producers a state may hold whose memory has a limit in bytes: they take
// at most two thirds of it.
func ProducersWithin(bytes int64) int { return int(bytes / 3 * 2 / producerMemory) }

// ProducersMemory is the inverse of ProducersWithin.
func ProducersMemory(producers int) int64 { return int64(producers) * producerMemory / 2 * 3 }

// ProducerRoom is the number of producers for which a catalog has memory; it may be negative.
func (s *State) ProducerRoom() int {
	if s.Room.Max <= 0 {
		return math.MaxInt
	}
	return int((s.Room.Max - s.Room.Ranges - s.Room.Queues - s.Memory().Tables) / producerMemory)
}

// growth is an estimate of the bytes of tables that a record adds.
func (s *State) growth(r *Record) int64 {
	switch r.Kind {
	case TopicCreate:
		return topicMemory + int64(r.Partitions)*partitionMemory + int64(len(r.Settings))*settingMemory + int64(len(r.Name)+textOf(r.Settings))
	case TopicChange:
		t := s.topics[r.Topic]
		more := int64(max(0, int(r.Partitions)-t.Partitions.Len())) * partitionMemory
		return more + max(0, int64(len(r.Settings)-len(t.Settings))*settingMemory+int64(textOf(r.Settings)-textOf(t.Settings)))
	case OffsetCommit:
		g := s.groups[r.Name]
		if g == nil {
			return groupMemory + offsetMemory + int64(len(r.Name)+len(r.Metadata))
		}
		c, known := g.Offsets[PartitionID{r.Topic, r.Partition}]
		if !known {
			return offsetMemory + int64(len(r.Metadata))
		}
		return max(0, int64(len(r.Metadata)-len(c.Metadata)))
	case TransactionUpdate:
		return s.transactionGrowth(r)
	case AccessChange:
		return s.Access.Growth(r.Access)
	}
	return 0
}

func textOf(settings map[string]string) int {
	n := 0
	for k, v := range settings {
		n += len(k) + len(v)
	}
	return n
}

// countTopic adds a topic, without the content of its partitions, to the tally (sign 1) or
// subtracts it (sign -1).
func (n *tally) countTopic(t *Topic, sign int) {
	n.partitions += sign * t.Partitions.Len()
	n.settings += sign * len(t.Settings)
	n.text += sign * (len(t.Name) + textOf(t.Settings))
}

// countPartition adds a written partition to the tally or subtracts it.
func (n *tally) countPartition(p *Partition, sign int) {
	n.written += sign
	n.producers += sign * p.Producers.n
	n.ranges += sign * len(p.Ranges)
	n.starts += sign * (len(p.Epochs) + len(p.Marks))
	n.queues += sign * p.queueMemory
	n.aborted += sign * len(p.Aborted)
}

// countTransaction adds a transaction to the tally or subtracts it.
func (n *tally) countTransaction(t *Transaction, sign int) {
	n.transactions += sign * t.memory()
	n.staged += sign * len(t.Offsets)
}

// countOffset adds a group's offset to the tally or subtracts it.
func (n *tally) countOffset(c *Committed, sign int) {
	n.offsets += sign
	n.text += sign * len(c.Metadata)
}

// recount computes the tally by visiting the whole state.
func (s *State) recount() (n tally) {
	for _, t := range s.topics {
		n.countTopic(t, 1)
		for _, p := range t.Partitions.Written() {
			n.countPartition(p, 1)
		}
	}
	for _, t := range s.transactions {
		n.countTransaction(t, 1)
	}
	for _, g := range s.groups {
		n.text += len(g.Name)
		for _, c := range g.Offsets {
			n.countOffset(&c, 1)
		}
	}
	return n
}
