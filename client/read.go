package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sebbroker/seb/record"
)

// Special values of an offset to read from.
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
	// MaxBytes bounds one fetch; 0 means 4 MiB.
	MaxBytes int
	// Uncommitted also returns the records of open and aborted transactions.
	Uncommitted bool
	// Where, if not "", selects the records whose value satisfies a filter of driplang, such as
	// amount > 100 AND event = "purchase" (package driplang, Filter). Contains, if not empty, selects
	// those whose key or value contains it, at most 1024 bytes. The broker selects.
	Where    string
	Contains []byte
	// Progress, if not nil, is called after each answer to a read with Where or Contains, with
	// what the broker has looked at so far.
	Progress func(ScanProgress)
}

const (
	readBytesDefault = 4 << 20
	followWait       = 30 * time.Second // duration of one long poll
)

// Records reads one partition as a stream. A record and the memory it points to are valid until the
// next iteration, because records are not copied. Failed requests are retried for
// Options.RetryTime, without a gap or a repetition. Any other error is the last element; when ctx
// ends, that is its error.
func (c *Client) Records(ctx context.Context, topic string, o ReadOptions) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		from, err := c.resolve(ctx, topic, &o)
		if err != nil {
			yield(nil, err)
			return
		}
		r := reading{c: c, topic: topic, o: o, from: from, end: -1}
		r.run(ctx, yield)
	}
}

// resolve converts Earliest and Latest to an offset.
func (c *Client) resolve(ctx context.Context, topic string, o *ReadOptions) (int64, error) {
	if o.Offset >= 0 {
		return o.Offset, nil
	}
	if o.Offset != Earliest && o.Offset != Latest {
		return 0, &Error{NextOffset: -1, Start: -1, Err: fmt.Errorf("offset %d: want 0 or more, Earliest or Latest", o.Offset)}
	}
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	for _, p := range t.Partitions {
		if p.Partition == o.Partition {
			if o.Offset == Earliest {
				return p.Start, nil
			}
			if o.Uncommitted || p.LastStable == 0 { // 0: also of a broker without transactions
				return p.Next, nil
			}
			return p.LastStable, nil
		}
	}
	return 0, &Error{NextOffset: -1, Start: -1, Code: string(ErrUnknownPartition.(codeError)), Detail: fmt.Sprintf("topic %s has %d partitions", topic, len(t.Partitions))}
}

// reading is the state of one Records.
type reading struct {
	c      *Client
	topic  string
	o      ReadOptions
	from   int64
	end    int64 // offset to stop at; -1 until known
	wait   backoff
	looked ScanProgress
}

type yieldFunc = func(*record.Record, error) bool

func (r *reading) run(ctx context.Context, yield yieldFunc) {
	r.progress()
	for {
		before := r.from
		once := r.fetchOnce
		if r.o.filters() {
			once = r.scanOnce
		}
		more, err := once(ctx, yield)
		if err == errStopped {
			return
		}
		if r.from > before {
			r.progress()
		}
		if err != nil {
			if !r.canRetry(ctx, err) {
				yield(nil, err)
				return
			}
			continue
		}
		if !more {
			return
		}
	}
}

func (r *reading) progress() { r.wait = backoff{time: r.c.retryTime} }

var errStopped = errors.New("caller stopped")

// canRetry reports whether a failed read may continue where it stopped. Fetch has already retried
// its own errors.
func (r *reading) canRetry(ctx context.Context, err error) bool {
	var answered *Error
	if errors.As(err, &answered) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrInvalid) || ctx.Err() != nil {
		return false
	}
	return r.wait.wait(ctx, 0)
}

// fetchOnce sends one request and yields its records. more is false at the end.
func (r *reading) fetchOnce(ctx context.Context, yield yieldFunc) (more bool, err error) {
	o := FetchOptions{Partition: r.o.Partition, Offset: r.from, MaxBytes: r.o.MaxBytes, Uncommitted: r.o.Uncommitted}
	o.MaxBytes = cmp.Or(o.MaxBytes, readBytesDefault)
	if r.o.Follow {
		o.Wait = followWait
	}
	f, err := r.c.Fetch(ctx, r.topic, o)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if r.end < 0 && !r.o.Follow {
		r.end = f.NextOffset
	}
	before := r.from
	for rec, err := range f.All() {
		if err != nil {
			r.from = f.ResumeOffset()
			return false, err
		}
		if r.end >= 0 && rec.Offset >= r.end {
			return false, nil
		}
		r.from = rec.Offset + 1
		if !yield(rec, nil) {
			return false, errStopped
		}
	}
	r.from = f.ResumeOffset()
	return r.o.Follow || r.from > before && (r.end < 0 || r.from < r.end), nil
}
