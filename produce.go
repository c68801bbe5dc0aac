package seb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Produce appends records to one partition of a topic. It returns the offset of the first record
// once all are durable; the others have the following offsets. Produce ignores the Offset of
// records; a Timestamp of 0 means now. It does not use the records after it has returned. Errors:
// ErrOutcomeUnknown; all others mean that the records cannot appear.
func (b *Broker) Produce(ctx context.Context, topic string, partition int32, records ...record.Record) (first int64, err error) {
	o := record.EncodeOptions{}
	if _, settings, err := b.n.Resolved(topic); err == nil {
		o.BatchBytes = settings.MaxBatchBytes
	}
	data, sum, err := record.Append(nil, stamped(records), o)
	if err != nil {
		return 0, &state.InvalidError{Field: "records", Reason: err.Error()}
	}
	return b.submit(ctx, broker.Append{Topic: topic, Partition: partition, Data: data, Summary: sum, ExpectedOffset: -1})
}

// ProduceAll stores all items or none, and returns once they are durable, with their positions in the given order.
// It is that of Client. Errors: ErrOutcomeUnknown for all items; all others mean that none can appear.
func (b *Broker) ProduceAll(ctx context.Context, items ...client.Item) ([]client.StoredItem, error) {
	stored, err := b.Client().ProduceAll(ctx, items)
	if errors.Is(err, client.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return stored, err
}

// ProduceBatches appends one or more concatenated Kafka RecordBatch v2 to one partition. It changes
// only their base offsets, in a copy. It checks them first (ErrInvalid, ErrTooLarge). Batches of an
// idempotent producer can be repeated: the broker recognizes a producer's last 5 calls for a
// partition, returns their offsets and stores nothing twice. Errors: ErrSequenceGap,
// ErrProducerFenced, and those of Produce.
func (b *Broker) ProduceBatches(ctx context.Context, topic string, partition int32, batches []byte) (first int64, err error) {
	if err := b.n.EnsureTopic(ctx, topic); err != nil {
		return 0, err
	}
	limits, err := b.n.Limits(topic)
	if err != nil {
		return 0, err
	}
	sum, err := record.Check(batches, limits)
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return 0, &state.InvalidError{Field: "batches", Reason: err.Error()}
	}
	// The copy is needed because the broker writes offsets into the batches, possibly after a
	// canceled call has returned.
	return b.submit(ctx, broker.Append{
		Topic: topic, Partition: partition, Data: slices.Clone(batches), Summary: sum, ClientMade: true, ExpectedOffset: -1,
	})
}

// submit appends and waits for the outcome.
func (b *Broker) submit(ctx context.Context, a broker.Append) (int64, error) {
	if err := b.n.EnsureTopic(ctx, a.Topic); err != nil {
		return 0, err
	}
	memory, err := b.n.Budget().Class(budget.Produce).Reserve(int64(len(a.Data)))
	switch {
	case errors.Is(err, budget.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		// An append that is never accepted is not to be repeated.
		return 0, cmp.Or(b.n.CheckAppend(&a), fmt.Errorf("%w: %w", ErrOverBudget, err))
	}
	a.Memory, a.Release = memory, memory.Release
	r := b.n.Submit(ctx, []broker.Append{a}).Wait(ctx)[0]
	return r.Base, r.Err
}

// stamped returns a copy of the records in which a Timestamp of 0 is the current time.
func stamped(records []record.Record) []record.Record {
	noTime := func(r record.Record) bool { return r.Timestamp == 0 }
	if !slices.ContainsFunc(records, noTime) {
		return records
	}
	now := time.Now().UnixMilli()
	records = slices.Clone(records)
	for i := range records {
		if noTime(records[i]) {
			records[i].Timestamp = now
		}
	}
	return records
}
