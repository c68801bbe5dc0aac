package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sebbroker/seb/record"
)

// Offsets that a read may begin at besides real ones.
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
	// MaxBytes is how much is asked for at once; 0 means 4 MiB.
	MaxBytes int
}

const (
	readBytesDefault = 4 << 20
	followWait       = 30 * time.Second // of one long poll
)

// Records reads one partition as a stream. A record and all it points to are valid until the next one is taken: nothing
// is copied. Broken connections are mended for Options.RetryTime, without gap or repetition; what can not be mended comes
// as the last element, an error. When ctx ends the last element is its error.
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

// resolve turns Earliest and Latest into an offset.
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
			return p.Next, nil
		}
	}
	return 0, &Error{NextOffset: -1, Start: -1, Code: string(ErrUnknownPartition.(codeError)), Detail: fmt.Sprintf("topic %s has %d partitions", topic, len(t.Partitions))}
}

// reading is one Records under way.
type reading struct {
	c     *Client
	topic string
	o     ReadOptions
	from  int64
	end   int64 // where to stop; -1 until known
	wait  backoff
}

type yieldFunc = func(*record.Record, error) bool

func (r *reading) run(ctx context.Context, yield yieldFunc) {
	r.progress()
	for {
		before := r.from
		more, err := r.once(ctx, yield)
		if err == errStopped {
			return
		}
		if r.from > before {
			r.progress()
		}
		if err != nil {
			if !r.again(ctx, err) {
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

// again reports whether a read that broke may go on where it stopped. What Fetch returned was repeated there already.
func (r *reading) again(ctx context.Context, err error) bool {
	var answered *Error
	if errors.As(err, &answered) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrInvalid) || ctx.Err() != nil {
		return false
	}
	return r.wait.wait(ctx, 0)
}

// once is one request and its records; more is false at the end.
func (r *reading) once(ctx context.Context, yield yieldFunc) (more bool, err error) {
	o := FetchOptions{Partition: r.o.Partition, Offset: r.from, MaxBytes: r.o.MaxBytes}
	if o.MaxBytes == 0 {
		o.MaxBytes = readBytesDefault
	}
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
			r.from = f.Next()
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
	r.from = f.Next()
	return r.o.Follow || r.from > before && (r.end < 0 || r.from < r.end), nil
}
