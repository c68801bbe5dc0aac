package dispatch

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/triggers"
	"github.com/sebbroker/seb/internal/triggers/entry"
	"github.com/sebbroker/seb/internal/webhook"
)

// lane is what is under way of a trigger.
type lane struct {
	plan *plan // as its definition says now; the loop's, a flight has its own

	// Guarded by Dispatcher.mu.
	queued   []triggers.Firing   // to be begun, as they were when they were read
	by       *plan               // for these
	under    map[entry.ID]string // firings whose outcome is not recorded yet, with their entities
	attempts int                 // of these, under way
	flying   int                 // flights, which may begin more
	full     bool                // there was no room for one more,
	fullAt   uint64              // when so many attempts had ended
	until    time.Time           // it has had trouble, and rests
}

// plan is where a trigger's messages go; neither to a webhook nor to a topic: nowhere.
type plan struct {
	*webhook.Plan                 // nil: what is given can not be read
	given         json.RawMessage // what the definition says
	receiver      string          // URL; as a name of who wants to be left alone
}

// lane finds a trigger's lane, and makes sure that it is of what the definition says now.
func (d *Dispatcher) lane(t *triggers.Trigger) *lane {
	l := d.lanes[t.ID]
	if l == nil {
		l = &lane{under: map[entry.ID]string{}}
		d.lanes[t.ID] = l
	}
	if l.plan != nil && bytes.Equal(l.plan.given, t.Deliver) {
		return l
	}
	p, err := readPlan(t.Deliver, d.opt.Webhooks.Policy)
	if err != nil {
		d.opt.Logger.Error("the firings of a trigger wait: what it says of their delivery can not be used", "trigger", t.ID, "err", err)
	}
	l.plan = &p
	d.queue(l, nil) // what was read ahead would go by what it said before
	return l
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
	return max(0, min(d.opt.Webhooks.PerTrigger-l.attempts, flightsMax-len(l.under), builtMax-d.built))
}

// queue reads ahead.
func (d *Dispatcher) queue(l *lane, list []triggers.Firing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.queued, l.by = list, l.plan
}

// begin takes the next delivery of a trigger and a place for it; nil if there is none that may begin now.
func (d *Dispatcher) begin(l *lane, now time.Time) (*triggers.Firing, *plan) {
	d.mu.Lock()
	p := l.by
	d.mu.Unlock()
	if p.Plan == nil || d.heldUntil(l, p, now).After(now) {
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
func (d *Dispatcher) gone(l *lane, id entry.ID) {
	d.mu.Lock()
	delete(l.under, id)
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
	d.receivers[p.receiver] = later(d.receivers[p.receiver], now.Add(span))
}

// tidy forgets lanes that nobody needs, and says whether anything is under way.
func (d *Dispatcher) tidy(due []string, now time.Time) (busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for id, l := range d.lanes {
		n += len(l.under)
		if len(l.under) == 0 && l.flying == 0 && !l.until.After(now) && !slices.Contains(due, id) {
			delete(d.lanes, id)
		}
	}
	d.met.under.Store(int64(n))
	return n > 0
}
