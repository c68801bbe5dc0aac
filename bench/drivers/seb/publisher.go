package seb

import (
	"context"
	"hash/fnv"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

// publisher spreads the messages of a publisher over lanes: without a key all go to one partition, which the next publisher
// follows with the next; with one, to that of its hash. So the order of a publisher, or of a key, is kept.
type publisher struct {
	o     laneOptions
	own   int
	lanes []*lane // by partition; nil: none yet
	after func()
}

func newPublisher(number, partitions int, o laneOptions, after func()) *publisher {
	return &publisher{o: o, own: number % partitions, lanes: make([]*lane, partitions), after: after}
}

// Publish implements sut.Publisher.
func (p *publisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	partition := p.own
	if key != nil {
		h := fnv.New32a()
		_, _ = h.Write(key) // can not fail
		partition = int(h.Sum32() % uint32(len(p.lanes)))
	}
	if p.lanes[partition] == nil {
		p.lanes[partition] = newLane(ctx, int32(partition), p.o)
	}
	p.lanes[partition].box.Put(ctx, sut.Queued{Key: key, Payload: payload, Done: done})
}

// Close implements sut.Publisher.
func (p *publisher) Close(ctx context.Context) error {
	var closing sync.WaitGroup
	for _, l := range p.lanes {
		if l != nil {
			closing.Go(func() { l.close(ctx) })
		}
	}
	closing.Wait()
	p.after()
	return context.Cause(ctx)
}
