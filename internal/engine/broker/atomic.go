package broker

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Part is a part of an atomic request.
type Part struct {
	Append // ExpectedOffset is ignored
	// Keyed: keys chose the partitions for the topic. One of its parts is enough to find a repetition whose
	// partitions differ, because the topic has got more.
	Keyed bool
	// Update, if not nil, is a change of a queue about the messages of the append.
	Update *QueueUpdate
}

// PartsMax bounds the parts of an atomic request.
const PartsMax = 1000

// SubmitAtomic is Submit for appends to different partitions of which all are stored, in one slot, or none. If
// one is refused, it has the reason, and the others have ErrAtomic. An idempotent producer's batches must be in
// all of them: they are duplicates all at once, or the request is refused with ErrSequenceGap.
func (b *Broker) SubmitAtomic(ctx context.Context, parts []Part) *Ticket {
	t := &Ticket{results: make([]Result, len(parts)), passed: make([]int, len(parts))}
	if len(parts) == 0 {
		return t
	}
	passing := make([]log.Part, len(parts))
	at, err := b.admitParts(ctx, parts, passing)
	if err != nil {
		for i := range parts {
			if t.results[i].Err = state.ErrAtomic; parts[i].Release != nil {
				parts[i].Release()
			}
		}
		t.results[at].Err = err
		b.met.refused.Inc()
		return t
	}
	for i := range t.results {
		t.results[i].Err, t.passed[i] = errPending, i
	}
	t.log = b.log.SubmitAtomic(passing)
	return t
}

// admitParts checks the parts of an atomic request, and converts them to the log's. An error is that of part at.
func (b *Broker) admitParts(ctx context.Context, parts []Part, out []log.Part) (at int, err error) {
	if err := b.refuses(ctx); err != nil {
		return 0, err
	}
	if len(parts) > PartsMax {
		return PartsMax, fmt.Errorf("%w: %d partitions in an atomic request, limit %d", ErrTooLarge, len(parts), PartsMax)
	}
	seen := make(map[partKey]bool, len(parts))
	for i := range parts {
		p := &parts[i]
		p.ExpectedOffset = -1
		head, err := b.admitClient(&p.Append)
		if err != nil {
			return i, err
		}
		id := partKey{head.Topic, head.Partition}
		if seen[id] {
			return i, &state.InvalidError{Field: "partition", Reason: fmt.Sprintf("two parts for partition %d of topic %s", p.Partition, p.Topic)}
		}
		seen[id], head.Keyed = true, p.Keyed
		out[i] = log.Part{Append: log.Append{Head: head, Data: p.Data, Release: p.Release, Memory: p.Memory}}
		if p.Update != nil {
			out[i].Op = new(core.Op)
			*out[i].Op = p.Update.Op()
		}
	}
	return 0, nil
}
