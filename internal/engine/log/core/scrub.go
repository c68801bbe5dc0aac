package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// A leader reads recent slots from memory and others from a cache, so it does not notice that the
// bucket has lost an object. It compares the names in the bucket with its state (rule R16): at a commit
// that comes an hour after the last comparison, and as soon as it leads if its state came from a feed.
//
//	compare  ── nothing missing ──▶ wait
//	   │ missing: the object may have been replaced and collected since
//	compare again
//	   │ missing twice: another leader may have collected it
//	a commit or a probe that began afterwards shows that this broker still leads ──▶ alarm
type scrubbing struct {
	running bool
	at      int64          // when the last comparison began, or ended with lost objects
	pos     state.Position // of the state that it compared
	lost    []string       // missing twice; the alarm waits until this broker is known to lead
	retryAt int64          // when that is examined again
}

// scrubRetry is the time between two looks whether this broker still leads.
const scrubRetry = second

// beginScrubbing sets when a new leader compares first.
func (c *Core) beginScrubbing() {
	c.lead.scrub = scrubbing{at: c.now, pos: c.committed.Pos}
	if c.fed {
		c.lead.scrub = scrubbing{at: c.now - int64(c.cfg.ScrubEvery)}
	}
}

// scrubAt is when scrub needs a tick; 0: not before another event. An idle leader compares nothing.
func (c *Core) scrubAt() int64 {
	if c.role != RoleLeader || c.lead.scrub.lost == nil {
		return 0
	}
	return c.lead.scrub.retryAt
}

// scrub runs the next step if it is due.
func (c *Core) scrub() {
	s := &c.lead.scrub
	switch {
	case s.running:
	case s.lost == nil:
		if s.pos != c.committed.Pos && c.since(s.at, c.cfg.ScrubEvery) {
			c.compareNames(nil)
		}
	case c.lead.lookedAt > s.at:
		c.reportLost()
	case c.now >= s.retryAt:
		s.retryAt = c.now + int64(scrubRetry)
		if len(c.lead.slots) == 0 {
			c.probe()
		} // else the next commit shows it
	}
}

// compareNames compares the names in the bucket with the state. before are names that the last
// comparison has missed.
func (c *Core) compareNames(before []string) {
	s := &c.lead.scrub
	s.running, s.at, s.pos = true, c.now, c.committed.Pos
	c.request(Effect{Kind: EffScrub, View: c.committed.View(), Key: c.newestSnapshot()}, func(ev *Event) {
		s.running = false
		if ev.Err != nil {
			c.alarm("store breaks its contract", ev.Err)
		}
		switch {
		case len(ev.Names) == 0:
		case before == nil:
			c.compareNames(ev.Names)
		default:
			s.lost = slices.DeleteFunc(ev.Names, func(name string) bool { return !slices.Contains(before, name) })
			if s.at, s.retryAt = c.now, c.now; len(s.lost) == 0 {
				s.lost = nil
			}
		}
	})
}

// newestSnapshot is the name of the newest snapshot, as far as this leader knows; "": there is none.
func (c *Core) newestSnapshot() string {
	if c.snap.newer != nil {
		return snapKey(c.cfg.Shard, c.snap.newer.view.Pos, c.snap.newer.view.Nonce)
	}
	return c.load.newest
}

// reportLost raises the alarm. A snapshot lets every start begin behind a lost slot, so that what is
// acknowledged from now on does not depend on it.
func (c *Core) reportLost() {
	lost := c.lead.scrub.lost
	c.lead.scrub.lost = nil
	c.alarm("objects are missing", &MissingError{Key: lost[0], More: len(lost) - 1})
	newest, _ := parseSnap(c.cfg.Shard, c.newestSnapshot())
	needed := slices.ContainsFunc(lost, func(key string) bool {
		epoch, _, slot, ok := state.ParseSlotKey(c.cfg.Shard, key)
		return key == newest.key || ok && !(state.Position{Epoch: epoch, Slot: slot}).Less(newest.pos)
	})
	if needed && c.moved() {
		c.takeSnapshot()
	}
}

// MissingError: the bucket has lost objects that the log needs, while a broker leads (rule R16).
type MissingError struct {
	Key  string // the first of them
	More int    // how many others were found
}

func (e *MissingError) Error() string {
	more := ""
	if e.More > 0 {
		more = fmt.Sprintf(" and %d more objects", e.More)
	}
	return fmt.Sprintf("%s%s: missing in the bucket, and the log needs them; restore them; \"seb fsck\" lists the records that are lost", e.Key, more)
}

// Is reports whether target is record.ErrCorrupt, because acknowledged data is missing.
func (e *MissingError) Is(target error) bool { return target == record.ErrCorrupt }

// Needed is the set of names that a state needs in the bucket. It is not safe for concurrent use.
type Needed struct {
	g        *Collector
	snapshot string // "": none
}

// NewNeeded returns the names of the objects to which a state refers, of its newest snapshot, and of the
// slots from that on. It visits every range, so it must not run on the log's owner goroutine.
func NewNeeded(s *state.State, snapshot string) *Needed {
	g := NewCollector(s, nil)
	from, _ := parseSnap(s.Shard, snapshot)
	for _, e := range s.Epochs {
		first, end := uint64(0), e.Seal+1
		if e.Number == s.Pos.Epoch {
			end = s.Pos.Slot
		}
		if e.Number == from.pos.Epoch {
			first = from.pos.Slot
		}
		for slot := first; e.Number >= from.pos.Epoch && slot < end; slot++ {
			g.refs[slotRef{e.Number, slot}] = struct{}{}
		}
	}
	return &Needed{g, snapshot}
}

// See removes a name that the bucket has.
func (n *Needed) See(key string) {
	g := n.g
	if key == n.snapshot {
		n.snapshot = ""
		return
	}
	epoch, nonce, slot, isSlot := state.ParseSlotKey(g.a.Shard, strings.TrimSuffix(key, state.RecoverySuffix))
	if isSlot {
		if e, on := g.chain[nonce]; on && e.Number == epoch {
			delete(g.refs, slotRef{epoch, slot})
		}
		return
	}
	if epoch, nonce, number, ok := state.ParsePackKey(g.a.Shard, key); ok {
		if e, on := g.chain[nonce]; on && e.Number == epoch {
			delete(g.packs, state.PackID{Epoch: epoch, ID: number})
		}
	}
}

// Missing returns the first names that were not seen, in ascending order.
func (n *Needed) Missing(most int) (names []string) {
	g := n.g
	if n.snapshot != "" {
		names = append(names, n.snapshot)
	}
	for r := range g.refs { //tidy:unordered sorted below
		names = append(names, g.a.Key(r.epoch, r.slot))
	}
	for p := range g.packs { //tidy:unordered sorted below
		names = append(names, g.a.RangeKey(&state.Range{Pack: true, Epoch: p.Epoch, Slot: p.ID}))
	}
	slices.Sort(names)
	return names[:min(most, len(names))]
}
