package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/record"
)

// State is the fold of the log up to Pos. It is not safe for concurrent use; View gives an
// immutable copy cheaply.
type State struct {
	Cluster    record.ID
	Shard      uint32
	Pos        Position  // next slot to replay
	Nonce      record.ID // nonce of epoch Pos.Epoch
	PrevCRC    uint32    // head checksum of the slot before Pos; 0 at genesis
	AppendTime int64     // newest append time, µs
	// Epochs are the epochs of the chain that may still be looked up (forgetEpochs), ascending; the
	// last is Pos.Epoch.
	Epochs []Epoch
	// Level is the format level. It decides which kinds of records and objects the log may hold.
	Level uint32
	// LostBranches are the branches that recoveries have cut off the log, oldest first.
	LostBranches []LostBranch
	// Latest is the newest append time ever, µs: above AppendTime after a TimeReset.
	Latest int64
	// Sealer is the run that sealed the newest epoch; zero: a program or a bucket below LevelStandby,
	// or a broker that has no standbys.
	Sealer Run
	// Promise is the time in ms within which the leader stores the slot at Pos; 0: no promise.
	Promise uint32
	// Access holds principals and rules.
	Access access.Table
	// Room bounds the growth that Propose and Reserve accept in a catalog; the zero value is
	// unlimited. Apply ignores it, because the log is already written.
	Room Room

	topics   map[record.ID]*Topic
	names    map[string]*Topic
	groups   map[string]*Group
	packs    map[PackID]Pack // not modified in place once a view shares it: see packsForWrite
	packsGen uint64
	tally    tally
	// transactions are by transactional ID, producing is the IDs by their producer.
	transactions map[string]*Transaction
	producing    map[int64]string
	// partitions and topics with an older gen are shared with a view: copy before writing
	gen     uint64
	noRange bool // a catalog: offsets only
	// slotTime is the append time of the slot that is being applied or, in a catalog, frozen, µs.
	slotTime int64
	changes  *producerChanges // of a catalog
	frozen   bool             // a view
}

// Genesis is the state before the first slot: epoch 0, whose nonce is the cluster id.
func Genesis(cluster record.ID, shard uint32) *State {
	return &State{
		Cluster: cluster, Shard: shard, Nonce: cluster, Level: LevelFirst,
		Epochs: []Epoch{{Number: 0, Nonce: cluster}},
		topics: map[record.ID]*Topic{}, names: map[string]*Topic{}, groups: map[string]*Group{}, packs: map[PackID]Pack{},
		transactions: map[string]*Transaction{}, producing: map[int64]string{},
	}
}

// Topic returns a topic by id, or nil.
func (s *State) Topic(id record.ID) *Topic { return s.topics[id] }

// TopicByName returns a topic by name, or nil.
func (s *State) TopicByName(name string) *Topic { return s.names[name] }

// Topics returns all topics by name.
func (s *State) Topics() []*Topic {
	all := make([]*Topic, 0, len(s.topics))
	for _, t := range s.topics {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Len is the number of topics.
func (s *State) Len() int { return len(s.topics) }

// View returns an immutable copy that shares topics and partitions with s. s copies them before it
// changes them. A view costs a pointer per topic.
func (s *State) View() *State {
	v := *s
	v.frozen = true
	v.Access = s.Access.Share()
	v.topics, v.names, v.groups = maps.Clone(s.topics), maps.Clone(s.names), maps.Clone(s.groups)
	v.transactions, v.producing = maps.Clone(s.transactions), maps.Clone(s.producing)
	v.Epochs = slices.Clip(s.Epochs)
	s.Epochs = slices.Clip(s.Epochs)
	s.gen++
	return &v
}

// Catalog returns a copy without ranges: the overlay to which frozen slots are applied before they
// are committed (rule R2).
func (s *State) Catalog() *State {
	c := *s
	c.frozen, c.noRange = false, true
	c.Access = s.Access.Share()
	c.Epochs = slices.Clone(s.Epochs)
	c.topics = make(map[record.ID]*Topic, len(s.topics))
	c.names = make(map[string]*Topic, len(s.topics))
	for id, t := range s.topics {
		n := &Topic{ID: t.ID, Name: t.Name, Settings: t.Settings, Partitions: t.Partitions.catalog()}
		c.topics[id], c.names[n.Name] = n, n
	}
	c.gen = 0
	c.packs = maps.Clone(s.packs)
	c.packsGen = 0
	c.tally.ranges, c.tally.starts, c.tally.queues, c.tally.aborted = 0, 0, 0, 0
	c.changes = changesOf(s)
	c.transactions, c.producing = make(map[string]*Transaction, len(s.transactions)), maps.Clone(s.producing)
	for id, t := range s.transactions {
		n := *t
		n.gen, n.Parts, n.Offsets = 0, slices.Clone(t.Parts), slices.Clone(t.Offsets)
		c.transactions[id] = &n
	}
	c.groups = make(map[string]*Group, len(s.groups))
	for name, g := range s.groups {
		c.groups[name] = &Group{Name: name, Offsets: maps.Clone(g.Offsets)}
	}
	return &c
}

// Bytes is the size of the batches in the bucket: those of the topics, and those in packs that no
// range refers to any more. It visits every partition.
func (s *State) Bytes() (n int64) {
	for _, t := range s.topics {
		for _, p := range t.Partitions.Written() {
			n += p.Bytes
		}
	}
	for _, p := range s.packs {
		n += p.Size - p.Live
	}
	return n
}

// Key is the name of the commit object in a slot of an epoch on the chain; "" if the epoch is not
// on the chain or was forgotten.
func (s *State) Key(epoch uint32, slot uint64) string {
	i, ok := slices.BinarySearchFunc(s.Epochs, epoch, func(e Epoch, n uint32) int { return cmp.Compare(e.Number, n) })
	if !ok {
		return ""
	}
	return SlotKey(s.Shard, epoch, s.Epochs[i].Nonce, slot)
}

// RangeKey is the name of the object that holds a range; "" if its epoch is not on the chain.
func (s *State) RangeKey(r *Range) string {
	if !r.Pack {
		return s.Key(r.Epoch, r.Slot)
	}
	i, ok := slices.BinarySearchFunc(s.Epochs, r.Epoch, func(e Epoch, n uint32) int { return cmp.Compare(e.Number, n) })
	if !ok {
		return ""
	}
	return PackKey(s.Shard, r.Epoch, s.Epochs[i].Nonce, r.Slot)
}

// Find returns the index in Ranges of the range that contains offset, or -1.
func (p *Partition) Find(offset int64) int {
	i, ok := slices.BinarySearchFunc(p.Ranges, offset, func(r Range, o int64) int {
		switch {
		case r.End() <= o:
			return -1
		case r.Base > o:
			return 1
		}
		return 0
	})
	if !ok {
		return -1
	}
	return i
}

// topicForWrite returns a topic that no view shares, or nil.
func (s *State) topicForWrite(id record.ID) *Topic {
	t := s.topics[id]
	if t == nil || t.gen == s.gen {
		return t
	}
	n := *t
	n.gen = s.gen
	n.Partitions.chunks = slices.Clone(t.Partitions.chunks)
	s.topics[id], s.names[n.Name] = &n, &n
	return &n
}

// partitionForWrite returns a partition of t (from topicForWrite) that no view shares. Its slices
// stay shared: they are only appended to beyond the length that a view sees, or cut.
func (s *State) partitionForWrite(t *Topic, i uint32) *Partition {
	p := t.Partitions.At(int(i))
	if p.gen == s.gen {
		return p
	}
	if p == unwritten {
		s.tally.written++
	}
	n := *p
	n.gen = s.gen
	n.Producers.chunks = slices.Clone(p.Producers.chunks)
	t.Partitions.set(int(i), &n)
	return &n
}

// Run names one life of one broker process.
type Run struct {
	Node record.ID // of the data folder, kept there
	ID   record.ID // drawn at each start
}

func (r Run) String() string { return fmt.Sprintf("%s/%s", r.Node, r.ID) }

// IsZero reports whether r names no run.
func (r Run) IsZero() bool { return r == Run{} }

// field lists the run as a field: its node and its ID. A decoded run is not zero.
func (r *Run) field(c *protobuf.Codec, num protowire.Number, name string) {
	n := len(r.Node)
	b := [2 * 16]byte{}
	copy(b[copy(b[:], r.Node[:]):], r.ID[:])
	if c.Fixed(num, name, b[:]); c.Decoding() {
		copy(r.ID[:], b[copy(r.Node[:], b[:n]):])
		if c.Has(num) && r.IsZero() {
			c.Fail(fmt.Errorf("%s without an id: %w", name, errWire))
		}
	}
}

// Ends is the Within of the last slot of a leader that ends: no slot follows.
const Ends = 1

// promise sets what the newest slot says about the next one: a slot without a promise ends the
// promise of the slot before it.
func (s *State) promise(recs []Record) {
	s.Promise = 0
	for i := range recs {
		if recs[i].Kind == NextSlot {
			s.Promise = recs[i].Within
		}
	}
}

// checkLevel checks that a snapshot has no field of a level above its own.
func (s *State) checkLevel() error {
	if s.Level < LevelStandby && (s.Promise != 0 || !s.Sealer.IsZero()) {
		return fmt.Errorf("promise or sealer at format level %d: %w", s.Level, errWire)
	}
	owned := false
	if s.Level < LevelProducers {
		s.eachProducer(func(_ ProducerKey, p *Producer) { owned = owned || p.Owner != 0 })
	}
	if owned {
		return fmt.Errorf("owner of a producer at format level %d: %w", s.Level, errWire)
	}
	return nil
}
