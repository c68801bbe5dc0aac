package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// put sends a slot; attempt > 0 says that the shell already has its bytes.
func (c *Core) put(s *slot, attempt int) {
	f := s.frozen
	c.request(Effect{Kind: EffPutData, Key: f.Key, Frozen: f, Attempt: attempt}, func(ev *Event) {
		c.lead.refused = nil
		if ev.Outcome == OutcomeOK {
			s.storedAt = c.answered.newest
			c.settle(s)
			return
		}
		s.storedAt = c.answered.first // which attempt has stored it is not known
		c.taken(s)
	})
}

// settle: the slot is durable.
func (c *Core) settle(s *slot) {
	s.durable = true
	c.commitDurable()
}

// taken reads the object in a slot of ours whose PUT found the name taken (rule R3). It checks the
// kind first: a SEAL fences us whatever its identity.
func (c *Core) taken(s *slot) {
	f := s.frozen
	c.request(Effect{Kind: EffGetSlot, Key: f.Key, HeadOnly: true}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeNotFound:
			c.put(s, 1) // collected in between: the leader sends the PUT again
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w", f.Key, orUnknown(ev.Err)))
		case ev.Slot.Head.Kind == record.KindSeal:
			c.fenced(ev.Slot)
		case sameIdentity(&ev.Slot.Head, &f.Head) && ev.Slot.Head.CRC == f.Head.CRC:
			c.settle(s) // an earlier attempt was stored
		default:
			c.stop(&state.ChainError{Pos: state.Position{Epoch: f.Head.Epoch, Slot: f.Head.Slot}, Reason: "holds data of another writer"})
		}
	})
}

func sameIdentity(a, b *record.Head) bool {
	return a.Cluster == b.Cluster && a.Shard == b.Shard && a.Epoch == b.Epoch && a.Nonce == b.Nonce && a.Slot == b.Slot
}

// fenced is rule R6: another broker sealed our epoch.
func (c *Core) fenced(seal *Slot) {
	leader := leaderHint(seal.Records)
	c.role = RoleFenced
	c.endErr = &state.FencedError{Epoch: seal.Head.NextEpoch, Leader: leader}
	c.abandon()
	c.emit(Effect{Kind: EffRole, Role: RoleFenced, Epoch: seal.Head.NextEpoch, Leader: leader})
}

// idleCheck is rule R11 for a leader: if readers wait and nothing was committed for T, it checks
// that it still leads.
func (c *Core) idleCheck() {
	if c.waiting && len(c.lead.slots) == 0 && c.since(c.lead.seenAt, c.cfg.IdleCheck) {
		c.probe()
	}
}

// probe reads our next slot: a SEAL there means that we were deposed.
func (c *Core) probe() {
	if c.lead.probing {
		return
	}
	c.lead.probing = true
	pos := c.committed.Pos
	c.request(Effect{Kind: EffGetSlot, Key: c.committed.Key(pos.Epoch, pos.Slot), HeadOnly: true}, func(ev *Event) {
		c.lead.probing = false
		switch {
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w", c.committed.Key(pos.Epoch, pos.Slot), orUnknown(ev.Err)))
			return
		case ev.Outcome == OutcomeOK && ev.Slot.Head.Kind == record.KindSeal:
			c.fenced(ev.Slot)
			return
		}
		c.lead.seenAt = c.now // missing, or DATA that we sent after the request
		c.looked(c.answered.newest)
		c.confirmed()
	})
}
