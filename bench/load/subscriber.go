package load

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// group is one or more subscribers of a topic that together receive each of its messages.
type group struct {
	Group
	r *run

	mu       sync.Mutex         // guards trackers and closed
	trackers []workload.Tracker // of the topic's publishers in all parts; see tracker
	closed   bool               // messages are no longer counted

	received atomic.Int64 // first deliveries
}

func newGroup(r *run, of Group) *group {
	return &group{Group: of, r: r, trackers: make([]workload.Tracker, (r.w.Publishers-of.Topic+r.w.Topics-1)/r.w.Topics)}
}

// tracker returns the tracker of a publisher. Publishers take topics in turns, so the topic has
// every Topics-th publisher.
func (g *group) tracker(publisher int) *workload.Tracker { return &g.trackers[publisher/g.r.w.Topics] }

// saw checks and counts a message that arrived; fresh reports whether it is the first with its
// number.
func (g *group) record(publisher int, seq uint64) (fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	switch g.tracker(publisher).Saw(seq) {
	case workload.Duplicate:
		g.r.duplicates.Add(1)
		return false
	case workload.Reordered:
		g.r.reordered.Add(1)
	}
	g.received.Add(1)
	g.r.received.Add(1)
	return true
}

// subscriber receives over one connection.
type subscriber struct {
	r     *run
	index int
	group *group
	shard *shard
	conn  sut.Subscriber
}

// receive handles messages until ctx ends or the connection fails.
func (s *subscriber) receive(ctx context.Context) {
	err := s.conn.Receive(ctx, func(payload []byte) {
		s.handle(payload)
		s.applyDelay(ctx)
	})
	if err != nil && ctx.Err() == nil {
		s.r.problem("receive: " + err.Error())
	}
}

// take verifies and measures a message.
func (s *subscriber) handle(payload []byte) {
	now := s.r.clock.Now()
	h, err := workload.DecodeMessage(payload)
	if err != nil {
		s.r.corrupt.Add(1)
		s.r.problem("received a message that is" + describe(err))
		return
	}
	r := s.r
	number := int64(h.Producer)
	if h.Run != r.o.Run || number >= int64(r.w.Publishers) || int(number)%r.w.Topics != s.group.Topic {
		r.foreign.Add(1)
		return
	}
	p := r.publisher(int(number))
	sent := r.sequencesMax // how many messages other parts have sent is unknown
	if p != nil {
		sent = p.next.Load()
	}
	if p == nil && r.ownSystems || h.Sequence >= sent {
		r.foreign.Add(1)
		return
	}
	if !s.group.record(int(number), h.Sequence) {
		return
	}
	measured := r.measuresAfter(h.Intended)
	if measured {
		r.measuredReceived.Add(1)
		atLeast(&r.lastReceived, now)
	}
	if p == nil {
		r.others.Add(1)
		return
	}
	s.shard.record(now-r.start-h.Intended, now-r.start-h.Sent, measured)
}

// describe turns an error of DecodeMessage into part of a sentence.
func describe(err error) string {
	if err == workload.ErrChecksum {
		return "damaged: its " + err.Error()
	}
	return err.Error()
}

// applyDelay applies the delay of an active fault.
func (s *subscriber) applyDelay(ctx context.Context) {
	delay, until := s.r.delay.Load(), s.r.holdUntil.Load()
	if delay == 0 && until == 0 {
		return
	}
	// An error means that the run is ending.
	_ = s.r.clock.SleepUntil(ctx, max(until, s.r.clock.Now()+delay))
}
