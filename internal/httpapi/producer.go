package httpapi

import (
	"math"
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/record"
)

// producerOf reads the headers that make a produce idempotent; nil if there are none. The epoch may be left out.
func (q *query) producerOf(h http.Header, partition int32) *record.Producer {
	id := q.header(h, api.HeaderProducerID, math.MaxInt64)
	epoch := q.header(h, api.HeaderProducerEpoch, math.MaxInt16)
	sequence := q.header(h, api.HeaderSequence, math.MaxInt32)
	switch {
	case id < 0 && epoch < 0 && sequence < 0:
		return nil
	case id < 0:
		q.fail(api.HeaderProducerID, "required beside the producer's other headers")
	case sequence < 0:
		q.fail(api.HeaderSequence, "required beside %s", api.HeaderProducerID)
	case partition < 0:
		q.fail(paramPartition, "required beside %s: a sequence is that of one partition", api.HeaderProducerID)
	}
	return &record.Producer{ID: id, Epoch: int16(max(epoch, 0)), Sequence: int32(sequence)}
}

// header returns a header between 0 and limit, or -1 if it is not given.
func (q *query) header(h http.Header, name string, limit int64) int64 {
	v := h.Values(name)
	if len(v) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(v[0], 10, 64)
	if len(v) > 1 {
		q.fail(name, "given %d times", len(v))
	} else if err != nil || n < 0 || n > limit {
		q.fail(name, "want a number from 0 to %d, given %s", limit, api.Quote(v[0]))
	}
	return n
}

// identify makes the append that of the producer in the headers. Batches that name a producer of their own must name the
// same; all others are marked. On an error the appends are given back.
func (p *producing) identify() error {
	if p.producer == nil {
		return nil
	}
	for i := range p.appends { // one: the partition is given
		ap := &p.appends[i]
		if fault := contradiction(p.producer, &ap.Summary); fault != nil {
			for _, ap := range p.appends {
				ap.Release() // never submitted
			}
			return fault
		}
		if s := &ap.Summary; s.ProducerID < 0 {
			record.StampProducer(ap.Data, *p.producer)
			s.ProducerID, s.ProducerEpoch, s.BaseSequence = p.producer.ID, p.producer.Epoch, p.producer.Sequence
		}
	}
	return nil
}

// contradiction says which header is not what the batches say.
func contradiction(p *record.Producer, s *record.Summary) error {
	const text = "%d, and the batches say %d"
	switch {
	case s.ProducerID < 0:
		return nil
	case s.ProducerID != p.ID:
		return api.BadField(api.HeaderProducerID, text, p.ID, s.ProducerID)
	case s.ProducerEpoch != p.Epoch:
		return api.BadField(api.HeaderProducerEpoch, text, p.Epoch, s.ProducerEpoch)
	case s.BaseSequence != p.Sequence:
		return api.BadField(api.HeaderSequence, text, p.Sequence, s.BaseSequence)
	}
	return nil
}
