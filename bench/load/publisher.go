package load

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/bench/workload"

	"github.com/sebbroker/seb/bench/sut"
)

// publisher sends the messages of one connection. Its loop runs in one goroutine; acknowledgements
// may come from any.
type publisher struct {
	r        *run
	number   int // among the publishers of all parts; messages carry it
	topic    int
	conn     sut.Publisher
	shard    *sendShard
	schedule *workload.Schedule
	rand     *rand.Rand // of sizes and keys
	zipf     *rand.Zipf // nil: all keys are equally likely
	keys     [][]byte   // shared by all publishers; empty: messages have no key

	free  chan *slot // holds every slot that is not in flight; never full
	slots []*slot    // all slots, at most cap(free)

	next atomic.Uint64 // the next sequence number
	last int64         // when the last measured message was sent

	mu    sync.Mutex // guards acked
	acked workload.SequenceSet
}

// slot is a message in flight. The driver uses its buffer until it calls done.
type slot struct {
	p         *publisher
	buf       *workload.MessageBuffer
	state     atomic.Uint32
	seq       uint64
	due, sent int64
	done      func(error) // the method finish, stored to avoid an allocation
}

// The states of a slot.
const (
	slotFree uint32 = iota
	slotInFlight
	slotAbandoned // the run ended without a response
)

func newPublisher(r *run, number int) *publisher {
	p := &publisher{
		r: r, number: number, topic: number % r.w.Topics,
		shard: r.sends[number%len(r.sends)], free: make(chan *slot, r.w.Window()),
	}
	p.rand = rand.New(rand.NewPCG(r.w.Seed, 1<<32|uint64(p.number)))
	if len(r.publishers) == 0 {
		p.keys = make([][]byte, r.w.Keys)
		for i := range p.keys {
			p.keys[i] = strconv.AppendInt([]byte("key-"), int64(i), 10)
		}
	} else {
		p.keys = r.publishers[0].keys
	}
	if r.w.Keys > 0 && r.w.KeySkew > 0 {
		p.zipf = rand.NewZipf(p.rand, r.w.KeySkew, 1, uint64(r.w.Keys-1))
	}
	return p
}

// timing is what the loop of a publisher keeps about time.
type timing struct {
	now int64 // the last clock reading
	// ready is the time from which only the generator delays a message that is due: the system had
	// accepted the previous message, and enough messages in flight were answered.
	ready int64
	// lagging is how late the last message would have been if the system accepted messages in no
	// time. Delays of the generator add up in it until it has caught up.
	lagging int64
	last    int64 // when the last message was due

	scheduled int64 // closed loop: the due time of the last message in the schedule
}

// loop sends the messages of the schedule until it or ctx ends.
func (p *publisher) loop(ctx context.Context) {
	p.schedule = p.r.schedule(p.number)
	t := timing{now: p.r.clock.Now(), ready: p.r.start, last: p.r.start, scheduled: p.r.start}
	send := p.sendOpen
	if p.r.w.Loop == workload.Closed {
		send = p.sendClosed
	}
	for ctx.Err() == nil && send(ctx, &t) {
	}
}

// sendOpen sends the next message when it is due, and reports whether there was one.
func (p *publisher) sendOpen(ctx context.Context, t *timing) bool {
	due, ok := p.schedule.Next()
	if !ok {
		return false
	}
	if due > t.now {
		if p.r.clock.SleepUntil(ctx, due) != nil {
			return false
		}
		t.now = p.r.clock.Now()
	}
	own := t.now - max(due, t.ready)
	s := p.take(ctx, t)
	if s == nil {
		return false
	}
	p.publish(ctx, t, s, due, own)
	return true
}

// sendClosed waits for the previous batch and sends the next one after the gap that the schedule has
// between the two, or at once if that time is past. This is what load generators do that hide the
// effect of a stall.
func (p *publisher) sendClosed(ctx context.Context, t *timing) bool {
	batch := make([]*slot, p.r.w.Together())
	var scheduled int64
	for i := range batch {
		var ok bool
		if scheduled, ok = p.schedule.Next(); !ok {
			return false
		}
		// All slots are free when the previous batch is acknowledged.
		if batch[i] = p.take(ctx, t); batch[i] == nil {
			return false
		}
	}
	gap := scheduled - t.scheduled
	t.scheduled = scheduled
	t.now = p.r.clock.Now()
	due := max(t.last+gap, t.now)
	if due >= p.r.end || p.r.clock.SleepUntil(ctx, due) != nil {
		return false
	}
	t.now = p.r.clock.Now()
	own := t.now - due
	for _, s := range batch {
		p.publish(ctx, t, s, due, own)
		own = 0
	}
	return true
}

// publish sends a message. own is how long the generator has delayed it so far.
func (p *publisher) publish(ctx context.Context, t *timing, s *slot, due, own int64) {
	began := t.now
	s.buf.Prepare(p.r.w.Size.Draw(p.rand))
	key := p.key()
	s.seq, s.due = p.next.Load(), due
	s.sent = p.r.clock.Now()
	payload := s.buf.Encode(workload.MessageHeader{
		Run: p.r.o.Run, Producer: uint32(p.number), Sequence: s.seq, Intended: due - p.r.start, Sent: s.sent - p.r.start,
	})
	sent := s.sent // after Publish, another message may use the slot
	s.state.Store(slotInFlight)
	p.next.Store(s.seq + 1)
	p.r.sent.Add(1)
	p.conn.Publish(ctx, key, payload, s.done)
	t.now = p.r.clock.Now()
	own += sent - began
	// If the generator was late with the previous message, it was equally late with this one at
	// first, less the time that has passed since.
	t.lagging = max(0, t.lagging-(due-t.last)) + own
	t.ready, t.last = t.now, due
	if p.r.measures(due) {
		p.r.measured.Add(1)
		p.last = sent
		p.shard.handed(sent-due, t.lagging, t.now-sent)
	}
	atLeast(&p.r.lagMax, sent-due)
}

// take returns a slot that is not in flight, nil if ctx ended first.
func (p *publisher) take(ctx context.Context, t *timing) *slot {
	select {
	case s := <-p.free:
		return s
	default:
	}
	if len(p.slots) < cap(p.free) {
		return p.newSlot()
	}
	p.r.waited.Add(1)
	select {
	case s := <-p.free:
		t.now = p.r.clock.Now()
		t.ready = t.now
		return s
	case <-ctx.Done():
		return nil
	}
}

func (p *publisher) newSlot() *slot {
	seed := p.r.w.Seed<<32 ^ uint64(p.number)<<20 ^ uint64(len(p.slots))
	s := &slot{p: p, buf: workload.NewMessageBuffer(p.r.w.Size.Max(), p.r.w.Compressible, seed)}
	s.done = s.finish
	p.slots = append(p.slots, s)
	return s
}

// key returns the key of the next message; the driver must not change it.
func (p *publisher) key() []byte {
	switch {
	case len(p.keys) == 0:
		return nil
	case p.zipf != nil:
		return p.keys[p.zipf.Uint64()]
	}
	return p.keys[p.rand.IntN(len(p.keys))]
}

// finish handles the response to a publish; the driver calls it once.
func (s *slot) finish(err error) {
	p := s.p
	now := p.r.clock.Now()
	if !s.state.CompareAndSwap(slotInFlight, slotFree) {
		if s.state.Load() == slotFree {
			p.r.doneTwice.Add(1)
		}
		return
	}
	intended, sent := now-s.due, now-s.sent
	if err == nil {
		p.mu.Lock()
		p.acked.Add(s.seq)
		p.mu.Unlock()
		p.r.acked.Add(1)
	} else {
		p.r.failed.Add(1)
		p.r.problem("publish: " + err.Error())
		// A message that failed at once must not count as a fast one.
		intended, sent = max(intended, int64(p.r.w.Timeout)), max(sent, int64(p.r.w.Timeout))
	}
	p.shard.record(intended, sent, p.r.measures(s.due))
	p.free <- s
}

// atLeast raises a value to n if it is lower.
func atLeast(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
