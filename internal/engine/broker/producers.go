package broker

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ProducerOf returns the producer that has a transactional ID.
func (b *Broker) ProducerOf(id string) (p state.ProducerEpoch, known bool) {
	b.log.Read(func(s *state.State) {
		if t := s.Transaction(id); t != nil {
			p, known = t.Now(), true
		}
	})
	return p, known
}

// Owns returns why a producer may not use a transactional ID, or nil. Errors: ErrUnknownTransaction,
// ErrTransactionEnded, ErrTransactionFenced.
func (b *Broker) Owns(id string, p state.ProducerEpoch) (err error) {
	b.log.Read(func(s *state.State) { err = core.Owns(s.Transaction(id), p) })
	return err
}

// TransactionalID returns the transactional ID of a producer ID, or "".
func (b *Broker) TransactionalID(producer int64) (id string) {
	b.log.Read(func(s *state.State) {
		if t := s.TransactionOf(producer); t != nil {
			id = t.ID
		}
	})
	return id
}

// ProducerInfo describes an idempotent producer in a partition.
type ProducerInfo struct {
	state.ProducerEpoch
	Sequence int32     // of its newest record
	Last     time.Time // append time of its newest batch
	First    int64     // offset of the first batch of its open transaction; -1: none
}

// Producers describes the idempotent producers that a partition knows. Errors: those of Bounds.
func (b *Broker) Producers(topic record.ID, partition int32) (list []ProducerInfo, err error) {
	err = b.inPartition(topic, partition, func(p *state.Partition) {
		first := make(map[int64]int64, len(p.Open))
		for _, o := range p.Open {
			first[o.Producer] = o.First
		}
		for x := range p.Producers.All() {
			i := ProducerInfo{ProducerEpoch: state.ProducerEpoch{ID: x.ID, Epoch: x.Epoch}, Sequence: -1, Last: time.UnixMicro(x.LastTime), First: -1}
			if x.Count > 0 {
				i.Sequence = int32((int64(x.Last[0].Sequence) + int64(x.Last[0].Span) - 1) & (1<<31 - 1))
			}
			if offset, open := first[x.ID]; open {
				i.First = offset
			}
			list = append(list, i)
		}
	})
	return list, err
}
