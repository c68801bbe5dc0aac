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
	plan *plan       // of the current definition, used by the loop only; nil: not read
	head *rules.Head // version that plan is of
	held time.Time   // no deliveries before, because of head

	// Guarded by Dispatcher.mu.
	queued       []rules.Firing     // to deliver next, as read from the engine
	by           *plan              // plan for queued
	inflight     map[rule.ID]string // firings without a recorded outcome, with their entities
	attempts     int                // attempts in progress
	loops        int                // running calls of deliverLoop
	full         bool               // the sender had no capacity
	fullAt       uint64             // value of Dispatcher.finished when full was set
	backoffUntil time.Time          // backing off until then after an error
}

// plan is the destination of a trigger's messages: a webhook, a topic or neither.
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
		q = &queue{inflight: map[rule.ID]string{}}
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
	q.head = h
	deliver, err := d.opt.Engine.Opened(&t.Definition)
	if q.plan != nil && err == nil && bytes.Equal(q.plan.given, deliver) {
		return q, nil
	}
	d.dropPlan(q)
	d.refill(q, nil) // firings read ahead belong to the old plan
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

func (p *plan) bytes() int { return planShare * (len(p.given) + 1<<10) }

// dropPlan removes the plan of a queue.
func (d *Dispatcher) dropPlan(q *queue) {
	if q.plan != nil {
		d.plans -= q.plan.bytes()
		q.plan = nil
	}
}

// inflightLimit bounds the deliveries of all triggers, including unrecorded outcomes.
func (d *Dispatcher) inflightLimit() int { return max(perTrigger, d.opt.Webhooks.Bytes/deliveryBytes) }

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

// room returns how many more deliveries of a trigger may start, how many are in flight, and how
// many are queued.
func (d *Dispatcher) room(q *queue) (room, inflight, queued int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roomLocked(q), len(q.inflight), len(q.queued)
}

func (d *Dispatcher) roomLocked(q *queue) int {
	if q.full && q.fullAt == d.finished {
		return 0
	}
	return max(0, min(d.opt.Webhooks.PerTrigger-q.attempts, inflightMax-len(q.inflight), buildersMax-d.building, d.inflightLimit()-d.inflight))
}

// refill replaces the firings that are read ahead.
func (d *Dispatcher) refill(q *queue, list []rules.Firing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.queued, q.by = list, q.plan
}

// begin takes the next delivery of a trigger and a slot for it; nil if none may start now.
func (d *Dispatcher) begin(q *queue, now time.Time) (*rules.Firing, *plan) {
	d.mu.Lock()
	p := q.by
	d.mu.Unlock()
	if p == nil || d.heldUntil(q, p, now).After(now) {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(q.queued) > 0 && q.by == p && d.roomLocked(q) > 0 {
		x := &q.queued[0]
		q.queued = q.queued[1:]
		if _, there := q.inflight[x.ID]; there {
			continue
		}
		if p.Rules.Cap.Count > 0 && slices.Contains(slices.Collect(maps.Values(q.inflight)), x.Entity) {
			continue // the cap depends on the outcome of the other one; the firing is read again
		}
		q.inflight[x.ID] = x.Entity
		d.inflight++
		q.attempts++
		d.building++
		return x, p
	}
	return nil, nil
}

// addLoops changes the number of running calls of deliverLoop.
func (d *Dispatcher) addLoops(q *queue, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.loops += n
}

// releaseBuilder releases the slot for building a message.
func (d *Dispatcher) releaseBuilder() {
	d.mu.Lock()
	d.building--
	d.mu.Unlock()
	d.wakeups.Send()
}

// finishAttempt releases an attempt's slot. full reports that the sender had no capacity; begun is
// the value of finishedCount when the attempt started. until is the end of the backoff after an
// error, zero if none.
func (d *Dispatcher) finishAttempt(q *queue, full bool, begun uint64, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.attempts--
	q.full, q.fullAt, q.backoffUntil = full, begun, later(q.backoffUntil, until)
	if !full {
		d.finished++ // others without capacity may try again
	}
}

// finishedCount is the number of attempts that have ended.
func (d *Dispatcher) finishedCount() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.finished
}

// remove removes a delivery from those in flight.
func (d *Dispatcher) remove(q *queue, id rule.ID) {
	d.mu.Lock()
	delete(q.inflight, id)
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
		if len(q.inflight) > 0 || q.loops > 0 {
			continue
		}
		_, isDue := slices.BinarySearch(due, id)
		if isDue && len(q.queued) > 0 && !q.held.After(now) {
			continue
		}
		d.dropPlan(q)
		q.queued, q.by = nil, nil
		if !isDue && !q.backoffUntil.After(now) {
			delete(d.queues, id)
		}
	}
	d.met.inflight.Store(int64(d.inflight))
	return d.inflight > 0
}
