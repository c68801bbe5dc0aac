package drivers

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/record"
)

// inflightOrdered bounds the requests of a producer that the broker keeps in order: it knows the
// producer's last five batches.
const inflightOrdered = 5

// errHole is the error of messages that follow ones of unknown outcome.
var errHole = errors.New("an earlier request failed, so the broker refuses later ones")

// produce sends batches to a partition and returns when they are durable.
type produce func(ctx context.Context, partition int32, batches []byte) error

// sebQueueOptions are common to all queues of a system.
type sebQueueOptions struct {
	inflight  int           // requests in flight; up to inflightOrdered are kept in order
	pace      time.Duration // shortest interval of requests; messages are collected meanwhile
	batchMax  int           // bytes of a request
	queueMax  int           // bytes that wait for a request
	batch     int           // messages that wait for each other
	isGap     func(error) bool
	produceTo produce
}

func (o *sebQueueOptions) ordered() bool { return o.inflight <= inflightOrdered }

// sebQueue sends the messages of one publisher to one partition. If the pace allows a request, a
// message is sent immediately; messages that arrive earlier are sent together.
//
// Up to inflightOrdered requests are those of an idempotent producer. The broker refuses a request
// that overtakes another. Then the queue sends nothing new until all requests have returned, and
// repeats the refused ones together, because single ones would be overtaken again.
type sebQueue struct {
	o         sebQueueOptions
	partition int32
	box       *outbox
	cancel    context.CancelCauseFunc // ends the requests
	loop      sync.WaitGroup
	flights   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	change   sync.Cond  // of mu: a request has finished
	producer record.Producer
	count    int           // of the requests so far
	inflight int           // requests in flight
	refused  []*sebRequest // refused because they overtook another
	known    bool          // the broker knows the producer; otherwise it accepts any first request
	broken   bool          // a request has failed, so the producer's sequence has a gap
}

// sebRequest is a request to the broker.
type sebRequest struct {
	number  int
	list    []queued
	batches []byte
}

// newSebQueue starts a queue, which does not end with ctx. The caller calls close.
func newSebQueue(ctx context.Context, partition int32, o sebQueueOptions) *sebQueue {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &sebQueue{o: o, partition: partition, box: newOutbox(o.queueMax, o.batch), cancel: cancel}
	l.change.L = &l.mu
	l.reset()
	l.loop.Go(func() { l.run(ctx) })
	return l
}

// reset starts a new producer.
func (l *sebQueue) reset() {
	l.producer, l.known, l.broken = record.Producer{ID: rand.Int64N(math.MaxInt64) + 1}, false, false
}

func (l *sebQueue) run(ctx context.Context) {
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
		list = append(list, l.box.TakeNow(l.o.batchMax-queuedBytes(list))...)
		f, err := l.encodeLocked(list)
		if err == nil {
			l.inflight++
		}
		l.mu.Unlock()
		if err != nil {
			doneAll(list, err)
			continue
		}
		if l.o.inflight == 1 && l.o.pace == 0 { // in this goroutine, whose stack has grown
			l.finish(ctx, f, l.o.produceTo(ctx, l.partition, f.batches))
			continue
		}
		l.flights.Go(func() { l.finish(ctx, f, l.o.produceTo(ctx, l.partition, f.batches)) })
	}
}

// wait waits until a request may be started. mu is held.
func (l *sebQueue) wait() {
	for l.inflight >= l.o.inflight || l.o.ordered() && (l.broken || len(l.refused) > 0 || !l.known && l.inflight > 0) {
		l.change.Wait()
	}
}

// take returns the messages of the next request, at least the pace after the last one.
func (l *sebQueue) take(ctx context.Context, last time.Time) ([]queued, error) {
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
func (l *sebQueue) encodeLocked(list []queued) (*sebRequest, error) {
	now := time.Now().UnixMilli()
	records := make([]record.Record, len(list))
	for i := range list {
		records[i] = record.Record{Key: list[i].Key, Value: list[i].Payload, Timestamp: now}
	}
	o := record.EncodeOptions{}
	if l.o.ordered() {
		o.Producer = &l.producer
	}
	buf := make([]byte, 0, queuedBytes(list)+len(list)*recordOverhead+record.BatchHeadSize)
	batches, _, err := record.Append(buf, records, o)
	if err != nil {
		return nil, err
	}
	l.producer.Sequence = int32((int64(l.producer.Sequence) + int64(len(list))) & math.MaxInt32)
	l.count++
	return &sebRequest{l.count, list, batches}, nil
}

// recordOverhead is the approximate size of a record besides key and value, including its share of
// the batch.
const recordOverhead = 32

// finish records the result of a request. The last request in flight repeats the refused ones.
func (l *sebQueue) finish(ctx context.Context, f *sebRequest, err error) {
	held := err != nil && l.o.ordered() && l.o.isGap(err)
	if !held {
		doneAll(f.list, err)
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
func (l *sebQueue) repeat(ctx context.Context) {
	slices.SortFunc(l.refused, func(a, b *sebRequest) int { return cmp.Compare(a.number, b.number) })
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
			doneAll(f.list, err)
		}
		l.mu.Lock()
		l.broken = l.broken || err != nil
		rest = rest[n:]
	}
	l.refused = nil
}

// close waits for requests in flight until ctx ends, then cancels them. Unsent messages are done
// with an error.
func (l *sebQueue) close(ctx context.Context) {
	l.box.Close()
	stop := context.AfterFunc(ctx, func() {
		l.cancel(context.Cause(ctx))
		l.box.Fail(context.Cause(ctx))
	})
	l.loop.Wait()
	stop()
	l.cancel(errClosed)
}

// sebPublisher distributes messages over queues. Messages without a key go to one partition;
// consecutive publishers use consecutive partitions. Messages with a key go to that of its hash. So
// the order of a publisher, or of a key, is kept.
type sebPublisher struct {
	o      sebQueueOptions
	own    int
	queues []*sebQueue // by partition; nil: none yet
	after  func()
}

func newSebPublisher(number, partitions int, o sebQueueOptions, after func()) *sebPublisher {
	return &sebPublisher{o: o, own: number % partitions, queues: make([]*sebQueue, partitions), after: after}
}

func (p *sebPublisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	partition := partitionOf(key, p.own, len(p.queues))
	if p.queues[partition] == nil {
		p.queues[partition] = newSebQueue(ctx, int32(partition), p.o)
	}
	p.queues[partition].box.Put(ctx, queued{Key: key, Payload: payload, Done: done})
}

func (p *sebPublisher) Close(ctx context.Context) error {
	var closing sync.WaitGroup
	for _, l := range p.queues {
		if l != nil {
			closing.Go(func() { l.close(ctx) })
		}
	}
	closing.Wait()
	p.after()
	return context.Cause(ctx)
}
