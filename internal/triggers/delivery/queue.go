package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// queue is the queue and the deliveries in flight of a trigger.
type queue struct {
	id string

	// Used by the loop only.
	plan  *plan     // of the current definition; nil: not read
	held  time.Time // no deliveries before, because of head
	again time.Time // next reading that begins with the first pending firing

	// Guarded by Dispatcher.mu.
	head         *rules.Head          // version that plan is of, written by the loop
	by           *plan                // plan for the lines
	lines        lines                // firings read ahead
	ahead        int                  // firings to read ahead
	inflight     map[rule.ID]struct{} // firings without a recorded outcome
	attempts     int                  // attempts in progress
	pace         pace                 // limit of attempts, if by has none
	full         bool                 // the sender had no capacity
	fullAt       uint64               // value of Dispatcher.finished when full was set
	backoffUntil time.Time            // backing off until then after an error
}

// plan is the destination of a trigger's messages: a webhook, a topic, a queue or none.
type plan struct {
	*webhook.Plan
	given    json.RawMessage // deliver section of the definition
	receiver string          // URL, as key for backing off a receiver
}

// queueOf returns a trigger's queue with the plan of its current definition. The queue has no plan
// if the plan is invalid or does not fit into memory. A deleted trigger has no queue: nil.
func (d *Dispatcher) queueOf(ctx context.Context, id string, now time.Time) (*queue, error) {
	h, err := d.opt.Engine.Head(id)
	if err != nil {
		return nil, nil
	}
	q := d.queues[id]
	if q == nil {
		q = &queue{id: id, inflight: map[rule.ID]struct{}{}, lines: newLines(), ahead: queueMin, pace: newPace()}
		d.queues[id] = q
	}
	if q.head == h && (q.plan != nil || q.held.After(now)) {
		return q, nil
	}
	q.held = time.Time{}
	if most := d.opt.Webhooks.Bytes / 4; d.plans > 0 && d.plans+planShare*h.Size > most && q.plan == nil {
		d.planMissing = true
		return q, nil
	}
	t, err := d.opt.Engine.Trigger(ctx, id)
	if err != nil {
		return nil, err
	}
	d.setHead(q, h)
	deliver, err := d.opt.Engine.Opened(&t.Definition)
	if q.plan != nil && err == nil && bytes.Equal(q.plan.given, deliver) {
		return q, nil
	}
	d.dropPlan(q)
	var p plan
	if err == nil {
		p, err = readPlan(deliver, d.opt.Webhooks.Policy)
	}
	if errors.Is(err, secrets.ErrNoKey) { // the engine logs it once for all triggers
		q.held = now.Add(idleWait)
		return q, nil
	}
	if err != nil {
		d.opt.Logger.Error("trigger delivery is misconfigured; firings are held", "trigger", id, "err", err)
		q.held = now.Add(idleWait)
		return q, nil
	}
	q.plan = &p
	d.plans += q.plan.bytes()
	return q, nil
}

// setHead notes a new version of a trigger. Firings that were read ahead are read again, because
// their plan may have changed, and because a pause drops them without an attempt.
func (d *Dispatcher) setHead(q *queue, h *rules.Head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.head, q.by = h, nil
	q.lines.clear()
}

func (p *plan) bytes() int { return planShare * (len(p.given) + 1<<10) }

// dropPlan removes the plan of a queue.
func (d *Dispatcher) dropPlan(q *queue) {
	if q.plan != nil {
		d.plans -= q.plan.bytes()
		q.plan = nil
	}
}

// inflightLimit bounds the deliveries of all triggers, including unrecorded outcomes.
func (d *Dispatcher) inflightLimit() int {
	return max(2*concurrencyFirst, d.opt.Webhooks.Bytes/deliveryBytes)
}

func (d *Dispatcher) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inflight >= d.inflightLimit()
}

// readPlan parses a deliver section. One that was valid when the trigger was created stays valid
// unless the policy has changed.
func readPlan(text json.RawMessage, policy webhook.Policy) (p plan, err error) {
	p.given = text
	if len(text) == 0 || string(text) == "null" {
		p.Plan = &webhook.Plan{Backoff: webhook.DefaultBackoff()}
		return p, nil
	}
	given, err := webhook.ParseOpened(text)
	if err == nil {
		p.receiver = given.URL
		p.Plan, err = given.Plan(policy, nil)
	}
	return p, err
}

// heldUntil is the earliest time of the next delivery of a trigger, after quiet hours, backoff
// after errors, and a pause that its receiver asked for.
func (d *Dispatcher) heldUntil(q *queue, p *plan, now time.Time) time.Time {
	d.mu.Lock()
	at := later(q.backoffUntil, d.receivers[p.receiver])
	d.mu.Unlock()
	return p.Rules.Quiet.Next(later(now, at))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// reading is a query for firings to deliver; limit 0: none is needed.
type reading struct {
	rules.PendingQuery
	first bool // it begins with the first pending firing
}

// reading returns the query that fills up the firings read ahead. A query from the first firing on
// passes all those of busy entities, of which there may be many. When that takes long, the next ones
// only read what is after the last firing that was read.
func (d *Dispatcher) reading(q *queue, v visit) (r reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ready := len(q.lines.ready)
	if ready == 0 && q.attempts > 0 {
		q.ahead *= 2
	}
	q.ahead = min(max(q.ahead, 2*q.plan.Concurrency), v.ahead)
	if ready > q.ahead/4 || d.fullLocked(q) {
		return r
	}
	r.first, r.Limit = q.by == nil || len(q.lines.of) == 0 || q.lines.read == (rules.DuePosition{}) || !v.now.Before(q.again), q.ahead
	if r.first {
		r.Limit += len(q.inflight) // they are still pending
		q.lines.read = rules.DuePosition{}
	}
	r.After, r.Except = q.lines.read, q.lines.begin(r.first)
	return r
}

// refill adds the result of a reading to the firings that are read ahead.
func (d *Dispatcher) refill(q *queue, r reading, list []rules.Firing, read rules.DuePosition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.by, q.lines.read = q.plan, read
	q.lines.fill(r.first, slices.DeleteFunc(list, func(x rules.Firing) bool { _, there := q.inflight[x.ID]; return there }), 2*r.Limit)
}

// roomLocked reports whether one more delivery of a trigger may start, if fewer than a number of
// messages are being built. A trigger has at most half of all deliveries in flight.
func (d *Dispatcher) roomLocked(q *queue, builders int) bool {
	limit := q.pace.limit
	if q.by != nil && q.by.Concurrency > 0 {
		limit = q.by.Concurrency
	}
	all := d.inflightLimit()
	return !d.fullLocked(q) && q.attempts < limit && d.building < builders && len(q.inflight) < all/2 && d.inflight < all
}

// fullLocked reports whether the sender had no capacity for a trigger, and no attempt has ended since.
func (d *Dispatcher) fullLocked(q *queue) bool { return q.full && q.fullAt == d.finished }

// begin takes the next delivery of a trigger; nil if none may start now. A pause or another change of
// the trigger holds for deliveries that have not begun.
func (d *Dispatcher) begin(q *queue, builders int) (*rules.Firing, *plan) {
	d.mu.Lock()
	p, head := q.by, q.head
	d.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	if h, err := d.opt.Engine.Head(q.id); err != nil || h != head || h.Paused {
		return nil, nil
	}
	if now := d.opt.Webhooks.Now(); d.heldUntil(q, p, now).After(now) {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.starved && builders < buildersMax { // the slot is for the loop, which serves the triggers in turn
		return nil, nil
	}
	if q.by != p || !d.roomLocked(q, builders) || p.Target != nil && !d.sender.Room(q.id, q.attempts) {
		return nil, nil
	}
	x := q.lines.next()
	if x == nil {
		return nil, nil
	}
	q.inflight[x.ID] = struct{}{}
	d.inflight++
	q.attempts++
	d.building++
	q.pace.started(q.attempts)
	return x, p
}

// starves reports whether a trigger has messages to send, but none in flight, and the sender has no
// slot for it.
func (d *Dispatcher) starves(q *queue) bool {
	if q == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	wants := d.fullLocked(q) || len(q.lines.ready) > 0 && !d.sender.Room(q.id, 0)
	return q.by != nil && q.by.Target != nil && q.attempts == 0 && wants
}

func (d *Dispatcher) setStarved(starved bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starved = starved
}

// releaseBuilder releases the slot for building a message.
func (d *Dispatcher) releaseBuilder() {
	d.mu.Lock()
	d.building--
	d.mu.Unlock()
	d.wakeups.Send()
}

// ending is the end of an attempt. begun and round are those of begun when it started.
type ending struct {
	begun   uint64
	round   int
	outcome webhook.Outcome
	full    bool // the sender had no capacity
	failed  bool // the message was not prepared, also if the sender had no capacity
}

// holds reports whether the next message of the entity waits until this delivery is removed. If the
// message was not prepared, it must be read again before the others. The frequency cap depends on the
// recorded outcome.
func (e *ending) holds(p *plan) bool { return e.failed || p.Rules.Cap.Count > 0 }

// finishAttempt releases an attempt's slot.
func (d *Dispatcher) finishAttempt(q *queue, p *plan, x *rules.Firing, e ending) {
	until := d.opt.Webhooks.Now().Add(errorBackoff)
	d.mu.Lock()
	defer d.mu.Unlock()
	q.attempts--
	q.full, q.fullAt = e.full, e.begun
	if e.failed {
		q.lines.forget(x.Entity)
	}
	if e.failed && !e.full {
		q.backoffUntil = later(q.backoffUntil, until)
	}
	if !e.full {
		d.finished++ // others without capacity may try again
	}
	if p.Concurrency == 0 {
		q.pace.ended(e.round, e.outcome)
	}
	if !e.holds(p) {
		q.lines.free(x.Entity)
	}
}

// begun returns the number of attempts that have ended, and the round of a trigger's pace.
func (d *Dispatcher) begun(q *queue) (finished uint64, round int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.finished, q.pace.round
}

// remove removes a delivery from those in flight.
func (d *Dispatcher) remove(q *queue, x *rules.Firing, held bool) {
	d.mu.Lock()
	delete(q.inflight, x.ID)
	q.lines.touch(x.Entity)
	if held {
		q.lines.free(x.Entity)
	}
	d.inflight--
	d.mu.Unlock()
	d.wakeups.Send()
}

// pauseReceiver pauses a receiver that asked for it with Retry-After.
func (d *Dispatcher) pauseReceiver(p *plan, now time.Time, span time.Duration) {
	if span == 0 || p.receiver == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.receivers, func(_ string, until time.Time) bool { return until.Before(now) })
	for url := range d.receivers { // bounded: a removed receiver gets its next message too early
		if len(d.receivers) < d.inflightLimit() {
			break
		}
		delete(d.receivers, url)
	}
	d.receivers[p.receiver] = later(d.receivers[p.receiver], now.Add(span))
}

// evictIdle removes unused queues and plans, and reports whether deliveries are in flight. due is
// sorted.
func (d *Dispatcher) evictIdle(due []string, now time.Time) (busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, q := range d.queues {
		if len(q.inflight) > 0 {
			continue
		}
		_, isDue := slices.BinarySearch(due, id)
		if isDue && len(q.lines.ready) > 0 && !q.held.After(now) {
			continue
		}
		d.dropPlan(q)
		q.by = nil
		q.lines.clear()
		if !isDue && !q.backoffUntil.After(now) {
			delete(d.queues, id)
		}
	}
	d.met.inflight.Store(int64(d.inflight))
	return d.inflight > 0
}
