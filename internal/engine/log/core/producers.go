package core

import (
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// remembering is how a leader bounds the idempotent producers that the state remembers, from
// state.LevelProducers on. The records that forget are in the log, so that every broker forgets the
// same producers (rule R12).
//
// An age is measured on the clock of Step while this core leads, and as a difference of log times before
// that. So a wall clock that is set forward makes no producer old.
type remembering struct {
	began    int64     // log time when this core became leader, µs
	samples  []logTime // of slots that were committed in the last ProducerExpiration, ascending
	newest   logTime   // of the newest committed slot
	slotTime int64     // append time of the slot that is being frozen, µs
	searchAt int64     // when the producers may next be searched for old ones
	expireAt int64     // when they are next searched for expired ones
	// For these owners a search has found no place. They cause none until unblockAt, so that their
	// repeated requests do not keep searches from others.
	blocked   map[uint32]bool
	unblockAt int64
	// skipped are first batches that were refused, so that later ones of their producers do not come before
	// them.
	skipped map[state.ProducerKey]skip
	counts  ProducerCounts
}

// logTime is the append time of a slot, in µs, and when it was committed.
type logTime struct{ at, log int64 }

type skip struct {
	at       int64
	sequence int32
}

// ProducerCounts are numbers since the start of a core.
type ProducerCounts struct {
	Expired  uint64 // producers that were forgotten because they had appended nothing for long
	Replaced uint64 // producers that were forgotten for new ones
	Refused  uint64 // appends of new producers that were refused
}

// Young is the age up to which a producer is not forgotten for another one: a client may still send its
// last batch again. A leader that has led for a shorter time forgets no expired one either, because the
// clocks of earlier leaders may have been wrong.
const Young = 600 * second

const (
	// One principal may hold ownersShare times as many producers as there are places left. So a
	// single one gets most of the table, and each further one still finds a place.
	ownersShare = 8
	// replaceShare: 1/replaceShare of a principal's producers is forgotten at once.
	replaceShare = 8
	// A principal with few producers loses replaceMin at once, since a search is allowed only now and then.
	replaceMin = 16
	// A search visits all producers.
	searchEvery  = second / 10
	blockedFor   = second
	expireEvery  = Young
	skippedMax   = 1024
	samplesEvery = 60 * second
	samplesMax   = 2000
)

// ProducersMax is how many producers the state may remember; 0: no limit.
func (c *Core) ProducersMax() int {
	if c.cfg.StateMax <= 0 {
		return 0
	}
	return state.ProducersWithin(c.cfg.StateMax)
}

// ProducerCounts returns what this core has forgotten and refused.
func (c *Core) ProducerCounts() ProducerCounts { return c.lead.remember.counts }

// remembers reports whether producers are bounded by time and memory. Slots in flight may not know the
// level yet.
func (c *Core) remembers() bool { return c.committed.Level >= state.LevelProducers }

// rememberProducer makes a place for the producer of an append that the state does not know. It returns
// the owner that the record of the append names.
func (c *Core) rememberProducer(a *Append, records []state.Record) (owner uint32, _ []state.Record, err error) {
	m, overlay, principal := &c.lead.remember, c.lead.overlay, ""
	if !c.remembers() || overlay.Topic(a.Topic) == nil {
		return 0, records, nil
	}
	if a.Check != nil {
		principal = a.Check.Principal
	}
	owner = state.OwnerOf(principal)
	k := state.ProducerKey{PartitionID: state.PartitionID{Topic: a.Topic, Partition: a.Partition}, ID: a.Producer.ID}
	p, known := overlay.Producer(k)
	if known && p.Owner == owner {
		return 0, records, nil
	}
	earlier, skipped := m.skipped[k]
	if skipped = skipped && !known && !c.since(earlier.at, Young) && a.Producer.Sequence != earlier.sequence; skipped {
		m.counts.Refused++
		return 0, records, c.producersFull(owner)
	}
	for !known && c.noPlace(owner) {
		forget, ok := c.replaceable(owner)
		if !ok {
			m.counts.Refused++
			c.skip(k, a.Producer.Sequence)
			return 0, records, c.producersFull(owner)
		}
		before := overlay.Producers()
		records = append(records, c.proposeOwn(forget))
		m.counts.Replaced += uint64(before - overlay.Producers())
	}
	delete(m.skipped, k)
	return owner, records, nil
}

// skip notes a refused first batch, unless too many are noted.
func (c *Core) skip(k state.ProducerKey, sequence int32) {
	m := &c.lead.remember
	if len(m.skipped) >= skippedMax {
		//tidy:unordered each is judged alone
		for k, s := range m.skipped {
			if c.since(s.at, Young) {
				delete(m.skipped, k)
			}
		}
	}
	if m.skipped == nil {
		m.skipped = map[state.ProducerKey]skip{}
	}
	if len(m.skipped) < skippedMax {
		m.skipped[k] = skip{c.now, sequence}
	}
}

// noPlace reports whether a principal may not have another producer. An eighth of the places does not
// depend on how much memory the rest of the state takes.
func (c *Core) noPlace(owner uint32) bool {
	most := c.ProducersMax()
	if most == 0 {
		return false
	}
	own := c.lead.overlay.ProducersHeld(owner) // first, because it counts
	known := c.lead.overlay.Producers()
	free := min(most-known, max(c.lead.overlay.ProducerRoom(), most/8-known))
	return free <= 0 || own >= ownersShare*free
}

func (c *Core) producersFull(owner uint32) error {
	return &state.ProducersFullError{Own: c.lead.overlay.ProducersHeld(owner), Known: c.lead.overlay.Producers(), Max: c.ProducersMax()}
}

// RefusesProducer returns the error with which a new producer of a principal would be refused now, on
// the clock of Step, or nil. If the answer takes a search, it is nil.
func (c *Core) RefusesProducer(principal string, now int64) error {
	owner := state.OwnerOf(principal)
	if c.role != RoleLeader || !c.remembers() || now >= c.lead.remember.unblockAt || !c.lead.remember.blocked[owner] || !c.noPlace(owner) {
		return nil
	}
	return c.producersFull(owner)
}

// replaceable returns the record that forgets producers for a new one of a principal: the oldest of
// the principal that holds most, if it holds at least as many as this one. Those of before
// state.LevelProducers have no owner, and may always be replaced.
func (c *Core) replaceable(owner uint32) (state.Record, bool) {
	m, overlay := &c.lead.remember, c.lead.overlay
	if c.now >= m.unblockAt {
		m.blocked, m.unblockAt = map[uint32]bool{}, c.now+int64(blockedFor)
	}
	if m.blocked[owner] || c.now < m.searchAt {
		return state.Record{}, false
	}
	m.searchAt = c.now + int64(searchEvery)
	old := overlay.ProducersBefore(c.logTimeBefore(Young))
	victim, most := uint32(0), 0
	for of := range old { //tidy:unordered the largest, then the smallest number
		if n := overlay.ProducersHeld(of); n > most || n == most && of < victim {
			victim, most = of, n
		}
	}
	if most == 0 || victim != 0 && most < overlay.ProducersHeld(owner) {
		m.blocked[owner] = true
		return state.Record{}, false
	}
	times := old[victim]
	slices.Sort(times)
	last := min(len(times), max(most/replaceShare, replaceMin)) - 1
	return state.Record{Kind: state.ProducersForget, Time: times[last] + 1, Owner: victim}, true
}

// expireProducers forgets the producers that have expired, if it is time to look.
func (c *Core) expireProducers(records []state.Record) []state.Record {
	m, overlay := &c.lead.remember, c.lead.overlay
	if !c.remembers() || c.now < max(m.expireAt, c.lead.since+int64(Young)) {
		return records
	}
	m.expireAt = c.now + int64(expireEvery)
	before := c.logTimeBefore(c.cfg.ProducerExpiration)
	if len(overlay.ProducersBefore(before)) == 0 {
		return records
	}
	n := overlay.Producers()
	records = append(records, c.proposeOwn(state.Record{Kind: state.ProducersForget, Time: before}))
	m.counts.Expired += uint64(n - overlay.Producers())
	return records
}

// noteLogTime notes the append time of a slot that was committed.
func (c *Core) noteLogTime(slotTime int64) {
	m := &c.lead.remember
	every := int64(max(samplesEvery, c.cfg.ProducerExpiration/samplesMax))
	if n := len(m.samples); n == 0 || c.now-m.samples[n-1].at >= every {
		m.samples = append(m.samples, m.newest)
	}
	for len(m.samples) > 1 && c.since(m.samples[1].at, c.cfg.ProducerExpiration) {
		m.samples = m.samples[1:]
	}
	m.newest = logTime{c.now, slotTime}
}

// logTimeBefore returns a log time, in µs, such that all slots before it are at least this old, on the
// clock of Step and as a difference of log times. After a TimeReset only the latter counts, since the
// noted times are later than those of the log.
func (c *Core) logTimeBefore(age Duration) int64 {
	m := &c.lead.remember
	before := m.began - max(0, int64(age)-(c.now-c.lead.since))/1000
	note := func(s logTime) {
		if c.since(s.at, age) {
			before = max(before, s.log+1)
		}
	}
	for _, s := range m.samples {
		note(s)
	}
	note(m.newest)
	return min(before, m.slotTime-int64(age)/1000)
}
