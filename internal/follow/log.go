package follow

import (
	"context"
	"iter"

	"github.com/sebbroker/seb/record"
)

// Log is what every follower needs of the log. Package node implements it on a broker. Its methods may be called
// concurrently.
type Log interface {
	// Cluster is the id of the cluster whose log this is.
	Cluster() record.ID
	// Origin is the nonce of the epoch in which an offset of a partition was committed; zero if that is not known.
	Origin(topic record.ID, partition uint32, offset int64) record.ID
	// Read returns whole committed batches: the one that holds offset first, then those behind it up to about bytesMax.
	// None if nothing is there yet.
	Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (Batches, error)
	// Changed has an element whenever the committed state may have changed since it was last received from (capacity 1).
	// Waiting on it makes no request.
	Changed() <-chan struct{}
}

// Batches are whole batches of one partition in offset order.
type Batches struct {
	Parts [][]byte // each whole batches; read-only, until Release
	Free  func()   // gives them back; nil if there is nothing to give back
}

// Release gives the batches back. It is called once.
func (b *Batches) Release() {
	if b.Free != nil {
		b.Free()
	}
}

// All are the batches, one by one. An error is the last element.
func (b *Batches) All() iter.Seq2[record.Batch, error] {
	return func(yield func(record.Batch, error) bool) {
		for _, part := range b.Parts {
			for len(part) > 0 {
				one, rest, err := record.Split(part)
				if !yield(one, err) || err != nil {
					return
				}
				part = rest
			}
		}
	}
}

// Span says that offsets [Start, Next) of a partition are committed and not trimmed.
type Span struct{ Start, Next int64 }

// Position is one moment of the log.
type Position struct {
	// Time is the append time of the newest committed slot, µs since 1970. It goes back only where an operator has reset the log's
	// time; else it grows with each slot.
	Time int64
	// Topics are the partitions of each topic that was asked for, by number; none if the topic is not there.
	Topics [][]Span
}

// Complete is the last instant (ms) of which no event can come any more: a later slot may share the newest one's
// millisecond.
func (p *Position) Complete() int64 {
	return p.Time/1000 - 1
}

// Partition is a partition of a topic whose key-index is on, as committed: offsets [Start, Next) are there.
type Partition struct {
	Topic       record.ID
	Partition   uint32
	Start, Next int64
	// Clean is the offset up to which the partition was compacted: below it each key stands once, in its newest record
	// below it. Swept is the offset below which there are no tombstones, Sweepable that below which they may go at any time,
	// or are gone. What a tombstone has deleted is gone for longer.
	Clean, Swept, Sweepable int64
}

// SameOrigin is whether the last record before the offset next is the one that a follower read, with the nonce of its
// epoch then. now is the nonce as the log has it. An epoch that is not known on either side counts as the same.
func SameOrigin(l Log, topic record.ID, partition uint32, next int64, origin record.ID) (now record.ID, same bool) {
	if next == 0 || origin.IsZero() {
		return origin, true
	}
	now = l.Origin(topic, partition, next-1)
	return now, now.IsZero() || now == origin
}
