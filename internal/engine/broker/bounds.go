package broker

import (
	"context"
	"math"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Bounds are a partition's first and next offset.
type Bounds struct {
	Start, Next int64
	Stable      int64  // last stable offset: all transactions with batches below it have ended
	Epoch       uint32 // epoch of the newest record; 0: there is none
}

// End is the end of the partition for a reader.
func (o *Bounds) End(i Isolation) int64 {
	if i.stable() {
		return o.Stable
	}
	return o.Next
}

// inPartition calls f with a committed partition. Errors: ErrNotLeader before the state is known,
// ErrUnknownTopic, ErrUnknownPartition.
func (b *Broker) inPartition(topic record.ID, partition int32, f func(p *state.Partition)) (err error) {
	err = state.ErrNotLeader
	b.log.Read(func(s *state.State) {
		t := s.Topic(topic)
		switch {
		case t == nil:
			err = state.ErrUnknownTopic
		case partition < 0 || int(partition) >= t.Partitions.Len():
			err = state.ErrUnknownPartition
		default:
			err = nil
			f(t.Partitions.At(int(partition)))
		}
	})
	return err
}

// Confirm asks the store for newer commits, unless the broker knows that there are none (rule R11).
// Errors: ErrFenced, ErrStoreUnavailable, the context's.
func (b *Broker) Confirm(ctx context.Context) error { return b.confirm(ctx, false) }

// ConfirmEnd is Confirm for a caller that knows of commits behind the end that this broker knows. A
// leader asks the store too, because another broker may have taken over without its knowledge. It does so
// twice a second at most, after a call for all calls that wait.
func (b *Broker) ConfirmEnd(ctx context.Context) error {
	if b.Follows() {
		return b.Confirm(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, confirmTimeout, errSilent)
	defer cancel()
	return b.end.within(ctx, 0, endEvery, func(ctx context.Context) error { return b.confirm(ctx, true) })
}

func (b *Broker) confirm(ctx context.Context, look bool) error {
	limit := confirmTimeout
	if b.LedElsewhere() {
		limit = standbyTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	if look || b.opt.InDoubt != nil && b.opt.InDoubt() {
		return b.log.ConfirmLost(ctx) // looks at the next slot
	}
	return b.log.Confirm(ctx)
}

// LedElsewhere reports whether this broker follows a leader that it hears, and whose store answers.
// That leader can answer what this broker cannot.
func (b *Broker) LedElsewhere() bool {
	if b.opt.Told == nil || !b.Follows() {
		return false
	}
	_, age, ok := b.opt.Told()
	return ok && age < standbyTimeout
}

// Within returns a *BeyondEndError if an offset is beyond the end of a partition. No client can
// have been told such an offset. If the offset is beyond the end that this broker knows, it asks
// the store first. A topic or partition that does not exist has no end. The largest possible offset
// is allowed: a reader there waits. Errors: those of Confirm.
func (b *Broker) Within(ctx context.Context, topic string, partition int32, offset int64) error {
	beyond := func() (end int64, yes bool) {
		r, _ := b.TopicNamed(topic)
		o, err := b.Bounds(r.ID, partition)
		return o.Next, err == nil && offset > o.Next && offset < math.MaxInt64
	}
	if _, yes := beyond(); !yes {
		return nil
	}
	if err := b.ConfirmEnd(ctx); err != nil {
		return err
	}
	if end, yes := beyond(); yes {
		return &BeyondEndError{Offset: offset, End: end}
	}
	return nil
}

// Bounds returns a partition's committed bounds. Errors: ErrUnknownTopic, ErrUnknownPartition,
// ErrNotLeader.
func (b *Broker) Bounds(topic record.ID, partition int32) (o Bounds, err error) {
	err = b.inPartition(topic, partition, func(p *state.Partition) {
		o = Bounds{Start: p.Start, Next: p.Next, Stable: p.LastStable()}
		if n := len(p.Epochs); n > 0 {
			o.Epoch = p.Epochs[n-1].Epoch
		}
	})
	return o, err
}

// EpochEnd returns where a leader epoch ends in a partition, as Kafka's OffsetForLeaderEpoch does.
// found is the newest epoch up to the given one that wrote there. end is the offset at which the
// next epoch that wrote begins, or the partition's end. known is false for an epoch above the
// broker's. Errors: those of Bounds.
func (b *Broker) EpochEnd(topic record.ID, partition int32, epoch uint32) (found uint32, end int64, known bool, err error) {
	current := b.Epoch()
	err = b.inPartition(topic, partition, func(p *state.Partition) {
		found, end, known = epoch, p.Next, epoch <= current
		if epoch == current {
			return
		}
		for i := len(p.Epochs) - 1; i >= 0; i-- {
			if p.Epochs[i].Epoch <= epoch {
				found = p.Epochs[i].Epoch
				return
			}
			end = max(p.Epochs[i].Offset, p.Start)
		}
	})
	return found, end, known, err
}

// EpochAt returns the leader epoch in which an offset was committed; at the partition's end, its
// newest epoch. known is false before the first record. Errors: those of Bounds.
func (b *Broker) EpochAt(topic record.ID, partition int32, offset int64) (epoch uint32, known bool, err error) {
	err = b.inPartition(topic, partition, func(p *state.Partition) {
		for i := len(p.Epochs) - 1; i >= 0; i-- {
			if p.Epochs[i].Offset <= offset || i == 0 {
				epoch, known = p.Epochs[i].Epoch, true
				return
			}
		}
	})
	return epoch, known, err
}

// OffsetBelow returns an offset from which about n records lie below another offset. It counts from
// the state, which knows the number of records in each range and not where compaction has removed
// some. It is at least the start, and below the given offset unless that is at the start. Errors:
// those of Bounds.
func (b *Broker) OffsetBelow(topic record.ID, partition int32, offset, n int64) (from int64, err error) {
	err = b.inPartition(topic, partition, func(p *state.Partition) {
		from = p.Start
		for i := len(p.Ranges) - 1; i >= 0; i-- {
			r := &p.Ranges[i]
			base, end := max(r.Base, p.Start), min(r.End(), offset)
			if end <= base || r.Lost() || r.Records == 0 {
				continue
			}
			// The records are taken to be spread evenly.
			share := float64(r.Records) / float64(r.Span)
			if have := int64(share * float64(end-base)); have < n {
				n -= have
				continue
			}
			from = max(base, end-int64(math.Ceil(float64(n)/share)))
			return
		}
	})
	return min(from, offset), err
}

// Lookup is a partition in which a timestamp is looked up. Committed and RawCommitted look below the last stable
// offset, Raw and RawCommitted also at aborted batches.
type Lookup struct {
	Topic     *TopicRef
	Partition int32
	Isolation Isolation
}

// TimeSpan is a range's offsets, with the bounds of its records' timestamps in milliseconds. After
// compaction or a trim the bounds may be those of removed records.
type TimeSpan struct {
	Base, End        int64
	Bytes            int
	MinTime, MaxTime int64
}

func timeSpan(p *state.Partition, r *state.Range, end int64) TimeSpan {
	return TimeSpan{Base: max(r.Base, p.Start), End: min(r.End(), end), Bytes: int(r.Len), MinTime: r.MinTime, MaxTime: r.MaxTime}
}

// SpanSince finds the first range, from an offset on, with a timestamp of at least millis. found is
// false if there is none. It reads only the state. Errors: those of Bounds.
func (b *Broker) SpanSince(l Lookup, offset, millis int64) (span TimeSpan, found bool, err error) {
	err = b.inPartition(l.Topic.ID, l.Partition, func(p *state.Partition) {
		end := l.Isolation.end(p)
		for i := range p.Ranges {
			if r := &p.Ranges[i]; r.Base < end && r.End() > offset && r.MaxTime >= millis && !r.Lost() {
				span, found = timeSpan(p, r, end), true
				return
			}
		}
	})
	return span, found, err
}

// NewestTime finds the first range with the largest timestamp of a partition. Errors: those of
// Bounds.
func (b *Broker) NewestTime(l Lookup) (span TimeSpan, found bool, err error) {
	err = b.inPartition(l.Topic.ID, l.Partition, func(p *state.Partition) {
		at, end := -1, l.Isolation.end(p)
		for i := range p.Ranges {
			if p.Ranges[i].Lost() || p.Ranges[i].Base >= end {
				continue
			}
			if at < 0 || p.Ranges[i].MaxTime > p.Ranges[at].MaxTime {
				at = i
			}
		}
		if found = at >= 0; found {
			span = timeSpan(p, &p.Ranges[at], end)
		}
	})
	return span, found, err
}
