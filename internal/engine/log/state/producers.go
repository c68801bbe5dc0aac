package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/record"
)

const (
	// ProducerWindow is how many of a producer's newest batches per partition the state keeps: as
	// many as Kafka clients have in flight (KIP-98, max.in.flight.requests.per.connection).
	ProducerWindow = 5
	// ProducersMax bounds the producers over all partitions. Beyond it the state forgets an eighth,
	// those with the oldest batches first; a forgotten producer may continue with any sequence. The
	// bound must be the same for every broker, because equal logs must give equal states. So it
	// fits the smallest broker, which holds up to three copies (committed, overlay, a snapshot
	// being written) of about 200 bytes each, 5 MB in total.
	ProducersMax = 8_192
)

// Producer is the state of an idempotent producer in a partition.
type Producer struct {
	Epoch    int16
	Count    uint8 // used entries of Last
	Last     [ProducerWindow]ProducerRun
	LastTime int64 // append time of the newest batch, µs
}

// ProducerRun is one batch of a producer; Producer.Last has the newest first.
type ProducerRun struct {
	Sequence int32
	Span     uint32
	Base     int64
}

// CheckProducer reports whether a batch repeats one of the last ProducerWindow batches, which lies
// at base. If neither a duplicate nor in sequence it returns ErrSequenceGap, and for an old
// producer epoch ErrProducerFenced.
func (s *State) CheckProducer(topic record.ID, partition uint32, b *ProducerBatch) (base int64, duplicate bool, err error) {
	t := s.topics[topic]
	if t == nil || partition >= uint32(t.Partitions.Len()) {
		return 0, false, nil
	}
	p, known := t.Partitions.At(int(partition)).Producers[b.ID]
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

// applyProducer records a batch with the state's newest append time, that of the previous slot.
func (s *State) applyProducer(r *Record) {
	p := s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition)
	e, known := p.Producers[r.Producer.ID]
	if !known {
		if p.Producers == nil {
			p.Producers = map[int64]Producer{}
		}
		s.tally.producers++
	}
	if !known || e.Epoch != r.Producer.Epoch {
		e = Producer{Epoch: r.Producer.Epoch}
	}
	copy(e.Last[1:], e.Last[:])
	e.Last[0] = ProducerRun{r.Producer.Sequence, r.Producer.Span, r.Offset}
	e.Count = min(e.Count+1, ProducerWindow)
	e.LastTime = s.AppendTime
	p.Producers[r.Producer.ID] = e
	if s.tally.producers > ProducersMax {
		s.forgetProducers()
	}
}

// forgetProducers drops the eighth of the producers with the oldest batches. Equal states drop the
// same ones (rule R12).
func (s *State) forgetProducers() {
	type entry struct {
		topic     *Topic
		partition uint32
		id        int64
		lastTime  int64
	}
	all := make([]entry, 0, s.tally.producers)
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			for id, e := range p.Producers {
				all = append(all, entry{t, uint32(i), id, e.LastTime})
			}
		}
	}
	sorting.Sort(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.lastTime, b.lastTime), cmp.Compare(a.topic.Name, b.topic.Name),
			cmp.Compare(a.partition, b.partition), cmp.Compare(a.id, b.id))
	})
	for _, e := range all[:len(all)/8] {
		p := s.partitionForWrite(s.topicForWrite(e.topic.ID), e.partition)
		delete(p.Producers, e.id)
		s.tally.producers--
	}
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

// producerRow is a producer in a snapshot.
type producerRow struct {
	id int64
	Producer
}

// producerFields lists the producers as a field of packed varints, by ID.
func (p *Partition) producerFields(c *protobuf.Codec, num protowire.Number) {
	var list []producerRow
	if !c.Decoding() && len(p.Producers) > 0 {
		for _, id := range slices.Sorted(maps.Keys(p.Producers)) {
			list = append(list, producerRow{id, p.Producers[id]})
		}
	}
	if protobuf.Rows(c, num, "producers", &list, producerFields); c.Decoding() && len(list) > 0 {
		p.Producers = make(map[int64]Producer, len(list))
		for i := range list {
			p.Producers[list[i].id] = list[i].Producer
		}
	}
}

func producerFields(_, p *producerRow, c *protobuf.Codec) {
	epoch := uint16(p.Epoch)
	protobuf.Varint(c, &p.id)
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
