package watch

import (
	"slices"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/driplangtest"

	"github.com/sebbroker/seb/record"
)

// dayMillis is how long an event's ID excludes other events with that ID.
const dayMillis = 24 * 3600 * 1000

// truth is the content of the log, and what follows from it by definition.
type truth struct {
	s        *Sim
	time     int64 // append time of the newest slot, µs
	history  map[subject][]historyEvent
	subjects []subject // in order of appearance
	seen     map[seenKey]int64
	versions map[string][]*version
	ids      []string // of triggers
	firsts   map[rule.ID]*first
	order    []rule.ID
	causes   map[cause]rule.ID
	removed  []string // IDs of deleted topics of events
}

// subject is an entity in a partition.
type subject struct {
	part   uint32
	entity string
}

type seenKey struct {
	subject
	topic, id string
}

// version is a version of a trigger.
type version struct {
	rule.Definition
	meaning meaning
	next    *version
	paused  bool // it was paused at some time
	walks   map[subject]*evaluation
	// IDs of topics that were deleted before it was created: it does not know their events.
	gone []string
}

// first is the first record of a firing.
type first struct {
	rule.Record
	offset, time int64
	taken        int64
}

type cause struct {
	trigger, entity, cause string
	version                int
}

func newTruth(s *Sim) *truth {
	return &truth{
		s: s, history: map[subject][]historyEvent{}, seen: map[seenKey]int64{}, versions: map[string][]*version{},
		firsts: map[rule.ID]*first{}, causes: map[cause]rule.ID{},
	}
}

// Slot processes each slot of the log when it is committed, before its records.
func (s *Sim) Slot(appendTime int64) {
	if s != nil {
		s.truth.time = appendTime
	}
}

// Committed processes each record of the topics of Owns when it is committed.
func (s *Sim) Committed(topic string, id record.ID, part uint32, r *record.Record) {
	switch topic {
	case topicEvents:
		s.truth.event(id.String(), part, r)
	case topicTriggers:
		s.truth.define(r)
	case topicFirings:
		s.truth.firing(r)
	}
}

// complete returns the last instant for which no further event can come.
func (t *truth) complete() int64 { return t.time/1000 - 1 }

func (t *truth) event(topic string, part uint32, r *record.Record) {
	e, err := rule.ParseEvent(r.Key, r.Value)
	if err != nil {
		t.s.w.Fail("simulator: %v", err)
		return
	}
	k := subject{part, e.EntityID}
	if e.ID != "" {
		before, ok := t.seen[seenKey{k, topic, e.ID}]
		if ok && r.Timestamp-before <= dayMillis {
			return
		}
		t.seen[seenKey{k, topic, e.ID}] = r.Timestamp
	}
	if t.history[k] == nil {
		t.subjects = append(t.subjects, k)
	}
	t.history[k] = append(t.history[k], historyEvent{driplangtest.Event{Name: e.Name, At: r.Timestamp, Data: string(e.Data)}, topic, r.Offset})
}

// define follows the topic of triggers. The first definition of a version counts; later ones change
// whether it is paused.
func (t *truth) define(r *record.Record) {
	d, err := rule.ParseDefinition(r.Key, r.Value)
	if err != nil {
		t.s.w.Fail("W6: definition at offset %d: %v", r.Offset, err)
		return
	}
	t.border(&d)
	t.s.w.Logf("%s v%d %s at %d from %v: %s, %s, %s", d.ID, d.Version, d.Status, d.At, d.From, d.Fire, d.Backfill, d.Text)
	list := t.versions[d.ID]
	v := &version{Definition: d, meaning: meaningOf(d.Expr), paused: d.Status == rule.Paused, walks: map[subject]*evaluation{}, gone: slices.Clone(t.removed)}
	if len(list) == 0 {
		t.ids = append(t.ids, d.ID)
		t.versions[d.ID] = []*version{v}
		return
	}
	old := list[len(list)-1]
	switch {
	case d.Version == old.Version && old.SameResults(&d):
		old.Status, old.paused = d.Status, old.paused || d.Status == rule.Paused
	case d.Version > old.Version:
		old.next = v
		t.versions[d.ID] = append(list, v)
	}
}

// border returns the instant that separates the past of a first version from its future: that of
// the slot with its record.
func (t *truth) border(d *rule.Definition) {
	if d.Border == rule.BorderAppend {
		d.At = t.complete()
		d.Created, d.Border = d.At, rule.BorderGiven
	}
}

// version returns a version of a trigger; nil if there is none.
func (t *truth) version(id string, number int) *version {
	for _, v := range t.versions[id] {
		if v.Version == number {
			return v
		}
	}
	return nil
}

// evaluate returns the evaluation of a version for a subject, up to now.
func (t *truth) evaluate(v *version, p subject) *evaluation {
	k := v.walks[p]
	if k == nil {
		k = newEvaluation(&v.Definition, &v.meaning, p.part, p.entity)
		k.gone = v.gone
		k.edges = &t.s.Counts.Edges
		v.walks[p] = k
	}
	k.extend(t.history[p], t.complete())
	return k
}

// expected returns the firing of a record by definition; nil if there is none.
func (t *truth) expected(rec *rule.Record) *expected {
	v := t.version(rec.Trigger, rec.Version)
	if v == nil {
		return nil
	}
	t.s.Counts.Checked++
	x := t.evaluate(v, subject{rec.Partition, rec.Entity}).found[rec.Cause]
	if x == nil || x.at != rec.At || x.state == rule.Historic {
		return nil
	}
	return x
}

// firing checks a record of the topic of firings when it is committed.
func (t *truth) firing(r *record.Record) {
	rec, id, err := rule.ParseRecord(r.Value)
	if err != nil {
		t.s.w.Fail("W4: record at offset %d of the topic of firings: %v", r.Offset, err)
		return
	}
	f := t.firsts[id]
	switch {
	case rec.Kind == rule.FiredRecord && f == nil:
		t.fired(&rec, id, r)
	case rec.Kind == rule.Retract && f != nil && f.taken == 0:
		t.taken(&rec, f)
	case rec.Kind != rule.Tick && f == nil:
		t.s.w.Fail("W4: offset %d of the topic of firings is the outcome of %s, which was not recorded", r.Offset, id)
	}
}

// fired checks W2, it is not early; W3, it is correct by definition, with all events that were read
// and those that were not; W4, a cause has one ID.
func (t *truth) fired(rec *rule.Record, id rule.ID, r *record.Record) {
	fail := t.s.w.Fail
	t.s.Counts.Firings++
	if rec.At > r.Timestamp {
		fail("W2: %s of %s for %s has time %d and was recorded at %d", id, rec.Trigger, rec.Entity, rec.At, r.Timestamp)
	}
	c := cause{rec.Trigger, rec.Entity, rec.Cause, rec.Version}
	if other, there := t.causes[c]; there {
		fail("W4: %+v has the ids %s and %s", c, other, id)
	}
	x := t.expected(rec)
	if x == nil {
		fail("W3: %s v%d has fired for %s at %d because of %s, which is wrong by definition: %s", rec.Trigger, rec.Version, rec.Entity,
			rec.At, rec.Cause, t.story(rec))
		return
	}
	v := t.version(rec.Trigger, rec.Version)
	carried := t.carried(v, rec)
	good := false
	switch rec.State {
	case rule.Pending:
		good = x.state == rule.Pending && !carried
	case rule.Suppressed:
		good = x.state == rule.Suppressed || v.paused
	case rule.Carried:
		good = v.CarryFired && v.Version > 1
	}
	if !good {
		fail("W3: %s v%d has fired for %s at %d because of %s and is %s; by definition it is %s, paused %v, carried %v", rec.Trigger,
			rec.Version, rec.Entity, rec.At, rec.Cause, rec.State, x.state, v.paused, carried)
	}
	t.firsts[id] = &first{Record: *rec, offset: r.Offset, time: r.Timestamp}
	t.order, t.causes[c] = append(t.order, id), id
}

// carried reports whether the log has a matching firing of an earlier version before this one.
func (t *truth) carried(v *version, rec *rule.Record) bool {
	if !v.CarryFired {
		return false
	}
	for _, id := range t.order {
		f := t.firsts[id]
		if f.Trigger == rec.Trigger && f.Entity == rec.Entity && f.Version < rec.Version && (v.Fire == rule.Once || f.Cause == rec.Cause) {
			return true
		}
	}
	return false
}

func (t *truth) taken(rec *rule.Record, f *first) {
	x := t.expected(&f.Record)
	if x == nil || x.taken != rec.At {
		t.s.w.Fail("W3: %s of %s for %s is retracted at %d, by definition %+v", f.ID, f.Trigger, f.Entity, rec.At, x)
	}
	f.taken = rec.At
}
