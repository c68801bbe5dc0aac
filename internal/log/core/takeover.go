package core

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// takeover is the part of a candidate's run from the end of the log to leadership: rule R5 (2) to (5).
type takeover struct {
	lost  int // rounds in which somebody else took the slot
	short int // rounds that ended before the newest snapshot
	older int // rounds that ended before what an earlier run knew
	// sealed holds the nonces of our SEALs put ahead, by slot of the epoch we walk.
	sealed map[state.Position]record.ID
}

// sealAheadAfter is how many rounds a candidate loses to a busy leader before it also seals beyond the end.
const sealAheadAfter = 3

// ownSeal is a SEAL this run has sent. Its name is never sent with other bytes (rule R1).
type ownSeal struct {
	head    record.Head
	records []state.Record
	body    []byte
	settled bool // there was a verdict
}

// draw gets a fresh nonce for the SEAL of this slot alone (rule R5 (3)). A slot for which this run has sent a SEAL
// already gets the same one again if there was no verdict; if somebody else had the slot, and it is empty now, then it
// was collected, and what we know is old.
func (c *Core) draw() {
	if own := c.seals[c.committed.Key(c.committed.Pos.Epoch, c.committed.Pos.Slot)]; own != nil {
		if own.settled {
			c.loadNewest()
			return
		}
		c.sendSeal(own)
		return
	}
	if c.take.lost >= sealAheadAfter {
		c.sealAhead()
	}
	c.request(Effect{Kind: EffNonce}, func(ev *Event) {
		c.seal(ev.Nonce)
	})
}

func (c *Core) sealHead(slot uint64, nonce record.ID) record.Head {
	s := c.committed
	return record.Head{
		Kind: record.KindSeal, Time: s.AppendTime, Cluster: s.Cluster, Shard: s.Shard,
		Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: slot, Low: s.Pos.Slot, PrevCRC: s.PrevCRC,
		NextEpoch: s.Pos.Epoch + 1, NextNonce: nonce,
	}
}

// encode fixes the bytes of a SEAL, for every attempt (rule R1).
func (own *ownSeal) encode() {
	var err error
	if own.body, err = record.EncodeObject(&own.head, state.EncodeRecords(nil, own.records), nil, nil); err != nil {
		panic(fmt.Sprintf("core: encode a seal: %v", err))
	}
}

// seal makes the SEAL for the end of the log.
func (c *Core) seal(nonce record.ID) {
	h := c.sealHead(c.committed.Pos.Slot, nonce)
	c.sendSeal(c.newSeal(h))
}

func (c *Core) newSeal(h record.Head) *ownSeal {
	own := &ownSeal{head: h, records: []state.Record{{Kind: state.LeaderHint, Name: c.cfg.Advertised}}}
	if h.Epoch == 0 { // a new bucket begins at the highest level
		own.records = append([]state.Record{state.RaiseTo(state.LevelMax)}, own.records...)
	}
	own.encode()
	if c.seals == nil {
		c.seals = map[string]*ownSeal{}
	}
	c.seals[c.committed.Key(h.Epoch, h.Slot)] = own
	return own
}

// sendSeal puts a SEAL at the end of the log until there is a verdict (rule R5 (3)).
func (c *Core) sendSeal(own *ownSeal) {
	key := c.committed.Key(own.head.Epoch, own.head.Slot)
	c.request(Effect{Kind: EffPutSeal, Key: key, Body: own.body}, func(ev *Event) {
		own.settled = true
		if ev.Outcome == OutcomeExists {
			c.readSeal(key, own)
			return
		}
		// Rule R10: every start puts its SEAL's name a second time. The name is taken, and nobody deletes a SEAL.
		c.request(Effect{Kind: EffPutSeal, Key: key, Body: own.body}, func(ev *Event) {
			if ev.Outcome != OutcomeExists {
				c.takenTwice(key)
				return
			}
			c.sealed(own)
		})
	})
}

// takenTwice: the store took our SEAL's name a second time. Either it does not honour put-if-absent, or the slot was
// collected before we sealed it and a DELETE of the DATA that lay there came late; then there is a newer snapshot.
func (c *Core) takenTwice(key string) {
	c.listSnaps(func(names []snapName) {
		if len(names) == 0 || names[0].key == c.load.newest {
			c.stop(fmt.Errorf("the store took %s twice: it does not honour put-if-absent", key))
			return
		}
		c.loadNewest()
	})
}

// readSeal finds out who took the slot: an earlier attempt of ours, or another.
func (c *Core) readSeal(key string, own *ownSeal) {
	c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w", key, orUnknown(ev.Err)))
		case ev.Outcome == OutcomeNotFound:
			c.loadNewest() // collected in between (rule R3)
		case ev.Slot.Head.Kind == record.KindSeal && ev.Slot.Head.NextNonce == own.head.NextNonce:
			c.sealed(own)
		default:
			c.take.lost++
			c.walkOn()
		}
	})
}

// sealed: our SEAL is durable at the end of the log.
func (c *Core) sealed(own *ownSeal) {
	if err := c.committed.Apply(&own.head, own.records, nil); err != nil {
		c.stop(err)
		return
	}
	c.load.seals++
	c.validate()
}

// sealAhead puts SEALs K, 2K and 4K slots beyond the end, each with a nonce of its own, against a leader that is always
// faster at the end. Whichever SEAL the chain meets first decides; the walk finds out whether it is ours.
func (c *Core) sealAhead() {
	if c.take.sealed == nil {
		c.take.sealed = map[state.Position]record.ID{}
	}
	if len(c.take.sealed) > 0 && !c.aheadPassed() {
		return
	}
	for _, n := range []uint64{1, 2, 4} {
		slot := c.committed.Pos.Slot + n*uint64(c.cfg.Window)
		at := state.Position{Epoch: c.committed.Pos.Epoch, Slot: slot}
		c.request(Effect{Kind: EffNonce}, func(ev *Event) {
			if c.committed.Pos.Epoch != at.Epoch {
				return
			}
			key := c.committed.Key(at.Epoch, at.Slot)
			if c.seals[key] != nil {
				return
			}
			h := c.sealHead(at.Slot, ev.Nonce)
			h.PrevCRC, h.Flags = 0, record.FlagAhead
			c.take.sealed[at] = ev.Nonce
			own := c.newSeal(h)
			c.request(Effect{Kind: EffPutSeal, Key: key, Body: own.body}, func(*Event) { own.settled = true })
		})
	}
}

// aheadPassed says whether the log has grown past every SEAL we put ahead: none took.
func (c *Core) aheadPassed() bool {
	for at := range c.take.sealed { //tidy:unordered any element decides alone
		if !at.Less(c.committed.Pos) {
			return false
		}
	}
	return true
}

// validate is rule R5 (4): only a LIST that began after the SEAL was durable shows that the SEAL is on the chain, and
// did not land in a slot that was collected.
func (c *Core) validate() {
	c.listSnaps(func(names []snapName) {
		names = c.onLog(names)
		if len(names) == 0 && c.load.base == "" || len(names) > 0 && names[0].key == c.load.base {
			c.becomeLeader()
			return
		}
		if len(names) == 0 {
			c.loadNewest()
			return
		}
		c.walkToUs(names[0])
	})
}

// onLog leaves out snapshots of branches that a recovery has cut off the log, which may be newer than all others, and unreadable.
func (c *Core) onLog(names []snapName) []snapName {
	return slices.DeleteFunc(names, func(n snapName) bool { return c.committed.OnLostBranch(n.pos) })
}

// walkToUs walks by heads from the newest snapshot: our epoch must come up.
func (c *Core) walkToUs(from snapName) {
	ours := c.committed
	c.startWalk(from.pos, from.nonce, true, func(s *Slot) bool {
		if s.Head.Kind == record.KindSeal && s.Head.NextEpoch == ours.Pos.Epoch && s.Head.NextNonce == ours.Nonce {
			c.becomeLeader()
			return false
		}
		return true
	}, c.loadNewest)
}

// becomeLeader is rule R5 (5).
func (c *Core) becomeLeader() {
	clear(c.ops)
	c.walk = nil
	c.take = takeover{}
	c.role = RoleLeader
	c.lead.ahead = c.committed.Catalog()
	c.lead.seenAt, c.lead.since = c.now, c.now
	c.startReclaiming()
	c.emit(Effect{Kind: EffRole, Role: RoleLeader, Epoch: c.committed.Pos.Epoch})
	c.confirmed()
	c.snapshotAfterReplay()
}
