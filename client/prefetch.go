package client

import (
	"context"
	"errors"
	"io"

	"github.com/sebbroker/seb/record"
)

// prefetched is an answer in memory that a partition's reader hands to Next. Because it is
// complete, Next does not wait while it has records.
type prefetched struct {
	partition int32
	f         *Fetched
	from      int64 // requested offset
	next      int64 // after the last returned record; 0 before the first
	opened    bool  // the reader has a batch
	done      chan error
}

// take returns the next record, or nil at the end of the answer. It returns an error where the
// answer is broken.
func (p *prefetched) take() (*record.Record, error) {
	for {
		if !p.opened {
			ok, err := p.f.nextBatch()
			if err != nil || !ok {
				return nil, err
			}
			p.opened = true
		}
		if p.f.reader.Next() {
			r := p.f.reader.Record()
			p.f.from = r.Offset + 1
			p.next = p.f.from
			return r, nil
		}
		if err := p.f.reader.Err(); err != nil {
			return nil, err
		}
		p.f.from = max(p.f.from, p.f.base)
		p.opened = false
	}
}

// read hands over one partition from an offset on, until ctx ends or, without Follow, the partition
// does. It retries failed requests for Options.RetryTime.
func (k *Consumer) read(ctx context.Context, partition int32, from int64) error {
	r := reading{c: k.c, topic: k.topic, o: ReadOptions{Partition: partition, Follow: k.o.Follow}, from: from, end: -1}
	r.progress()
	done := make(chan error, 1) // with a buffer, so that Next does not wait for this goroutine
	for ctx.Err() == nil && (k.o.Follow || r.end < 0 || r.from < r.end) {
		before := r.from
		err := k.fetchNext(ctx, &r, done)
		if r.from > before {
			r.progress()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !r.canRetry(ctx, err):
			return err
		case err == nil && r.from == before && !k.o.Follow:
			return nil
		}
	}
	return nil
}

// fetchNext sends one request and waits until Next has consumed the answer.
func (k *Consumer) fetchNext(ctx context.Context, r *reading, done chan error) error {
	o := FetchOptions{Partition: r.o.Partition, Offset: r.from, MaxBytes: k.o.MaxBytes}
	if r.o.Follow {
		o.Wait = followWait
	}
	f, err := k.c.Fetch(ctx, k.topic, o)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.end < 0 {
		r.end = f.NextOffset
	}
	broken := f.load()
	p := &prefetched{partition: r.o.Partition, f: f, from: r.from, done: done}
	select {
	case k.queue <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = <-done
	r.from = f.ResumeOffset()
	if broken != nil && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		// The answer was incomplete even if its records form whole batches, or none.
		err = broken
	}
	return err
}
