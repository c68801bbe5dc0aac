package trigger

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// What triggers take of memory, in bytes. TestTriggerMemory holds these figures against the heap. The definitions are in the
// file; a rule is compiled when an event or a deadline needs it.
const (
	triggerMemory = 480 // of a trigger, with what a delivery keeps of it
	nameMemory    = 155 // of a name of events in it
	cursorMemory  = 160 // of a partition that is read for a trigger, or for all of a topic
)

// Memory is about how many bytes a trigger takes while it is followed. As long as it reads the history it has a cursor for
// each partition.
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

// Head is what is held in memory of a trigger that is followed. It is not changed once it is published.
type Head struct {
	ID      string
	Version int
	Topic   string
	Events  record.ID // the topic of its events
	No      int64     // in the file
	Created int64     // ms
	At      int64     // ms
	Size    int       // bytes of its definition
	Names   []string  // of the events that it mentions, sorted
	Paused  bool
	// Backfilling is whether it reads what was there before it, and does not fire at what is new yet.
	Backfilling bool
	// Late is whether it costs so much that it reads what is new by itself, behind the others.
	Late bool
	// Missing is whether there is no topic of its events: it was deleted. The trigger follows the next one of that name.
	Missing bool
}

// live is a version of a trigger that is followed.
type live struct {
	*Head                 // the published one is replaced, not changed: see alter
	status  store.Status  // Behind or Joined
	once    bool          // rule.Once
	carries bool          // rule.Definition.CarryFired
	counts  time.Duration // Options.Counts
	bytes   int64         // headMemory
	cursors int64         // bytes of cursors while it is Behind
	due     int64         // no row is due before
	crossed bool          // all rows of today were looked at (rule.Current)
	scanned store.InstKey
	pace    int       // work of an event, of late
	spent   int       // work since the main reader began its turn
	rebound bool      // it follows a topic that was created again
	told    time.Time // when the log said that it is late
}

// alter changes the head of a trigger.
func (w *worker) alter(l *live, change func(h *Head)) {
	h := *l.Head
	change(&h)
	l.Head, w.listed = &h, false
}

// newLive makes a trigger of the file ready, of which d is the definition.
func (w *worker) newLive(g *store.Trigger, d *rule.Definition) (*live, error) {
	topic, err := record.ParseID(d.TopicID)
	if err != nil {
		return nil, fmt.Errorf("topic_id: %w", err)
	}
	l := &live{
		Head:   &Head{ID: d.ID, Version: d.Version, Topic: d.Topic, Events: topic, No: g.No, Created: d.Created, At: d.At, Names: d.Expr.Names()},
		status: g.Status, once: d.Fire == rule.Once, carries: d.CarryFired, bytes: headMemory(d), cursors: cursorMemory * int64(len(d.From)),
		due: math.MaxInt64, crossed: d.Backfill != rule.Current,
	}
	w.delivered(l.Head, l, g, d)
	if w.pastBorder(l, d) {
		l.Late, l.Backfilling = true, false
	}
	return l, nil
}

// memory is about how many bytes a trigger takes now.
func (l *live) memory() int64 {
	if l.status == store.Behind {
		return l.bytes + l.cursors
	}
	return l.bytes
}

// delivered notes what a definition says that is no new version.
func (w *worker) delivered(h *Head, l *live, g *store.Trigger, d *rule.Definition) {
	h.Size, h.Paused, h.Backfilling = len(g.Def), d.Status == rule.Paused, l.status == store.Behind && !h.Late
	if l.counts = 0; w.opt.Counts != nil {
		l.counts = w.opt.Counts(d.Deliver)
	}
}

// ruleCache holds compiled rules that were used lately. What is not used while half of the limit comes in is given up.
type ruleCache struct {
	limit      int64
	young, old map[int64]*rule.Rule // by number of the trigger
	bytes      int64                // of young
}

func (c *ruleCache) drop(no int64) {
	delete(c.young, no)
	delete(c.old, no)
}

// rule is the compiled rule of a trigger. It is good until the next call for another one.
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

// definition reads that of a trigger from the file.
func definition(tx *store.Tx, no int64) (d rule.Definition, err error) {
	g, err := tx.Trigger(no)
	if err != nil {
		return d, err
	}
	if g == nil {
		return d, fmt.Errorf("trigger %d is not there", no)
	}
	return rule.ParseDefinition([]byte(g.ID), g.Def)
}
