package state

import (
	"cmp"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/record"
)

const (
	// ProducerWindow is how many of a producer's newest batches per partition the state keeps: as
	// many as Kafka clients have in flight (KIP-98, max.in.flight.requests.per.connection).
	ProducerWindow = 5
	// ProducersMax bounds the producers over all partitions below LevelProducers: beyond it the state
	// forgets an eighth, those with the oldest batches first. From that level on only ProducersForget
	// records forget.
	ProducersMax = 8_192
)

// Producer is the state of an idempotent producer in a partition.
type Producer struct {
	ID       int64
	LastTime int64                       // append time of the newest batch, µs
	Last     [ProducerWindow]ProducerRun // its newest batches, the newest first
	Owner    uint32                      // of the newest batch, as OwnerOf; 0: none is known
	Epoch    int16
	Count    uint8 // used entries of Last
}

// ProducerRun is one batch of a producer.
type ProducerRun struct {
	Sequence int32
	Span     uint32
	Base     int64
}

// OwnerOf returns the number under which the state counts the producers of a principal; "" is the
// root key. It is never 0. Two principals with one number share what one of them may hold.
func OwnerOf(principal string) uint32 {
	const offset, prime = 2166136261, 16777619 // hash/fnv would allocate
	h := uint32(offset)
	for i := range len(principal) {
		h = (h ^ uint32(principal[i])) * prime
	}
	return max(1, h)
}

// ProducerKey identifies the state of a producer in a partition.
type ProducerKey struct {
	PartitionID
	ID int64
}

// Producer returns the state of a producer in a partition, if it is known.
func (s *State) Producer(k ProducerKey) (p Producer, known bool) {
	if s.changes != nil {
		return s.changes.producer(k)
	}
	t := s.topics[k.Topic]
	if t == nil || k.Partition >= uint32(t.Partitions.Len()) {
		return p, false
	}
	if e := t.Partitions.At(int(k.Partition)).Producers.get(k.ID); e != nil {
		return *e, true
	}
	return p, false
}

// Producers is the number of known producers, over all partitions.
func (s *State) Producers() int { return s.tally.producers }

// CheckProducer reports whether a batch repeats one of the last ProducerWindow batches, which lies
// at base. If neither a duplicate nor in sequence it returns ErrSequenceGap, and for an old
// producer epoch ErrProducerFenced.
func (s *State) CheckProducer(topic record.ID, partition uint32, b *ProducerBatch) (base int64, duplicate bool, err error) {
	if s.topics[topic] == nil {
		return 0, false, nil
	}
	p, known := s.Producer(ProducerKey{PartitionID{topic, partition}, b.ID})
	switch {
	case !known:
		return 0, false, nil // new or forgotten: any sequence is accepted
	case b.Epoch < p.Epoch:
		return 0, false, ErrProducerFenced
	case b.Epoch > p.Epoch:
		if b.Sequence != 0 {
			return 0, false, ErrSequenceGap
		}
		return 0, false, nil
	}
	for _, r := range p.Last[:p.Count] {
		if r.Sequence == b.Sequence && r.Span == b.Span {
			return r.Base, true, nil
		}
	}
	if b.Sequence != nextSequence(p.Last[0]) {
		return 0, false, ErrSequenceGap
	}
	return 0, false, nil
}

// nextSequence is the sequence after a run; sequences wrap from the largest int32 to 0.
func nextSequence(r ProducerRun) int32 {
	return int32((int64(r.Sequence) + int64(r.Span)) & math.MaxInt32)
}

// applyProducer records a batch with the append time of its slot, below LevelProducers with that of the
// previous one.
func (s *State) applyProducer(r *Record) {
	k := ProducerKey{PartitionID{r.Topic, r.Partition}, r.Producer.ID}
	e, known := s.Producer(k)
	if known {
		s.countProducer(&e, -1)
	}
	if !known || e.Epoch != r.Producer.Epoch {
		e = Producer{ID: k.ID, Owner: e.Owner, Epoch: r.Producer.Epoch}
	}
	if r.Owner != 0 {
		e.Owner = r.Owner
	}
	copy(e.Last[1:], e.Last[:])
	e.Last[0] = ProducerRun{r.Producer.Sequence, r.Producer.Span, r.Offset}
	e.Count = min(e.Count+1, ProducerWindow)
	if e.LastTime = s.slotTime; s.Level < LevelProducers {
		e.LastTime = s.AppendTime
	}
	s.countProducer(&e, 1)
	if r.Transactional {
		defer s.produced(r)
	}
	if s.changes != nil {
		s.changes.batches[k] = producerChange{e, s.Pos.Slot, false}
		s.changes.found.ok = false
		return
	}
	s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition).Producers.put(s.gen, e)
	if s.Level < LevelProducers && s.tally.producers > ProducersMax {
		s.forgetEighth()
	}
}

// countProducer adds a producer to the counts (sign 1) or subtracts it (sign -1).
func (s *State) countProducer(p *Producer, sign int) {
	s.tally.producers += sign
	if s.changes != nil && s.changes.held != nil {
		s.changes.held[p.Owner] += sign
	}
}

// eachProducer calls f for every known producer, in no order.
func (s *State) eachProducer(f func(ProducerKey, *Producer)) {
	if s.changes != nil {
		s.changes.each(s, f)
		return
	}
	for _, t := range s.topics {
		t.eachProducer(f)
	}
}

func (t *Topic) eachProducer(f func(ProducerKey, *Producer)) {
	for i, p := range t.Partitions.Written() {
		for e := range p.Producers.All() {
			f(ProducerKey{PartitionID{t.ID, uint32(i)}, e.ID}, e)
		}
	}
}

// forgetEighth drops the eighth of the producers with the oldest batches. Equal states drop the same
// ones (rule R12).
func (s *State) forgetEighth() {
	type entry struct {
		topic    string
		key      ProducerKey
		lastTime int64
	}
	all := make([]entry, 0, s.tally.producers)
	s.eachProducer(func(k ProducerKey, p *Producer) {
		all = append(all, entry{s.topics[k.Topic].Name, k, p.LastTime})
	})
	sorting.Sort(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.lastTime, b.lastTime), cmp.Compare(a.topic, b.topic),
			cmp.Compare(a.key.Partition, b.key.Partition), cmp.Compare(a.key.ID, b.key.ID))
	})
	old := map[PartitionID]map[int64]bool{}
	for _, e := range all[:len(all)/8] {
		if old[e.key.PartitionID] == nil {
			old[e.key.PartitionID] = map[int64]bool{}
		}
		old[e.key.PartitionID][e.key.ID] = true
	}
	for id, ids := range old { //tidy:unordered each entry changes another partition
		s.dropProducers(id, func(p *Producer) bool { return ids[p.ID] })
	}
}

// forgets reports whether a ProducersForget record forgets a producer.
func (r *Record) forgets(p *Producer) bool {
	return p.LastTime < r.Time && (r.Owner == 0 || r.Owner == p.Owner)
}

// forgetsIn is forgets, except for a producer with an open transaction in the partition.
func (s *State) forgetsIn(r *Record, k ProducerKey, p *Producer) bool {
	return r.forgets(p) && !s.holds(k)
}

// forgetProducers applies a ProducersForget record.
func (s *State) forgetProducers(r *Record) {
	if s.changes != nil {
		s.changes.forget(s, r)
		return
	}
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			id := PartitionID{t.ID, uint32(i)}
			forgets := func(e *Producer) bool { return s.forgetsIn(r, ProducerKey{id, e.ID}, e) }
			for e := range p.Producers.All() {
				if forgets(e) {
					s.dropProducers(id, forgets)
					break
				}
			}
		}
	}
}

// resetProducers gives producers whose newest batches are of after a TimeReset its time: otherwise they
// would not get older until the log time is that of those batches.
func (s *State) resetProducers(time int64) {
	if s.changes != nil || s.Level < LevelProducers {
		return
	}
	var later []Producer
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			later = later[:0]
			for e := range p.Producers.All() {
				if e.LastTime > time {
					later = append(later, *e)
				}
			}
			for _, e := range later {
				e.LastTime = time
				s.partitionForWrite(s.topicForWrite(t.ID), uint32(i)).Producers.put(s.gen, e)
			}
		}
	}
}

// dropProducers drops the producers of a partition that f selects.
func (s *State) dropProducers(id PartitionID, f func(*Producer) bool) {
	p := s.partitionForWrite(s.topicForWrite(id.Topic), id.Partition)
	s.tally.producers -= p.Producers.n
	p.Producers.drop(s.gen, f)
	s.tally.producers += p.Producers.n
}

func (b *ProducerBatch) row(c *protobuf.Codec) {
	id, epoch, sequence := b.ID+1, uint16(b.Epoch), uint32(b.Sequence)
	protobuf.Varint(c, &id)
	protobuf.Varint(c, &epoch)
	protobuf.Varint(c, &sequence)
	if protobuf.Varint(c, &b.Span); c.Decoding() {
		b.ID, b.Epoch, b.Sequence = id-1, int16(epoch), int32(sequence)
	}
}

// producerFields lists the producers as a field of packed varints, by ID, and from LevelProducers on
// their owners as another, in the same order.
func (p *Partition) producerFields(c *protobuf.Codec, num, owners protowire.Number) {
	var list []Producer
	var of []uint32
	if !c.Decoding() && p.Producers.n > 0 {
		list = make([]Producer, 0, p.Producers.n)
		owned := false
		for e := range p.Producers.All() {
			list, of = append(list, *e), append(of, e.Owner)
			owned = owned || e.Owner != 0
		}
		if !owned {
			of = nil
		}
	}
	protobuf.Rows(c, num, "producers", &list, producerRow)
	for i := range list {
		if c.Decoding() {
			p.Producers.put(0, list[i])
		}
	}
	if at := c.At(owners); at || !c.Decoding() {
		protobuf.Rows(c, owners, "owners", &of, func(_, owner *uint32, c *protobuf.Codec) { protobuf.Varint(c, owner) })
		if at && !p.Producers.setOwners(of) {
			c.Fail(fmt.Errorf("%d owners of %d producers: %w", len(of), p.Producers.n, errWire))
		}
	}
}

func producerRow(_, p *Producer, c *protobuf.Codec) {
	epoch := uint16(p.Epoch)
	protobuf.Varint(c, &p.ID)
	protobuf.Varint(c, &epoch)
	protobuf.Varint(c, &p.LastTime)
	if protobuf.Varint(c, &p.Count); p.Count == 0 || p.Count > ProducerWindow {
		c.Fail(fmt.Errorf("producer with %d batches: %w", p.Count, errWire))
		return
	}
	for i := range p.Last[:p.Count] {
		r := &p.Last[i]
		sequence := uint32(r.Sequence)
		protobuf.Varint(c, &sequence)
		protobuf.Varint(c, &r.Span)
		if protobuf.Varint(c, &r.Base); c.Decoding() {
			r.Sequence = int32(sequence)
		}
	}
	if c.Decoding() {
		p.Epoch = int16(epoch)
	}
}

// Bits of a producer id that a broker gives: 1 zero, the shard, the epoch, a number.
const (
	producerEpochBits  = 21
	producerNumberBits = 32
)

// ProducerID returns the id of the producer with a number that the leader of a shard in an epoch
// gives. No other leader gives it: a shard has one leader in an epoch, and producers of two shards
// may write to one partition. Shards are below 1,024. Ids repeat after 2,097,152 epochs.
func ProducerID(shard, epoch, number uint32) int64 {
	return int64(shard)<<(producerEpochBits+producerNumberBits) | int64(epoch)%(1<<producerEpochBits)<<producerNumberBits | int64(number)
}
