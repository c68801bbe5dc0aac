package client

import (
	"context"
	"errors"
	"io"

	"github.com/sebbroker/seb/record"
)

// delivery is one answer on its way from the reader of a partition to Next. It is in memory as a whole, so that Next
// waits for nobody while it has records.
type delivery struct {
	partition int32
	f         *Fetched
	from      int64 // that was asked for
	next      int64 // behind the record given last; 0 before the first
	opened    bool  // a batch is
	done      chan error
}

// take returns the next record; nil at the end, or where the answer is broken.
func (d *delivery) take() (*record.Record, error) {
	for {
		if !d.opened {
			ok, err := d.f.nextBatch()
			if err != nil || !ok {
				return nil, err
			}
			d.opened = true
		}
		if d.f.reader.Next() {
			r := d.f.reader.Record()
			d.f.from = r.Offset + 1
			d.next = d.f.from
			return r, nil
		}
		if err := d.f.reader.Err(); err != nil {
			return nil, err
		}
		d.f.from = max(d.f.from, d.f.base)
		d.opened = false
	}
}

// read hands over one partition from an offset on, until ctx ends or, if the consumer does not follow, the partition
// does. Broken connections are mended for Options.RetryTime.
func (k *Consumer) read(ctx context.Context, partition int32, from int64) error {
	r := reading{c: k.c, topic: k.topic, o: ReadOptions{Partition: partition, Follow: k.o.Follow}, from: from, end: -1}
	r.progress()
	done := make(chan error, 1) // of one: Next does not wait for this goroutine
	for ctx.Err() == nil && (k.o.Follow || r.end < 0 || r.from < r.end) {
		before := r.from
		err := k.deliver(ctx, &r, done)
		if r.from > before {
			r.progress()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !r.again(ctx, err):
			return err
		case err == nil && r.from == before && !k.o.Follow:
			return nil
		}
	}
	return nil
}

// deliver is one request and the way of its answer through Next.
func (k *Consumer) deliver(ctx context.Context, r *reading, done chan error) error {
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
	d := &delivery{partition: r.o.Partition, f: f, from: r.from, done: done}
	select {
	case k.deliveries <- d:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = <-done
	r.from = f.Next()
	if broken != nil && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = broken // what came of it may be whole batches, or nothing: the answer ends too early all the same
	}
	return err
}
