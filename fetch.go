package seb

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// FetchOptions describe one Fetch.
type FetchOptions struct {
	Partition int32
	Offset    int64 // first offset to return
	// MaxBytes is a soft bound on the answer: it has whole batches, and at least one. 0 means 1
	// MiB.
	MaxBytes int
	// Wait is the time to wait for the first record at the end of the partition; 0 answers at once.
	Wait time.Duration
	// Uncommitted also returns the records of open and aborted transactions. Without it a read ends at the last
	// stable offset.
	Uncommitted bool
}

// isolation is the isolation of a read.
func isolation(uncommitted bool) broker.Isolation {
	if uncommitted {
		return broker.Uncommitted
	}
	return broker.Committed
}

// Fetched is the answer to a Fetch. Use it from one goroutine, and close it.
type Fetched struct {
	// NextOffset is the partition's end: the last stable offset, or with Uncommitted the offset that the next record
	// gets.
	NextOffset int64

	answer *broker.Fetched
	class  *budget.Class
	from   int64
}

// Fetch reads the records from o.Offset on with one request. Errors: ErrUnknownTopic,
// ErrUnknownPartition, ErrBelowStart, ErrCorrupt, ErrStoreUnavailable, ErrOverBudget, ErrClosed.
func (b *Broker) Fetch(ctx context.Context, topic string, o FetchOptions) (*Fetched, error) {
	want := broker.Want{Topic: topic, Partition: o.Partition, Offset: o.Offset, MaxBytes: o.MaxBytes, Isolation: isolation(o.Uncommitted)}
	answer, err := b.n.Broker.Fetch(ctx, []broker.Want{want}, 1, o.Wait)
	if err != nil {
		return nil, err
	}
	p := &answer.Parts[0]
	if p.Err != nil {
		answer.Release()
		return nil, p.Err
	}
	return &Fetched{NextOffset: p.HighWatermark, answer: answer, class: b.n.Budget().Class(budget.Fetch), from: o.Offset}, nil
}

// All returns the records in order. A record and the memory it points to are valid until the next
// iteration, because records are not copied. An error is the last element; the records before it
// are valid.
func (f *Fetched) All() iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var r record.Reader
		chunks := f.answer.Parts[0].Chunks
		for i := range chunks {
			data, release, err := f.bytes(&chunks[i])
			if err != nil {
				yield(nil, err)
				return
			}
			more := f.each(&r, data, yield)
			release()
			if !more {
				return
			}
			f.from = max(f.from, chunks[i].End)
		}
	}
}

// each yields the records of one run of batches. It returns false if the caller stopped or a batch
// is corrupt.
func (f *Fetched) each(r *record.Reader, data []byte, yield func(*record.Record, error) bool) bool {
	for r.Reset(data, f.from); r.Next(); {
		f.from = r.Offset() + 1
		if !yield(r.Record(), nil) {
			return false
		}
	}
	if err := r.Err(); err != nil {
		yield(nil, fmt.Errorf("%w: %w", ErrCorrupt, err))
		return false
	}
	return true
}

// bytes returns a chunk as one slice. It copies only chunks that are in several parts or in a file.
func (f *Fetched) bytes(c *broker.Chunk) (data []byte, release func(), err error) {
	if c.Section == nil && len(c.Parts) == 1 {
		return c.Parts[0], func() {}, nil
	}
	memory, err := f.class.Reserve(c.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOverBudget, err)
	}
	data = make([]byte, 0, c.Size)
	for _, p := range c.Parts {
		data = append(data, p...)
	}
	if c.Section != nil {
		data = data[:c.Section.Len]
		if _, err := c.Section.File.ReadAt(data, c.Section.Off); err != nil {
			memory.Release()
			return nil, nil, fmt.Errorf("%w: read: %w", ErrStoreUnavailable, err)
		}
	}
	return data, memory.Release, nil
}

// ResumeOffset is the offset at which the next fetch continues.
func (f *Fetched) ResumeOffset() int64 { return f.from }

// Close releases the memory of the answer. Records from All become invalid. Close may be called
// twice.
func (f *Fetched) Close() { f.answer.Release() }

// Special values of ReadOptions.Offset.
const (
	Earliest int64 = -2 // the start offset
	Latest   int64 = -1 // the end offset
)

// ReadOptions describe a read with Records.
type ReadOptions struct {
	Partition int32
	Offset    int64 // first offset to return, or Earliest or Latest
	// Follow waits for new records at the end until ctx ends. Without it the read stops at the end
	// that the partition had when the read began.
	Follow bool
	// MaxBytes bounds one fetch; 0 means 1 MiB.
	MaxBytes int
	// Uncommitted is that of FetchOptions.
	Uncommitted bool
}

// followWait is the duration of one long poll; the read then starts another.
const followWait = time.Minute

// Records reads one partition as a stream. A record and the memory it points to are valid until the
// next iteration. An error is the last element; when ctx ends, that is its error.
func (b *Broker) Records(ctx context.Context, topic string, o ReadOptions) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		from, end, err := b.bounds(ctx, topic, &o)
		for err == nil && (o.Follow || from < end) {
			var more bool
			if from, more, err = b.readOnce(ctx, topic, readStep{o, from, end}, yield); err == nil && !more {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// bounds returns the first offset of a read and, if it does not follow, its end.
func (b *Broker) bounds(ctx context.Context, topic string, o *ReadOptions) (from, end int64, err error) {
	t, err := b.Topic(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	if o.Partition < 0 || int(o.Partition) >= len(t.Partitions) {
		return 0, 0, ErrUnknownPartition
	}
	p := t.Partitions[o.Partition]
	if end = p.Stable; o.Uncommitted {
		end = p.Next
	}
	switch {
	case o.Offset == Earliest:
		return p.Start, end, nil
	case o.Offset == Latest:
		return end, end, nil
	case o.Offset < 0:
		return 0, 0, &state.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d: want 0 or more, Earliest or Latest", o.Offset)}
	}
	return o.Offset, end, nil
}

// readStep is one Fetch of a running Records.
type readStep struct {
	ReadOptions
	from, end int64
}

// readOnce yields the records of one Fetch. more is false when the read is complete.
func (b *Broker) readOnce(ctx context.Context, topic string, s readStep, yield func(*record.Record, error) bool) (next int64, more bool, err error) {
	o := FetchOptions{Partition: s.Partition, Offset: s.from, MaxBytes: s.MaxBytes, Uncommitted: s.Uncommitted}
	if s.Follow {
		o.Wait = followWait
	}
	f, err := b.Fetch(ctx, topic, o)
	if err != nil {
		return s.from, false, err
	}
	defer f.Close()
	for r, err := range f.All() {
		switch {
		case err != nil:
			return f.ResumeOffset(), false, err
		case !s.Follow && r.Offset >= s.end:
			return r.Offset, false, nil
		case !yield(r, nil):
			return f.ResumeOffset(), false, nil
		}
	}
	if f.ResumeOffset() == s.from {
		// No records: the wait timed out, or the broker has stopped.
		if err := b.Err(); err != nil {
			return s.from, false, err
		}
		return s.from, s.Follow, nil
	}
	return f.ResumeOffset(), true, nil
}
