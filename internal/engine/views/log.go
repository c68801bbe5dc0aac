package views

import (
	"context"
	"iter"

	"github.com/sebbroker/seb/record"
)

// Log is the part of the log that every follower needs. Package node implements it on a broker. Its
// methods may be called concurrently.
type Log interface {
	// Cluster is the cluster ID of the log.
	Cluster() record.ID
	// Origin is the nonce of the epoch in which an offset of a partition was committed, or zero if
	// that is unknown.
	Origin(topic record.ID, partition uint32, offset int64) record.ID
	// Read returns whole committed batches: first the one that holds offset, then later ones up to
	// about bytesMax, without markers and aborted batches. It returns none if offset is not committed
	// yet or not below the last stable offset, or if a recovery has skipped the offsets from there to the
	// end.
	Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (Batches, error)
	// Changed has an element whenever the committed state may have changed since it was last
	// received from (capacity 1). Waiting on it makes no request to the store.
	Changed() <-chan struct{}
}

// Batches are whole batches of one partition in offset order. Those of aborted transactions, and markers, are left
// out: a batch may begin beyond the end of the one before.
type Batches struct {
	// From is the offset of the read. If a recovery has skipped the offsets there, it is their end.
	From int64
	// End, if not 0, is the end of the last batch, or of what is left out behind it: the offset of the
	// next read.
	End   int64
	Parts [][]byte // each holds whole batches; read-only, valid until Release
	Free  func()   // returns the memory; nil if there is none to return
}

// Release returns the memory of the batches. Call it once.
func (b *Batches) Release() {
	if b.Free != nil {
		b.Free()
	}
}

// All yields the batches. An error is the last element.
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

// Span says that offsets [Start, Next) of a partition are committed and not trimmed, and that no transaction with
// batches in them is open.
type Span struct {
	Start, Next int64
	// Open, if not 0, is a time (µs) up to which Next was the end of the partition: an open transaction
	// hides what came later.
	Open int64
}

// Position is the ends of partitions and the log time at one moment.
type Position struct {
	// Time is the append time of the newest committed slot in µs since 1970. It grows with each
	// slot, except that a time reset by an operator sets it back.
	Time int64
	// Topics are the spans of each topic that was asked for, by partition number; empty if the
	// topic does not exist.
	Topics [][]Span
}

// Complete is the last instant (ms) before which all events are committed. It lies one millisecond
// before the newest slot's, because a later slot may share that millisecond.
func (p *Position) Complete() int64 {
	return p.Time/1000 - 1
}

// CompleteIn is the last instant (ms) before which all events of topic i are known: open transactions hold it back.
func (p *Position) CompleteIn(i int) int64 {
	at := p.Time
	for _, s := range p.Topics[i] {
		if s.Open != 0 {
			at = min(at, s.Open)
		}
	}
	return at/1000 - 1
}

// Partition is a partition of a topic with a key index, as committed: it has offsets [Start, Next), below the last
// stable offset.
type Partition struct {
	Topic       record.ID
	Partition   uint32
	Start, Next int64
	// Clean is the offset up to which the partition was compacted: below it each key has at most
	// one record, its newest below Clean. Swept is the offset below which no tombstones remain.
	// Sweepable is the offset below which tombstones may be removed at any time, or are removed.
	// The records that such a tombstone deleted were removed earlier.
	Clean, Swept, Sweepable int64
}

// SameOrigin reports whether the last record before offset next is the one that a follower read,
// when the nonce of its epoch was origin. now is that nonce according to the log. An epoch that
// either side does not know counts as the same.
func SameOrigin(l Log, topic record.ID, partition uint32, next int64, origin record.ID) (now record.ID, same bool) {
	if next == 0 || origin.IsZero() {
		return origin, true
	}
	now = l.Origin(topic, partition, next-1)
	return now, now.IsZero() || now == origin
}
