package httpapi

import (
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/record"
)

// identify sets the producer of the append from the headers. Batches that name a producer must name
// the same. On an error it releases the appends.
func (p *producing) identify() error {
	if p.producer == nil {
		return nil
	}
	for i := range p.appends { // only one: the partition is given
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

// contradiction returns which header differs from the batches.
func contradiction(p *record.Producer, s *record.Summary) error {
	const text = "%d, but the batches have %d"
	switch {
	case s.ProducerID < 0:
		return nil
	case s.ProducerID != p.ID:
		return problem.BadField(api.HeaderProducerID, text, p.ID, s.ProducerID)
	case s.ProducerEpoch != p.Epoch:
		return problem.BadField(api.HeaderProducerEpoch, text, p.Epoch, s.ProducerEpoch)
	case s.BaseSequence != p.Sequence:
		return problem.BadField(api.HeaderSequence, text, p.Sequence, s.BaseSequence)
	}
	return nil
}
