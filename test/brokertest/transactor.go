package brokertest

import (
	"context"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// transactional is a broker or a node.
type transactional interface {
	anyBroker
	InitTransactions(ctx context.Context, r broker.InitTransactions) (state.ProducerEpoch, error)
	EndTransaction(ctx context.Context, e broker.EndTransaction) (state.ProducerEpoch, error)
}

// Transactor is a transactional producer. It belongs to one goroutine.
type Transactor struct {
	b    transactional
	id   string
	now  state.ProducerEpoch
	next map[string]map[int]int32 // sequences of the epoch, by topic and partition
}

// NewTransactor returns a producer with a transactional ID.
func NewTransactor(t testing.TB, b transactional, id string) *Transactor {
	t.Helper()
	r := broker.InitTransactions{ID: id, Timeout: time.Hour, Was: state.ProducerEpoch{ID: -1}}
	return &Transactor{b: b, id: id, now: must.Get(b.InitTransactions(t.Context(), r))(t), next: map[string]map[int]int32{}}
}

// Append returns an append of the producer's transaction, which the caller submits next.
func (x *Transactor) Append(topic string, partition int, recs ...record.Record) broker.Append {
	if x.next[topic] == nil {
		x.next[topic] = map[int]int32{}
	}
	p := record.Producer{ID: x.now.ID, Epoch: x.now.Epoch, Sequence: x.next[topic][partition]}
	x.next[topic][partition] += int32(len(recs))
	return AppendWith(topic, partition, record.EncodeOptions{Transactional: true, Producer: &p}, recs...)
}

// Send appends records in the transaction, and returns the offset of the first one.
func (x *Transactor) Send(t testing.TB, topic string, partition int, recs ...record.Record) int64 {
	t.Helper()
	return Send(t, x.b, x.Append(topic, partition, recs...))
}

// End commits or aborts the transaction.
func (x *Transactor) End(t testing.TB, commit bool) {
	t.Helper()
	x.now = must.Get(x.b.EndTransaction(t.Context(), broker.EndTransaction{ID: x.id, Producer: x.now, Commit: commit, Next: true}))(t)
	x.next = map[string]map[int]int32{}
}

// Through makes the producer continue with another broker, as after a takeover.
func (x *Transactor) Through(b transactional) { x.b = b }
