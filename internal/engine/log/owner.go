package log

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// owner is the state of the goroutine that holds the core. Only that goroutine accesses it.
type owner struct {
	*Log
	batch    *Batcher[*member]
	fx       core.Effects
	spare    []message
	taken    []*member
	encoded  []core.Event // EvEncoded events, stepped after the current effects
	delayed  []delayed
	open     map[*proposal]struct{} // unanswered proposals
	storing  int64                  // bytes of their members
	puts     *pool
	gets     *pool
	snapshot snapshot                // the last one sent
	confirms map[uint64]chan<- error // unanswered calls of Confirm
	tag      uint64
	flushing bool
	lastBy   int64 // the wait for the last slot ends then; 0: it has not begun
	readers  bool
	short    bool               // the core knows that the budget is short
	armed    int64              // due time of the timer; 0: none
	held     bool               // writes wait for the clock
	askAt    int64              // when the store may be asked for its time again
	end      context.CancelFunc // cancels the requests of the core
	stands   []chan<- error     // unanswered calls of Stand; capacity 1 each
	gone     bool               // one of them knows that the leader has ended
	parks    []park
	feeder   cacheFeeder
	accessOf *state.State // the state whose principals and rules are published

	producers core.ProducerCounts // that are in the metrics
	lines     sampled.Lines

	decide, finish sync.Once
}

// delayed is a request that is not due yet.
type delayed struct {
	at int64
	e  core.Effect
}

// snapshot holds the bytes of a snapshot for later attempts (rule R1).
type snapshot struct {
	op   core.OpID
	body []byte
}

func newOwner(l *Log) *owner {
	o := &owner{Log: l, confirms: map[uint64]chan<- error{}, open: map[*proposal]struct{}{}}
	cfg := l.opt.Batch
	cfg.NoWait = l.opt.NoWait
	o.batch = NewBatcher[*member](cfg)
	o.puts, o.gets = newPool(putsMax), newPool(getsMax)
	o.feeder.f = l.opt.Hooks.FillCache
	return o
}

// run is the owner's loop. It ends when the log is closed and nothing is left to answer, or when
// ctx ends.
func (o *owner) run(ctx context.Context) {
	defer o.shutdown()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	closing := o.closing
	run := ctx
	ctx = o.begin(run)
	for {
		for o.next(ctx) {
			ctx = o.begin(run)
		}
		o.freeze(ctx)
		o.parked()
		o.tellShort(ctx)
		if o.flushing && o.flushed(ctx) {
			return
		}
		o.arm(timer)
		o.rest()
		select {
		case <-o.in.wake:
			o.drain(ctx)
		case <-timer.C:
			o.armed = 0
			o.drain(ctx)
			o.tick(ctx)
		case <-closing:
			closing, o.flushing = nil, true
			o.in.seal()
			o.drain(ctx)
			if o.batch.Len() > 0 {
				o.step(ctx, &core.Event{Kind: core.EvUnpark})
			}
		case <-run.Done():
			return
		}
	}
}

// begin starts a core and returns the context of its requests. It cancels those of the last core.
func (o *owner) begin(run context.Context) context.Context {
	if o.end != nil {
		o.end()
	}
	var ctx context.Context
	ctx, o.end = context.WithCancel(run)
	o.short = false
	o.step(ctx, &core.Event{Kind: core.EvStart})
	return ctx
}

// tellShort tells the core whether the budget of requests is short.
func (o *owner) tellShort(ctx context.Context) {
	if b := o.opt.Batch.Budget; b != nil && b.Short() != o.short {
		o.short = !o.short
		o.step(ctx, &core.Event{Kind: core.EvFrugal, On: o.short})
	}
}

// lastTime bounds the wait for the last slot of a leader.
const lastTime = 2 * time.Second

// flushed reports whether a closing log has answered all callers, except for appends that wait for the
// clock, which are rejected. A leader then commits its last slot (EvEnd). Nothing is lost without that
// slot, but a standby takes over later.
func (o *owner) flushed(ctx context.Context) bool {
	idle := func() bool { return len(o.open) == 0 && (o.batch.Len() == 0 || o.held) }
	if o.lastBy == 0 {
		if !idle() {
			return false
		}
		o.lastBy = o.now() + int64(lastTime)
		o.step(ctx, &core.Event{Kind: core.EvEnd})
	}
	return idle() || o.now() >= o.lastBy
}

// shutdown answers the remaining callers, cancels the requests and waits for their goroutines.
func (o *owner) shutdown() {
	o.kill()
	for _, m := range o.in.close() {
		if m.submit != nil {
			o.enqueue(m.submit)
		}
		if m.answer != nil {
			m.answer <- ErrClosed
		}
	}
	o.stood(ErrClosed)
	o.abandon()
	o.puts.wait()
	o.gets.wait()
	o.feeder.wait()
	o.finish.Do(func() { close(o.done) })
	close(o.ended)
}

// arm sets the timer to the earliest due time.
func (o *owner) arm(t *time.Timer) {
	at := o.fx.Wake
	earlier := func(v int64) {
		if at == 0 || v < at {
			at = v
		}
	}
	for i := range o.delayed {
		earlier(o.delayed[i].at)
	}
	if o.lastBy != 0 {
		earlier(o.lastBy)
	}
	if o.core.Room() {
		due, ok := o.batch.Due()
		if o.held {
			due = o.now() + int64(heldPoll)
		}
		if ok {
			earlier(due)
		}
	}
	switch {
	case at == o.armed: // most messages do not change it
	case at == 0:
		t.Stop()
	default:
		t.Reset(time.Duration(max(at-o.now(), 0)))
	}
	o.armed = at
}

// rest lets submits queue in the inbox while they cannot change when the next object is frozen:
// before its time, and while the core has no room. The timer, or an event of the core, wakes the
// owner then.
func (o *owner) rest() {
	bytes, items := int64(math.MaxInt64), math.MaxInt
	if o.core.Room() {
		bytes, items = o.batch.Slack()
	}
	o.in.rest(bytes, items)
}

// tick starts the requests that are due and sends the core its tick.
func (o *owner) tick(ctx context.Context) {
	now := o.now()
	for i := 0; i < len(o.delayed); {
		if o.delayed[i].at > now {
			i++
			continue
		}
		e := o.delayed[i].e
		last := len(o.delayed) - 1
		o.delayed[i] = o.delayed[last]
		o.delayed[last] = delayed{}
		o.delayed = o.delayed[:last]
		o.request(ctx, &e)
	}
	if o.fx.Wake != 0 && now >= o.fx.Wake {
		o.step(ctx, &core.Event{Kind: core.EvTick})
	}
}

func (o *owner) drain(ctx context.Context) {
	o.spare = o.in.take(o.spare)
	for i := range o.spare {
		if m := &o.spare[i]; m.submit != nil {
			o.enqueue(m.submit)
		} else {
			m.do(ctx, o)
		}
	}
}

// enqueue adds a ticket's members to the batcher.
func (o *owner) enqueue(t *Ticket) {
	for i := range t.members {
		m := &t.members[i]
		m.state = memberQueued
		if i == 0 || !t.atomic {
			o.batch.Add(&m.item, m.bytes, m.since)
		}
	}
}

// cancel ends a ticket: queued members are removed and rejected, sent ones are unknown (rule R4).
func (o *owner) cancel(t *Ticket, why error) {
	for i := range t.members {
		switch m := &t.members[i]; m.state {
		case memberQueued:
			o.batch.Cancel(&m.item)
			o.reject(m, o.notSent(why))
		case memberSent:
			o.answer(m, Result{})
		}
	}
}

// message is one item for the owner: a submit, or something to do. A submit is no function, because
// the inbox counts it and there are many.
type message struct {
	submit *Ticket
	do     func(ctx context.Context, o *owner)
	answer chan<- error // with do, unless nil: of a caller, who gets ErrClosed if the log closes before; capacity 1
}

// inbox passes messages to the owner: a slice under a mutex with one wake-up for any number of
// messages. It has no bound of its own: QueueBytes bounds submits, the core's requests bound answers,
// and the other messages have a waiting caller each.
//
// A message of 1 and of 8 producers that never pause took 100 and 180 ns on two cores, through a
// channel 200 and 250 ns, through a lock-free ring 230 and 2,800 ns. Only with 256 such producers was
// the channel faster, with 280 instead of 1,000 ns.
type inbox struct {
	wake wake.Signal

	mu     sync.Mutex // guards the fields below
	msgs   []message
	woken  bool  // wake was sent since the last take
	bytes  int64 // submits that may queue before the owner is woken: less than bytes and items
	items  int
	sealed bool // accepts nothing more from callers
	closed bool // accepts nothing more
}

// put delivers a message, or returns false if the inbox no longer accepts it.
func (b *inbox) put(m message) bool {
	b.mu.Lock()
	if b.closed || b.sealed && (m.submit != nil || m.answer != nil) {
		b.mu.Unlock()
		return false
	}
	b.msgs = append(b.msgs, m)
	wake := !b.woken && !b.queuesLocked(m.submit)
	b.woken = b.woken || wake
	b.mu.Unlock()
	if wake {
		b.wake.Send()
	}
	return true
}

// queuesLocked reports whether a message can wait for the owner because it is a submit within the
// limits of rest.
func (b *inbox) queuesLocked(t *Ticket) bool {
	if t == nil || b.items == 0 {
		return false
	}
	b.bytes -= t.bytes
	b.items -= len(t.members)
	return b.bytes > 0 && b.items > 0
}

// rest sets how much may be submitted before the owner is woken, until the next take.
func (b *inbox) rest(bytes int64, items int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes, b.items = bytes, items
}

// take returns the queued messages and reuses spare, whose messages were handled, for the next
// ones.
func (b *inbox) take(spare []message) []message {
	clear(spare)
	b.mu.Lock()
	msgs := b.msgs
	b.msgs = spare[:0]
	b.woken, b.bytes, b.items = false, 0, 0
	b.mu.Unlock()
	return msgs
}

// seal refuses further submits and confirmations; queued ones are still handled.
func (b *inbox) seal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
}

// close refuses all further messages and returns the last ones.
func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	msgs := b.msgs
	b.msgs = nil
	return msgs
}
