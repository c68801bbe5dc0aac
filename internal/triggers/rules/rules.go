package rules

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// Estimates of the memory of triggers, in bytes. TestTriggerMemory compares them with the heap. The
// definitions are in the file; a rule is compiled when an event or a deadline needs it.
const (
	triggerMemory = 570 // a trigger, including its state in package delivery
	nameMemory    = 155 // one of its event names
	cursorMemory  = 160 // a partition of a reader
)

// Memory estimates the memory of a followed trigger, in bytes. While it reads the history it has a
// cursor for each partition.
func Memory(d *rule.Definition) int64 {
	return headMemory(d) + cursorMemory*int64(len(d.From))
}

func headMemory(d *rule.Definition) int64 {
	n := triggerMemory + int64(len(d.ID)+len(d.Topic))
	for _, name := range d.Expr.Names() {
		n += nameMemory + int64(len(name))
	}
	return n
}

// Head is the part of a followed trigger that is in memory. It does not change once published.
type Head struct {
	ID      string
	Version int
	Topic   string
	Events  record.ID // the topic of its events
	No      int64     // in the file
	Group   int64     // in the file
	Created int64     // ms
	At      int64     // ms
	Offset  int64     // of the record of its definition
	Size    int       // bytes of its definition
	Names   []string  // of the events that it mentions, sorted
	Paused  bool
	Secrets secrets.Status
	// Backfilling: it reads the history, and does not evaluate new events yet.
	Backfilling bool
	// Late: it costs so much that it reads new events separately, after the others.
	Late bool
	// Missing: the topic of its events was deleted. The trigger follows the next topic of that
	// name.
	Missing bool
}

// Tag names the stored definition; every change has another tag.
func (h *Head) Tag() string { return rule.Tag(h.Version, h.Offset) }

// live is a followed version of a trigger.
type live struct {
	*Head                      // a published head is replaced, not changed: see changeHead
	status       store.Status  // Behind or Joined
	once         bool          // rule.Once
	carries      bool          // rule.Definition.CarryFired
	capSpan      time.Duration // Options.CapSpan
	bytes        int64         // headMemory
	cursors      int64         // bytes of cursors while it is Behind
	group        *group
	alone        bool          // it may have rows of its own
	shared       bool          // it may have states in rows of its group
	due          int64         // no row of its own is due earlier
	startChecked bool          // all rows at the trigger's start were checked (rule.Current)
	scanned      store.InstKey // the last of them that was checked
	avgWork      int           // moving average of the work of an event
	spent        int           // work in this turn of the main reader
	rebound      bool          // it follows a recreated topic
	logged       time.Time     // time of the log line about its lateness
}

// changeHead changes the head of a trigger.
func (w *worker) changeHead(l *live, change func(h *Head)) {
	h := *l.Head
	change(&h)
	l.Head, w.listed = &h, false
}

// newLive returns the live trigger of a stored one, with its definition d.
func (w *worker) newLive(g *store.Trigger, d *rule.Definition) (*live, error) {
	topic, err := record.ParseID(d.TopicID)
	if err != nil {
		return nil, fmt.Errorf("topic_id: %w", err)
	}
	l := &live{
		Head:   &Head{ID: d.ID, Version: d.Version, Topic: d.Topic, Events: topic, No: g.No, Group: g.Group, Created: d.Created, At: d.At, Names: d.Expr.Names()},
		status: g.Status, once: d.Fire == rule.Once, carries: d.CarryFired, bytes: headMemory(d), cursors: cursorMemory * int64(len(d.From)),
		due: math.MaxInt64, startChecked: d.Backfill != rule.Current,
	}
	w.setDelivery(l.Head, l, g, d)
	if w.pastBorder(l, d) {
		l.Late, l.Backfilling = true, false
	}
	return l, nil
}

// memory estimates the current memory of a trigger, in bytes.
func (l *live) memory() int64 {
	if l.status == store.Behind {
		return l.bytes + l.cursors
	}
	return l.bytes
}

// setDelivery sets the parts of a definition that do not make a new version.
func (w *worker) setDelivery(h *Head, l *live, g *store.Trigger, d *rule.Definition) {
	h.Offset = d.Offset
	h.Size, h.Paused, h.Backfilling = len(g.Def), d.Status == rule.Paused, l.status == store.Behind && !h.Late
	h.Secrets = secrets.Inspect(d.Deliver)
	if l.capSpan = 0; w.opt.CapSpan != nil {
		l.capSpan = w.opt.CapSpan(d.Deliver)
	}
}

// ruleCache holds recently used rules. When half of the limit is new, the rules that were not used
// meanwhile are dropped.
type ruleCache struct {
	limit      int64
	young, old map[int64]*rule.Rule // by number of the trigger
	bytes      int64                // of young
}

func (c *ruleCache) drop(no int64) {
	delete(c.young, no)
	delete(c.old, no)
}

// rule returns the compiled rule of a trigger. It is valid until the next call for another trigger.
func (w *worker) rule(tx *store.Tx, l *live) (*rule.Rule, error) {
	c := &w.rules
	if r, ok := c.young[l.No]; ok {
		return r, nil
	}
	r, ok := c.old[l.No]
	if !ok {
		d, err := definition(tx, l.No)
		if err == nil {
			d.Text, d.Deliver = "", nil
			r, err = rule.Compile(d)
		}
		if err != nil {
			return nil, errors.Join(localdb.ErrDamaged, err)
		}
		r.Bind(l.Events)
	}
	if c.bytes > c.limit/2 {
		c.young, c.old, c.bytes = nil, c.young, 0
	}
	if c.young == nil {
		c.young = map[int64]*rule.Rule{}
	}
	c.young[l.No] = r
	c.bytes += r.Bytes()
	return r, nil
}

// definition reads the definition of a trigger from the file.
func definition(tx *store.Tx, no int64) (d rule.Definition, err error) {
	g, err := tx.Trigger(no)
	if err != nil {
		return d, err
	}
	if g == nil {
		return d, fmt.Errorf("trigger number %d does not exist", no)
	}
	return rule.ParseDefinition([]byte(g.ID), g.Def)
}
