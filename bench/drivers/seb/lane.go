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

// inflightOrdered is how many requests of a producer may be under way in order: the broker knows its last so many.
const inflightOrdered = 5

// errHole is what messages are done with that come after some of which it is not known what became of them.
var errHole = errors.New("a request before this one has failed, so the broker refuses those that follow")

// produce sends batches to a partition and returns once they are durable.
type produce func(ctx context.Context, partition int32, batches []byte) error

// laneOptions are what all lanes of a system have in common.
type laneOptions struct {
	inflight  int           // requests under way; up to inflightOrdered of them are kept in order
	pace      time.Duration // at least so long from one request to the next; messages are collected meanwhile
	batchMax  int           // bytes of a request
	queueMax  int           // bytes that wait for a request
	isGap     func(error) bool
	produceTo produce
}

func (o *laneOptions) ordered() bool { return o.inflight <= inflightOrdered }

// lane sends the messages of one publisher to one partition. A message leaves at once if the pace allows another request;
// what comes before that leaves together. Up to inflightOrdered requests go as those of an idempotent producer: one that overtakes
// another is refused by the broker. Then nothing new is sent until all are back, and those that were refused go again,
// together: sent one by one they would be overtaken in their turn.
type lane struct {
	o         laneOptions
	partition int32
	box       *sut.Outbox
	cancel    context.CancelCauseFunc // ends the requests
	loop      sync.WaitGroup
	flights   sync.WaitGroup

	mu       sync.Mutex // guards what follows
	change   sync.Cond  // of mu: something has landed
	producer record.Producer
	count    int       // of the requests so far
	flying   int       // requests under way
	held     []*flight // refused, because they came before another
	known    bool      // the broker has something of the producer; it would take whatever comes first
	broken   bool      // a request has failed: the producer's sequence has a hole
}

// flight is a request.
type flight struct {
	number  int
	list    []sut.Queued
	batches []byte
}

// newLane starts a lane, which ctx does not end. The caller calls close.
func newLane(ctx context.Context, partition int32, o laneOptions) *lane {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &lane{o: o, partition: partition, box: sut.NewOutbox(o.queueMax), cancel: cancel}
	l.change.L = &l.mu
	l.anew()
	l.loop.Go(func() { l.run(ctx) })
	return l
}

// anew begins with a new producer, which nobody else has.
func (l *lane) anew() {
	l.producer, l.known, l.broken = record.Producer{ID: rand.Int64N(math.MaxInt64) + 1}, false, false
}

func (l *lane) run(ctx context.Context) {
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
		l.wait() // something may have landed meanwhile
		list = append(list, l.box.TakeNow(l.o.batchMax-sut.QueuedBytes(list))...)
		f, err := l.encodeLocked(list)
		if err == nil {
			l.flying++
		}
		l.mu.Unlock()
		if err != nil {
			sut.DoneAll(list, err)
			continue
		}
		l.flights.Go(func() { l.land(ctx, f, l.o.produceTo(ctx, l.partition, f.batches)) })
	}
}

// wait waits until a request may be started. mu is held.
func (l *lane) wait() {
	for l.flying >= l.o.inflight || l.o.ordered() && (l.broken || len(l.held) > 0 || !l.known && l.flying > 0) {
		l.change.Wait()
	}
}

// take takes what goes with the next request, which the one before has left so long ago as the pace wants.
func (l *lane) take(ctx context.Context, last time.Time) ([]sut.Queued, error) {
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
func (l *lane) encodeLocked(list []sut.Queued) (*flight, error) {
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
	return &flight{l.count, list, batches}, nil
}

// recordOverhead is about what a record takes besides key and value, and its part of a batch.
const recordOverhead = 32

// land notes what became of a request. Who lands last sends those again that were refused.
func (l *lane) land(ctx context.Context, f *flight, err error) {
	held := err != nil && l.o.ordered() && l.o.isGap(err)
	if !held {
		sut.DoneAll(f.list, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case held:
		l.held = append(l.held, f)
	case err != nil:
		l.broken = true
	default:
		l.known = true
	}
	if l.flying == 1 && len(l.held) > 0 {
		l.again(ctx)
	}
	l.flying--
	if l.flying == 0 && l.broken {
		l.anew()
	}
	l.change.Broadcast()
}

// again sends what was refused, in order. mu is held, but for the while of the requests; nothing else is under way.
func (l *lane) again(ctx context.Context) {
	slices.SortFunc(l.held, func(a, b *flight) int { return cmp.Compare(a.number, b.number) })
	for rest := l.held; len(rest) > 0; {
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
	l.held = nil
}

// close waits for what is under way until ctx ends, then ends it. What was not sent is done with an error.
func (l *lane) close(ctx context.Context) {
	l.box.Close()
	stop := context.AfterFunc(ctx, func() {
		l.cancel(context.Cause(ctx))
		l.box.Fail(context.Cause(ctx))
	})
	l.loop.Wait()
	stop()
	l.cancel(sut.ErrClosed)
}
