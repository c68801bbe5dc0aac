package seb

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/record"
)

// FetchOptions say what one Fetch asks for.
type FetchOptions struct {
	Partition int32
	Offset    int64 // first offset wanted
	// MaxBytes bounds the answer softly: whole batches come, at least one. 0 means 1 MiB.
	MaxBytes int
	// Wait is how long to wait for the first record if there is none yet; 0 answers at once.
	Wait time.Duration
}

// Fetched is an answer. It belongs to one goroutine, and its caller closes it.
type Fetched struct {
	// NextOffset is the partition's end: the next offset to be written.
	NextOffset int64

	answer *broker.Fetched
	class  *budget.Class
	from   int64
}

// Fetch asks once for the records from o.Offset on. Errors: ErrUnknownTopic, ErrUnknownPartition, ErrBelowStart,
// ErrCorrupt, ErrStoreUnavailable, ErrOverBudget, ErrClosed.
func (b *Broker) Fetch(ctx context.Context, topic string, o FetchOptions) (*Fetched, error) {
	want := broker.Want{Topic: topic, Partition: o.Partition, Offset: o.Offset, MaxBytes: o.MaxBytes}
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

// All gives the records in order. A record and all it points to are valid until the next one is taken: nothing is copied
// for a single record. An error comes last; the records before it are good.
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

// each gives the records of one run of batches; it reports whether to go on.
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

// bytes gives a chunk in one piece: its own, if that is how it lies in memory.
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

// Next is the offset to ask for next.
func (f *Fetched) Next() int64 { return f.from }

// Close gives the memory back. Records that All gave are no longer valid. It may be called twice.
func (f *Fetched) Close() { f.answer.Release() }

// Offsets that Records may begin at besides real ones.
const (
	Earliest int64 = -2 // the first that is there
	Latest   int64 = -1 // the next to be written
)

// ReadOptions say what Records gives.
type ReadOptions struct {
	Partition int32
	Offset    int64 // first offset wanted, or Earliest or Latest
	// Follow waits for new records at the end, until ctx ends. Without it the read ends at what was the partition's end
	// when it began.
	Follow bool
	// MaxBytes is how much is read at once; 0 means 1 MiB.
	MaxBytes int
}

// followWait is how long one wait at the end lasts; then it begins anew.
const followWait = time.Minute

// Records reads one partition as a stream. A record and all it points to are valid until the next one is taken. An error
// comes as the last element; when ctx ends, its error.
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

// bounds finds where a read begins and, if it does not follow, ends.
func (b *Broker) bounds(ctx context.Context, topic string, o *ReadOptions) (from, end int64, err error) {
	t, err := b.Topic(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	if o.Partition < 0 || int(o.Partition) >= len(t.Partitions) {
		return 0, 0, ErrUnknownPartition
	}
	p := t.Partitions[o.Partition]
	switch {
	case o.Offset == Earliest:
		return p.Start, p.Next, nil
	case o.Offset == Latest:
		return p.Next, p.Next, nil
	case o.Offset < 0:
		return 0, 0, &broker.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d is not 0 or more, Earliest or Latest", o.Offset)}
	}
	return o.Offset, p.Next, nil
}

// readStep is one Fetch of a Records under way.
type readStep struct {
	ReadOptions
	from, end int64
}

// readOnce gives what one Fetch brings; more is false when the read is over.
func (b *Broker) readOnce(ctx context.Context, topic string, s readStep, yield func(*record.Record, error) bool) (next int64, more bool, err error) {
	o := FetchOptions{Partition: s.Partition, Offset: s.from, MaxBytes: s.MaxBytes}
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
			return f.Next(), false, err
		case !s.Follow && r.Offset >= s.end:
			return r.Offset, false, nil
		case !yield(r, nil):
			return f.Next(), false, nil
		}
	}
	if f.Next() == s.from {
		// Nothing came: the wait is over, or the broker is done for.
		if err := b.Err(); err != nil {
			return s.from, false, err
		}
		return s.from, s.Follow, nil
	}
	return f.Next(), true, nil
}
