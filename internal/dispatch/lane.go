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
	under    map[entry.ID]string // firings whose outcome is not recorded yet, with their entities
	attempts int                 // of these, under way
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

// heldUntil is when the trigger may have something delivered: behind quiet hours, trouble, and what its receiver has asked for.
func (d *Dispatcher) heldUntil(l *lane, now time.Time) time.Time {
	d.mu.Lock()
	at := later(l.until, d.receivers[l.plan.receiver])
	d.mu.Unlock()
	return l.plan.Rules.Quiet.Next(later(now, at))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// room is how many more deliveries of a trigger may begin, and how many are not recorded yet.
func (d *Dispatcher) room(l *lane) (room, under int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	under = len(l.under)
	if l.full && l.fullAt == d.landings {
		return 0, under
	}
	return max(0, min(d.opt.Webhooks.PerTrigger-l.attempts, flightsMax-under, builtMax-d.built)), under
}

// begin takes a place for a delivery, if there is one for it and it is not under way.
func (d *Dispatcher) begin(l *lane, x *triggers.Firing) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := l.under[x.ID]; there || l.attempts >= d.opt.Webhooks.PerTrigger || len(l.under) >= flightsMax || d.built >= builtMax {
		return false
	}
	if l.plan.Rules.Cap.Count > 0 && slices.Contains(slices.Collect(maps.Values(l.under)), x.Entity) {
		return false // what the cap allows depends on what comes of the other one
	}
	l.under[x.ID] = x.Entity
	l.attempts++
	d.built++
	return true
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
		if len(l.under) == 0 && !l.until.After(now) && !slices.Contains(due, id) {
			delete(d.lanes, id)
		}
	}
	d.met.under.Store(int64(n))
	return n > 0
}
