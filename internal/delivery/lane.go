package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// lane is what is under way of a trigger.
type lane struct {
	plan *plan         // as its definition says now; the loop's, a flight has its own; nil: not read
	head *trigger.Head // that it is of
	held time.Time     // of head: nothing is delivered before

	// Guarded by Dispatcher.mu.
	queued   []trigger.Firing   // to be begun, as they were when they were read
	by       *plan              // for these
	under    map[rule.ID]string // firings whose outcome is not recorded yet, with their entities
	attempts int                // of these, under way
	flying   int                // flights, which may begin more
	full     bool               // there was no room for one more,
	fullAt   uint64             // when so many attempts had ended
	until    time.Time          // it has had trouble, and rests
}

// plan is where a trigger's messages go; neither to a webhook nor to a topic: nowhere.
type plan struct {
	*webhook.Plan
	given    json.RawMessage // what the definition says
	receiver string          // URL; as a name of who wants to be left alone
}

// lane finds a trigger's lane, and makes sure that its plan is of what the definition says now, unless nothing may be
// delivered, or there is no room for it: nil then. A trigger that was deleted has none.
func (d *Dispatcher) lane(ctx context.Context, id string, now time.Time) (*lane, error) {
	h, err := d.opt.Engine.Head(id)
	if err != nil {
		return nil, nil
	}
	l := d.lanes[id]
	if l == nil {
		l = &lane{under: map[rule.ID]string{}}
		d.lanes[id] = l
	}
	if l.head == h && (l.plan != nil || l.held.After(now)) {
		return l, nil
	}
	l.held = time.Time{}
	if most := d.opt.Webhooks.Bytes / 4; d.plans > 0 && d.plans+planShare*h.Size > most && l.plan == nil {
		d.starved = true
		return l, nil
	}
	t, err := d.opt.Engine.Trigger(ctx, id)
	if err != nil {
		return nil, err
	}
	l.head = h
	if l.plan != nil && bytes.Equal(l.plan.given, t.Deliver) {
		return l, nil
	}
	d.drop(l)
	d.queue(l, nil) // what was read ahead would go by what it said before
	p, err := readPlan(t.Deliver, d.opt.Webhooks.Policy)
	if err != nil {
		d.opt.Logger.Error("the firings of a trigger wait: its deliver section cannot be used", "trigger", id, "err", err)
		l.held = now.Add(idle)
		return l, nil
	}
	l.plan = &p
	d.plans += l.plan.bytes()
	return l, nil
}

func (p *plan) bytes() int { return planShare * (len(p.given) + 1<<10) }

// drop forgets the plan of a lane.
func (d *Dispatcher) drop(l *lane) {
	if l.plan != nil {
		d.plans -= l.plan.bytes()
		l.plan = nil
	}
}

// flightsAll is how many deliveries of all triggers there may be, with those whose outcome is not recorded yet.
func (d *Dispatcher) flightsAll() int { return max(perTrigger, d.opt.Webhooks.Bytes/flightBytes) }

func (d *Dispatcher) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.under >= d.flightsAll()
}

// readPlan reads what a definition says. What was checked when the trigger was made is good, unless the policy has changed.
func readPlan(text json.RawMessage, policy webhook.Policy) (p plan, err error) {
	p.given = text
	if len(text) == 0 || string(text) == "null" {
		p.Plan = &webhook.Plan{Backoff: webhook.DefaultBackoff()}
		return p, nil
	}
	given, err := webhook.ParseDelivery(text)
	if err == nil {
		p.receiver = given.URL
		p.Plan, err = given.Plan(policy, nil)
	}
	return p, err
}

// heldUntil is when a trigger may have something delivered: behind quiet hours, trouble, and what its receiver has asked for.
func (d *Dispatcher) heldUntil(l *lane, p *plan, now time.Time) time.Time {
	d.mu.Lock()
	at := later(l.until, d.receivers[p.receiver])
	d.mu.Unlock()
	return p.Rules.Quiet.Next(later(now, at))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// room is how many more deliveries of a trigger may begin, how many are not recorded yet, and how many are read ahead.
func (d *Dispatcher) room(l *lane) (room, under, queued int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roomLocked(l), len(l.under), len(l.queued)
}

func (d *Dispatcher) roomLocked(l *lane) int {
	if l.full && l.fullAt == d.landings {
		return 0
	}
	return max(0, min(d.opt.Webhooks.PerTrigger-l.attempts, flightsMax-len(l.under), builtMax-d.built, d.flightsAll()-d.under))
}

// queue reads ahead.
func (d *Dispatcher) queue(l *lane, list []trigger.Firing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.queued, l.by = list, l.plan
}

// begin takes the next delivery of a trigger and a place for it; nil if there is none that may begin now.
func (d *Dispatcher) begin(l *lane, now time.Time) (*trigger.Firing, *plan) {
	d.mu.Lock()
	p := l.by
	d.mu.Unlock()
	if p == nil || d.heldUntil(l, p, now).After(now) {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(l.queued) > 0 && l.by == p && d.roomLocked(l) > 0 {
		x := &l.queued[0]
		l.queued = l.queued[1:]
		if _, there := l.under[x.ID]; there {
			continue
		}
		if p.Rules.Cap.Count > 0 && slices.Contains(slices.Collect(maps.Values(l.under)), x.Entity) {
			continue // what the cap allows depends on what comes of the other one; it is read again
		}
		l.under[x.ID] = x.Entity
		d.under++
		l.attempts++
		d.built++
		return x, p
	}
	return nil, nil
}

// flies counts flights.
func (d *Dispatcher) flies(l *lane, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.flying += n
}

// made gives the place back that making a message has.
func (d *Dispatcher) made() {
	d.mu.Lock()
	d.built--
	d.mu.Unlock()
	d.rouse()
}

// landed ends an attempt, or what was to become one: without room when so many had ended as begun, and its trigger is to
// rest until an instant.
func (d *Dispatcher) landed(l *lane, full bool, begun uint64, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.attempts--
	l.full, l.fullAt, l.until = full, begun, later(l.until, until)
	if !full {
		d.landings++ // others that found no room may look again
	}
}

// ended is how many attempts have ended.
func (d *Dispatcher) ended() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.landings
}

// gone ends a delivery.
func (d *Dispatcher) gone(l *lane, id rule.ID) {
	d.mu.Lock()
	delete(l.under, id)
	d.under--
	d.mu.Unlock()
	d.rouse()
}

// leaveAlone notes that a receiver wants no messages for a while.
func (d *Dispatcher) leaveAlone(p *plan, now time.Time, span time.Duration) {
	if span == 0 || p.receiver == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.receivers, func(_ string, until time.Time) bool { return until.Before(now) })
	for url := range d.receivers { // there may be as many as triggers: one of them is asked again too soon
		if len(d.receivers) < d.flightsAll() {
			break
		}
		delete(d.receivers, url)
	}
	d.receivers[p.receiver] = later(d.receivers[p.receiver], now.Add(span))
}

// tidy forgets lanes and plans that are not needed, and says whether anything is under way. due is sorted.
func (d *Dispatcher) tidy(due []string, now time.Time) (busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, l := range d.lanes {
		if len(l.under) > 0 || l.flying > 0 {
			continue
		}
		_, isDue := slices.BinarySearch(due, id)
		if isDue && len(l.queued) > 0 && !l.held.After(now) {
			continue
		}
		d.drop(l)
		l.queued, l.by = nil, nil
		if !isDue && !l.until.After(now) {
			delete(d.lanes, id)
		}
	}
	d.met.under.Store(int64(d.under))
	return d.under > 0
}
