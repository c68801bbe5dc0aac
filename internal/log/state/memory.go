package state

// What the parts of a state take of a leader's memory, in bytes. A leader holds the tables twice, committed and with all
// frozen slots applied; a view that is being stored or merged shares most of them. TestMemory holds these figures against
// the heap.
const (
	RangeMemory     = 112 // of a range
	topicMemory     = 800
	partitionMemory = 64  // next to nothing here; it pays for those who list partitions
	writtenMemory   = 640 // of a partition to which something was written
	groupMemory     = 1400
	offsetMemory    = 320
	producerMemory  = 560
	settingMemory   = 96
	startMemory     = 32 // of a partition's epochs and marks
	packMemory      = 160
)

// tally counts what takes memory in a state, so that its size is known without going over it.
type tally struct {
	partitions, written int
	offsets             int // committed offsets of all groups
	producers           int // entries of all partitions
	settings            int
	ranges, starts      int
	text                int // bytes of names, settings and metadata
}

// Memory is about how many bytes of memory a leader needs for a state.
type Memory struct {
	Tables int64 // topics, partitions, offsets of groups, producers: what clients make by asking for it
	Ranges int64 // where the records lie: grows with every commit, and shrinks when packs are made
}

// Sum is all of it.
func (m Memory) Sum() int64 { return m.Tables + m.Ranges }

// Memory is about how many bytes a leader needs for the state. In a catalog Ranges is 0.
func (s *State) Memory() Memory {
	n := &s.tally
	return Memory{
		Tables: int64(len(s.topics))*topicMemory + int64(n.partitions)*partitionMemory + int64(n.written)*writtenMemory +
			int64(len(s.groups))*groupMemory + int64(n.offsets)*offsetMemory + int64(n.producers)*producerMemory +
			int64(n.settings)*settingMemory + int64(n.text),
		Ranges: int64(n.ranges)*RangeMemory + int64(n.starts)*startMemory + int64(len(s.packs))*packMemory,
	}
}

// Room is how far a catalog may grow.
type Room struct {
	Max        int64 // bytes of tables and ranges, as in Memory; 0: any
	Ranges     int64 // bytes of ranges of the committed state: a catalog has none
	RangesFull bool  // no more ranges: nothing is appended
}

// takes says whether the tables may grow by so many bytes.
func (s *State) takes(growth int64) bool {
	return growth == 0 || s.Room.Max <= 0 || s.Memory().Tables+growth <= s.Room.Max-s.Room.Ranges
}

func (s *State) full(ranges bool) error {
	return &StateFullError{Held: Memory{s.Memory().Tables, s.Room.Ranges}, Max: s.Room.Max, Ranges: ranges}
}

// growth is how many bytes of tables a record adds, about; 0 for one that adds nothing.
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

// countTopic adds a topic without its partitions' content to the tally, or takes it off.
func (n *tally) countTopic(t *Topic, sign int) {
	n.partitions += sign * t.Partitions.Len()
	n.settings += sign * len(t.Settings)
	n.text += sign * (len(t.Name) + textOf(t.Settings))
}

// countPartition adds a written partition to the tally, or takes it off.
func (n *tally) countPartition(p *Partition, sign int) {
	n.written += sign
	n.producers += sign * len(p.Producers)
	n.ranges += sign * len(p.Ranges)
	n.starts += sign * (len(p.Epochs) + len(p.Marks))
}

// countOffset adds a group's offset to the tally, or takes it off.
func (n *tally) countOffset(c *Committed, sign int) {
	n.offsets += sign
	n.text += sign * len(c.Metadata)
}

// recount goes over the state.
func (s *State) recount() (n tally) {
	for _, t := range s.topics {
		n.countTopic(t, 1)
		for _, p := range t.Partitions.Written() {
			n.countPartition(p, 1)
		}
	}
	for _, g := range s.groups {
		n.text += len(g.Name)
		for _, c := range g.Offsets {
			n.countOffset(&c, 1)
		}
	}
	return n
}
