package seb

import (
	"context"
	"hash/fnv"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

// publisher distributes messages over queues. Messages without a key go to one partition;
// consecutive publishers use consecutive partitions. Messages with a key go to that of its hash. So
// the order of a publisher, or of a key, is kept.
type publisher struct {
	o      queueOptions
	own    int
	queues []*queue // by partition; nil: none yet
	after  func()
}

func newPublisher(number, partitions int, o queueOptions, after func()) *publisher {
	return &publisher{o: o, own: number % partitions, queues: make([]*queue, partitions), after: after}
}

// Publish implements sut.Publisher.
func (p *publisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	partition := p.own
	if key != nil {
		h := fnv.New32a()
		_, _ = h.Write(key) // cannot fail
		partition = int(h.Sum32() % uint32(len(p.queues)))
	}
	if p.queues[partition] == nil {
		p.queues[partition] = newQueue(ctx, int32(partition), p.o)
	}
	p.queues[partition].box.Put(ctx, sut.Queued{Key: key, Payload: payload, Done: done})
}

// Close implements sut.Publisher.
func (p *publisher) Close(ctx context.Context) error {
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
