package client

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// producer is one idempotent producer of one partition. At most one request uses it at a time, so
// its sequences arrive in order over any connection. Concurrent calls use different producers,
// because their order is undefined anyway.
type producer struct {
	id       int64
	epoch    int16
	sequence int32
}

// idleProducersMax bounds the idle producers. All are dropped when it is reached. That is safe,
// because a new producer is always allowed.
const idleProducersMax = 4096

// partitionName identifies a partition.
type partitionName struct {
	topic     string
	partition int32
}

// atomicRequests is the name of the producers of atomic requests, which have all partitions.
var atomicRequests = partitionName{partition: -1}

// producerPool has the idle producers of a client.
type producerPool struct {
	mu   sync.Mutex // guards idle and n
	idle map[partitionName][]*producer
	n    int
}

// take returns a producer for exclusive use. It prefers the one that was returned last, so that the
// number of producers is that of concurrent calls.
func (s *producerPool) take(to partitionName) *producer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.idle[to]
	if len(list) == 0 {
		return newProducer()
	}
	s.idle[to] = list[:len(list)-1]
	s.n--
	return list[len(list)-1]
}

func (s *producerPool) give(to partitionName, p *producer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil || s.n >= idleProducersMax {
		s.idle, s.n = map[partitionName][]*producer{}, 0
	}
	s.idle[to] = append(s.idle[to], p)
	s.n++
}

// newProducer draws a random 63-bit ID, so that collisions are negligible.
func newProducer() *producer { return &producer{id: rand.Int64N(math.MaxInt64) + 1} }

// header sets the headers of the producer's next request.
func (p *producer) header(h map[string]string) {
	h[api.HeaderProducerID] = strconv.FormatInt(p.id, 10)
	h[api.HeaderProducerEpoch] = strconv.Itoa(int(p.epoch))
	h[api.HeaderSequence] = strconv.Itoa(int(p.sequence))
}

// settle advances the sequence after a request for span offsets that ended with err. A rejected
// request uses no sequence. After an unknown outcome the next sequence is unknown, so the producer
// starts its next epoch. The new epoch also fences a request that may still be in progress.
func (p *producer) settle(err error, span int64) {
	e, failed := err.(*Error)
	switch {
	case !failed:
		p.sequence = int32((int64(p.sequence) + span) & math.MaxInt32)
	case e.Outcome != OutcomeRejected || e.Code == string(api.SequenceGap) || e.Code == string(api.ProducerFenced):
		p.nextEpoch()
	}
}

// settleAtomic starts the next epoch after an atomic request that ended with err, unless that was rejected: the
// epoch is the number of the request, because its partitions need not be those of the request before.
func (p *producer) settleAtomic(err error) {
	if p.settle(err, 0); err == nil {
		p.nextEpoch()
	}
}

// nextEpoch starts the next epoch, or a new producer after the last one.
func (p *producer) nextEpoch() {
	p.sequence = 0
	if p.epoch++; p.epoch < 0 {
		*p = *newProducer()
	}
}

// batchesSpan counts the offsets of batches. own reports that a batch names a producer. ok is false
// if b is not a sequence of batches.
func batchesSpan(b []byte) (span int64, own, ok bool) {
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return 0, false, false
		}
		own = own || batch.ProducerID() >= 0
		span += batch.Span()
		b = rest
	}
	return span, own, span > 0
}
