package seb

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/record"
)

// inflightOrdered bounds the requests of a producer that the broker keeps in order: it knows the
// producer's last five batches.
const inflightOrdered = 5

// errHole is the error of messages that follow ones of unknown outcome.
var errHole = errors.New("an earlier request failed, so the broker refuses later ones")

// produce sends batches to a partition and returns when they are durable.
type produce func(ctx context.Context, partition int32, batches []byte) error

// queueOptions are common to all queues of a system.
type queueOptions struct {
	inflight  int           // requests in flight; up to inflightOrdered are kept in order
	pace      time.Duration // shortest interval of requests; messages are collected meanwhile
	batchMax  int           // bytes of a request
	queueMax  int           // bytes that wait for a request
	isGap     func(error) bool
	produceTo produce
}

func (o *queueOptions) ordered() bool { return o.inflight <= inflightOrdered }

// queue sends the messages of one publisher to one partition. If the pace allows a request, a
// message is sent immediately; messages that arrive earlier are sent together.
//
// Up to inflightOrdered requests are those of an idempotent producer. The broker refuses a request
// that overtakes another. Then the queue sends nothing new until all requests have returned, and
// repeats the refused ones together, because single ones would be overtaken again.
type queue struct {
	o         queueOptions
	partition int32
	box       *sut.Outbox
	cancel    context.CancelCauseFunc // ends the requests
	loop      sync.WaitGroup
	flights   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	change   sync.Cond  // of mu: a request has finished
	producer record.Producer
	count    int        // of the requests so far
	inflight int        // requests in flight
	refused  []*request // refused because they overtook another
	known    bool       // the broker knows the producer; otherwise it accepts any first request
	broken   bool       // a request has failed, so the producer's sequence has a gap
}

// request is a request to the broker.
type request struct {
	number  int
	list    []sut.Queued
	batches []byte
}

// newQueue starts a queue, which does not end with ctx. The caller calls close.
func newQueue(ctx context.Context, partition int32, o queueOptions) *queue {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &queue{o: o, partition: partition, box: sut.NewOutbox(o.queueMax), cancel: cancel}
	l.change.L = &l.mu
	l.reset()
	l.loop.Go(func() { l.run(ctx) })
	return l
}

// reset starts a new producer.
func (l *queue) reset() {
	l.producer, l.known, l.broken = record.Producer{ID: rand.Int64N(math.MaxInt64) + 1}, false, false
}

func (l *queue) run(ctx context.Context) {
	defer l.flights.Wait()
	for last := (time.Time{}); ; last = time.Now() {
		l.mu.Lock()
		l.wait()
		l.mu.Unlock()
		list, err := l.take(ctx, last)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.wait() // a request may have finished meanwhile
		list = append(list, l.box.TakeNow(l.o.batchMax-sut.QueuedBytes(list))...)
		f, err := l.encodeLocked(list)
		if err == nil {
			l.inflight++
		}
		l.mu.Unlock()
		if err != nil {
			sut.DoneAll(list, err)
			continue
		}
		l.flights.Go(func() { l.finish(ctx, f, l.o.produceTo(ctx, l.partition, f.batches)) })
	}
}

// wait waits until a request may be started. mu is held.
func (l *queue) wait() {
	for l.inflight >= l.o.inflight || l.o.ordered() && (l.broken || len(l.refused) > 0 || !l.known && l.inflight > 0) {
		l.change.Wait()
	}
}

// take returns the messages of the next request, at least the pace after the last one.
func (l *queue) take(ctx context.Context, last time.Time) ([]sut.Queued, error) {
	list, err := l.box.Take(math.MaxInt, l.o.batchMax)
	if err != nil {
		return nil, err
	}
	if wait := l.o.pace - time.Since(last); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return list, nil
}

// encodeLocked makes the request of messages.
func (l *queue) encodeLocked(list []sut.Queued) (*request, error) {
	now := time.Now().UnixMilli()
	records := make([]record.Record, len(list))
	for i := range list {
		records[i] = record.Record{Key: list[i].Key, Value: list[i].Payload, Timestamp: now}
	}
	o := record.EncodeOptions{}
	if l.o.ordered() {
		o.Producer = &l.producer
	}
	buf := make([]byte, 0, sut.QueuedBytes(list)+len(list)*recordOverhead+record.BatchHeadSize)
	batches, _, err := record.Append(buf, records, o)
	if err != nil {
		return nil, err
	}
	l.producer.Sequence = int32((int64(l.producer.Sequence) + int64(len(list))) & math.MaxInt32)
	l.count++
	return &request{l.count, list, batches}, nil
}

// recordOverhead is the approximate size of a record besides key and value, including its share of
// the batch.
const recordOverhead = 32

// finish records the result of a request. The last request in flight repeats the refused ones.
func (l *queue) finish(ctx context.Context, f *request, err error) {
	held := err != nil && l.o.ordered() && l.o.isGap(err)
	if !held {
		sut.DoneAll(f.list, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case held:
		l.refused = append(l.refused, f)
	case err != nil:
		l.broken = true
	default:
		l.known = true
	}
	if l.inflight == 1 && len(l.refused) > 0 {
		l.repeat(ctx)
	}
	l.inflight--
	if l.inflight == 0 && l.broken {
		l.reset()
	}
	l.change.Broadcast()
}

// repeat sends the refused requests again, in order. mu is held except during the requests; nothing
// else is in flight.
func (l *queue) repeat(ctx context.Context) {
	slices.SortFunc(l.refused, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	for rest := l.refused; len(rest) > 0; {
		n := 1
		batches := rest[0].batches
		for n < len(rest) && len(batches)+len(rest[n].batches) <= l.o.batchMax {
			batches = slices.Concat(batches, rest[n].batches)
			n++
		}
		broken, err := l.broken, errHole
		l.mu.Unlock()
		if !broken {
			err = l.o.produceTo(ctx, l.partition, batches)
		}
		for _, f := range rest[:n] {
			sut.DoneAll(f.list, err)
		}
		l.mu.Lock()
		l.broken = l.broken || err != nil
		rest = rest[n:]
	}
	l.refused = nil
}

// close waits for requests in flight until ctx ends, then cancels them. Unsent messages are done
// with an error.
func (l *queue) close(ctx context.Context) {
	l.box.Close()
	stop := context.AfterFunc(ctx, func() {
		l.cancel(context.Cause(ctx))
		l.box.Fail(context.Cause(ctx))
	})
	l.loop.Wait()
	stop()
	l.cancel(sut.ErrClosed)
}
