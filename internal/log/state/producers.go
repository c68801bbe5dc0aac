package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/sorting"
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

func encodeProducerBatch(b *ProducerBatch) []byte {
	out := protowire.AppendVarint(nil, uint64(b.ID+1))
	out = protowire.AppendVarint(out, uint64(uint16(b.Epoch)))
	out = protowire.AppendVarint(out, uint64(uint32(b.Sequence)))
	return protowire.AppendVarint(out, uint64(b.Span))
}

func decodeProducerBatch(b *ProducerBatch, m []byte) error {
	var v [4]uint64
	if err := packed(m, v[:]); err != nil {
		return err
	}
	if v[1] > math.MaxUint16 || v[2] > math.MaxUint32 || v[3] > math.MaxUint32 {
		return fmt.Errorf("producer's batch: %w", errWire)
	}
	*b = ProducerBatch{ID: int64(v[0]) - 1, Epoch: int16(v[1]), Sequence: int32(v[2]), Span: uint32(v[3])}
	return nil
}

// packed reads exactly len(v) varints.
func packed(m []byte, v []uint64) error {
	for i := range v {
		u, n := protowire.ConsumeVarint(m)
		if n < 0 {
			return errWire
		}
		v[i], m = u, m[n:]
	}
	if len(m) > 0 {
		return fmt.Errorf("%d bytes too many: %w", len(m), errWire)
	}
	return nil
}

// encodeProducers: per producer id, epoch, lastTime, count, then sequence, span and base of each
// run; by id.
func encodeProducers(producers map[int64]Producer) []byte {
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(producers)) {
		e := producers[id]
		for _, v := range [...]uint64{uint64(id), uint64(uint16(e.Epoch)), uint64(e.LastTime), uint64(e.Count)} {
			b = protowire.AppendVarint(b, v)
		}
		for _, r := range e.Last[:e.Count] {
			for _, v := range [...]uint64{uint64(uint32(r.Sequence)), uint64(r.Span), uint64(r.Base)} {
				b = protowire.AppendVarint(b, v)
			}
		}
	}
	return b
}

func (p *Partition) decodeProducers(b []byte) error {
	p.Producers = map[int64]Producer{}
	next := func() (v uint64, err error) {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return 0, errWire
		}
		b = b[n:]
		return v, nil
	}
	for len(b) > 0 {
		var head [4]uint64
		for i := range head {
			v, err := next()
			if err != nil {
				return err
			}
			head[i] = v
		}
		e := Producer{Epoch: int16(head[1]), LastTime: int64(head[2]), Count: uint8(head[3])}
		if head[1] > math.MaxUint16 || head[3] == 0 || head[3] > ProducerWindow {
			return fmt.Errorf("producer with %d batches: %w", head[3], errWire)
		}
		for i := range e.Last[:e.Count] {
			var run [3]uint64
			for j := range run {
				v, err := next()
				if err != nil {
					return err
				}
				run[j] = v
			}
			if run[0] > math.MaxUint32 || run[1] > math.MaxUint32 {
				return fmt.Errorf("batch of a producer: %w", errWire)
			}
			e.Last[i] = ProducerRun{int32(run[0]), uint32(run[1]), int64(run[2])}
		}
		p.Producers[int64(head[0])] = e
	}
	return nil
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
