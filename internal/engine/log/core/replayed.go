package core

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Rule R16: a copy proves that an object was stored, not that the bucket still has it. A start may
// read slots from a disk cache, so it compares the slots that it has replayed with the LIST of rule
// R13, which then begins at the first of them. The same LIST shows recoveries (rule R14): a recovery
// decides for its slot although the object there can be read again.

// replayListed bounds each page of a LIST that is compared with replayed slots: one page of a store.
const replayListed = 1000

// stretch is slots of an epoch that a start has replayed, from one on, by the size of their objects.
// Another object that has taken the name of a lost one has another size.
type stretch struct {
	epoch uint32
	nonce record.ID
	from  uint64
	sizes []uint32
}

func (s *stretch) pos() state.Position { return state.Position{Epoch: s.epoch, Slot: s.from} }

func (s *stretch) has(epoch uint32, nonce record.ID, slot uint64) bool {
	return s.epoch == epoch && s.nonce == nonce && s.from <= slot && slot-s.from < uint64(len(s.sizes))
}

// replayed notes that a slot was replayed.
func (l *loading) replayed(h *record.Head) {
	n := len(l.stretches)
	if n == 0 || l.stretches[n-1].epoch != h.Epoch {
		l.stretches = append(l.stretches, stretch{epoch: h.Epoch, nonce: h.Nonce, from: h.Slot})
		n++
	}
	l.stretches[n-1].sizes = append(l.stretches[n-1].sizes, uint32(h.ObjectLen))
}

// comparison compares listed names with replayed slots.
type comparison struct {
	c         *Core
	next      []stretch // not compared yet
	missing   []stretch // of one slot each: not listed, or not with its size
	recovered string    // the first slot with a recovery that the replay did not come by
}

// compareReplayed returns the comparison for the slots that were replayed since the last one, and the
// name after which its LIST begins. Slots below the second newest snapshot may have been collected
// (rule R7); a start reads them if that snapshot cannot be read.
func (c *Core) compareReplayed() (cmp *comparison, after string) {
	var floor state.Position
	if names := c.onLog(slices.Clone(c.load.names)); len(names) > 1 {
		floor = names[1].pos
	}
	cmp = &comparison{c: c}
	for _, s := range c.load.stretches {
		if s.epoch == floor.Epoch && s.from < floor.Slot {
			s.sizes = s.sizes[min(floor.Slot-s.from, uint64(len(s.sizes))):]
			s.from = floor.Slot
		}
		if s.epoch >= floor.Epoch && len(s.sizes) > 0 {
			cmp.next = append(cmp.next, s)
		}
	}
	if len(cmp.next) == 0 {
		return cmp, c.slotBefore()
	}
	first := &cmp.next[0]
	if first.from == 0 {
		return cmp, state.SlotPrefix(c.cfg.Shard, first.epoch, first.nonce)
	}
	return cmp, state.SlotKey(c.cfg.Shard, first.epoch, first.nonce, first.from-1)
}

// see compares names, which are in ascending order, and their sizes.
func (p *comparison) see(names []string, sizes []int64) {
	for i, name := range names {
		slot, recovery := strings.CutSuffix(name, state.RecoverySuffix)
		if recovery && !p.c.recovered[slot] {
			if p.recovered == "" && p.c.cameBy(slot) {
				p.recovered = slot
			}
			continue
		}
		if p.before(slot) && p.first() == slot && p.fits(slot, sizes[i]) {
			p.advance()
		}
	}
}

// fits reports whether an object that is listed with a size is the next one that was replayed.
func (p *comparison) fits(slot string, size int64) bool {
	return size == int64(p.next[0].sizes[0]) || p.c.recovered[slot] || p.c.sound[slot]
}

// first is the name of the next slot to compare.
func (p *comparison) first() string { return p.c.keyOf(&p.next[0]) }

// before skips the replayed slots that sort before a name, and reports whether others are left.
func (p *comparison) before(name string) bool {
	for len(p.next) > 0 {
		if p.first() >= name {
			return true
		}
		if len(p.missing) < confirmedAtOnce && !p.c.sound[p.first()] {
			lost := p.next[0]
			lost.sizes = lost.sizes[:1]
			p.missing = append(p.missing, lost)
		}
		p.advance()
	}
	return false
}

func (p *comparison) advance() {
	s := &p.next[0]
	s.from++
	if s.sizes = s.sizes[1:]; len(s.sizes) == 0 {
		p.next = p.next[1:]
	}
}

// cameBy reports whether the replay read a slot, or ended at it.
func (c *Core) cameBy(key string) bool {
	epoch, nonce, slot, ok := state.ParseSlotKey(c.cfg.Shard, key)
	at := state.Position{Epoch: epoch, Slot: slot}
	return ok && (nonce == c.committed.Nonce && at == c.committed.Pos ||
		slices.ContainsFunc(c.load.stretches, func(s stretch) bool { return s.has(epoch, nonce, slot) }))
}

// end ends the comparison, and reports whether the bucket has what was replayed. Otherwise the start
// begins again, or ends.
func (p *comparison) end() bool {
	c := p.c
	p.before("\xff")
	switch {
	case p.recovered != "":
		c.noteRecovery(p.recovered)
		c.startOver()
		return false
	case len(p.missing) > 0:
		c.confirmReplayed(p.missing)
		return false
	}
	c.load.stretches = nil
	return true
}

// noteRecovery lets walks read the recovery of a slot instead of the slot. A recovery is never deleted.
func (c *Core) noteRecovery(slot string) {
	if c.recovered == nil {
		c.recovered = map[string]bool{}
	}
	c.recovered[slot] = true
}

// confirmedAtOnce bounds how many slots are confirmed in one round. Each round begins the start again.
const confirmedAtOnce = 64

// confirmReplayed looks once more for slots that were replayed and are not listed, or with another size.
// They were collected, which a newer snapshot shows, or lost. Another object may have taken the name of
// a lost slot: the start begins again without copies. The same object with another size has damaged
// batches: the start can apply it, and a read of its records fails.
func (c *Core) confirmReplayed(slots []stretch) {
	c.listSnaps(func(names []snapName) {
		if len(names) > 0 && names[0].key != c.load.newest {
			c.startOver()
			return
		}
		left, answers := len(slots), make([]*Event, len(slots))
		for i := range slots {
			c.request(Effect{Kind: EffGetSlot, Key: c.keyOf(&slots[i]), HeadOnly: true, Direct: true}, func(ev *Event) {
				answers[i] = ev
				if left--; left == 0 {
					c.judgeReplayed(slots, answers)
				}
			})
		}
	})
}

// judgeReplayed begins the start again, or ends it at the first lost slot.
func (c *Core) judgeReplayed(slots []stretch, answers []*Event) {
	if c.sound == nil {
		c.sound = map[string]bool{}
	}
	for i, ev := range answers {
		s, lost, err := &slots[i], "", error(nil)
		switch {
		case ev.Outcome == OutcomeNotFound:
			lost = "is missing in the bucket"
		case ev.Outcome == OutcomeCorrupt:
			lost, err = "cannot be read in the bucket", orUnknown(ev.Err)
		case ev.Slot.Head.ObjectLen != uint64(s.sizes[0]):
			c.direct = true
		default:
			c.sound[c.keyOf(s)] = true
		}
		if lost != "" {
			c.stop(c.lostError(s.pos(), c.keyOf(s), lost+", and this broker has a copy of it", err))
			return
		}
	}
	c.startOver()
}

// keyOf is the name of the first slot of a stretch.
func (c *Core) keyOf(s *stretch) string {
	return state.SlotKey(c.cfg.Shard, s.epoch, s.nonce, s.from)
}
