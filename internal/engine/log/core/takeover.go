package core

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// takeover is a candidate's state from the end of the log to leadership: rule R5 (2) to (5).
type takeover struct {
	lost  int // rounds in which another broker took the slot
	short int // rounds that ended before the newest snapshot
	older int // rounds that ended before the position of Config.Seen
	// sealed holds the nonces of our SEALs that were put ahead, by slot of the current epoch.
	sealed map[state.Position]record.ID
}

// sealAheadAfter is how many rounds a candidate loses to a busy leader before it also puts SEALs
// beyond the end.
const sealAheadAfter = 3

// ownSeal is a SEAL that this run has sent. Its name is never sent with other bytes (rule R1).
type ownSeal struct {
	head    record.Head
	records []state.Record
	body    []byte
	settled bool // there was a verdict
}

// drawNonce gets a fresh nonce for the SEAL of this slot alone (rule R5 (3)). If this run has
// already sent a SEAL for the slot, there are two cases. Without a verdict it sends the same SEAL
// again. With a verdict another object had the slot; the slot is empty now, so it was collected and
// our position is outdated.
func (c *Core) drawNonce() {
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

// encode fixes the bytes of a SEAL for every attempt (rule R1).
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
	if h.Epoch == 0 { // a new bucket starts at the highest level
		own.records = append([]state.Record{state.RaiseTo(state.LevelMax)}, own.records...)
	}
	if run := c.cfg.Run; !run.IsZero() && (c.committed.Level >= state.LevelStandby || h.Epoch == 0) {
		own.records = append(own.records, state.Record{Kind: state.LeaderRun, Run: &run})
	}
	own.encode()
	if c.seals == nil {
		c.seals = map[string]*ownSeal{}
	}
	c.seals[c.committed.Key(h.Epoch, h.Slot)] = own
	return own
}

// sendSeal puts a SEAL at the end of the log and retries until there is a verdict (rule R5 (3)).
func (c *Core) sendSeal(own *ownSeal) {
	key := c.committed.Key(own.head.Epoch, own.head.Slot)
	c.request(Effect{Kind: EffPutSeal, Key: key, Body: own.body}, func(ev *Event) {
		own.settled = true
		if ev.Outcome == OutcomeExists {
			c.readSeal(key, own)
			return
		}
		c.sealedNow(key, own)
	})
}

// sealedNow continues when the first PUT of our SEAL has stored it. Two requests run concurrently:
//
//   - Rule R10: every start puts its SEAL's name twice. The second PUT must find the name taken,
//     because SEALs are never deleted.
//   - The LIST of rule R5 (4), which begins after the SEAL is durable.
func (c *Core) sealedNow(key string, own *ownSeal) {
	left := 2
	var listed []snapName
	answered := func() {
		if left--; left == 0 {
			c.sealed(own, func() { c.validate(listed) })
		}
	}
	c.request(Effect{Kind: EffPutSeal, Key: key, Body: own.body}, func(ev *Event) {
		if ev.Outcome != OutcomeExists {
			c.takenTwice(key)
			return
		}
		answered()
	})
	c.listSnaps(func(names []snapName) {
		listed = names
		answered()
	})
}

// takenTwice handles a store that accepted our SEAL's name twice. Either the store does not honour
// put-if-absent, or the slot was collected before we sealed it and a late DELETE of its DATA
// removed our SEAL. In the second case there is a newer snapshot.
func (c *Core) takenTwice(key string) {
	c.listSnaps(func(names []snapName) {
		if len(names) == 0 || names[0].key == c.load.newest {
			c.stop(fmt.Errorf("object store accepted %s twice: it does not honour put-if-absent", key))
			return
		}
		c.loadNewest()
	})
}

// readSeal finds out which object has the slot: an earlier attempt of ours, or another broker's
// object.
func (c *Core) readSeal(key string, own *ownSeal) {
	c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w", key, orUnknown(ev.Err)))
		case ev.Outcome == OutcomeNotFound:
			c.loadNewest() // collected in between (rule R3)
		case ev.Slot.Head.Kind == record.KindSeal && ev.Slot.Head.NextNonce == own.head.NextNonce:
			c.sealed(own, c.listAndValidate)
		default:
			c.take.lost++
			if c.attempt.gone && c.take.lost < sealAheadAfter { // sent before its leader ended
				c.standAtEnd()
				return
			}
			c.catchUp()
		}
	})
}

// sealed applies our SEAL, which is durable at the end of the log.
func (c *Core) sealed(own *ownSeal, then func()) {
	if err := c.committed.Apply(&own.head, own.records, nil); err != nil {
		c.stop(err)
		return
	}
	c.applied(own.records, true)
	c.load.seals++
	then()
}

// sealAhead puts SEALs K, 2K and 4K slots beyond the end, each with its own nonce, against a leader
// that always takes the end first. The first SEAL that the chain reaches decides; the walk finds
// out whether it is ours.
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

// aheadPassed reports whether the log has grown past every SEAL that we put ahead, so none took
// effect.
func (c *Core) aheadPassed() bool {
	for at := range c.take.sealed { //tidy:unordered any element decides alone
		if !at.Less(c.committed.Pos) {
			return false
		}
	}
	return true
}

// listAndValidate lists the snapshots for validate.
func (c *Core) listAndValidate() { c.listSnaps(c.validate) }

// validate is rule R5 (4). Our SEAL may lie in a slot that was collected and is therefore not on
// the chain. The collection followed a newer snapshot, so a LIST that began after the SEAL was
// durable shows that snapshot.
func (c *Core) validate(names []snapName) {
	names = c.onLog(names)
	switch {
	case len(names) == 0 && c.load.base == "":
		c.becomeLeader()
	case len(names) == 0:
		c.loadNewest()
	case c.passed(names[0]):
		c.rebase(names[0])
		c.becomeLeader()
	default:
		c.findOwnEpoch(names[0])
	}
}

// passed reports whether our path from the loaded snapshot contains the position of a snapshot. If
// that is the newest in a LIST, our path is the chain up to the time of the LIST:
//
//   - The snapshot's position is on the chain, because only leaders write snapshots.
//   - No slot from that position on was collected. Rule R7 collects below the older of two
//     snapshots, and both are durable before that, so the LIST would show a newer one.
//   - So each slot from there on still holds its first object, which we have applied.
//
// A position in an epoch that the state has forgotten counts as not passed.
func (c *Core) passed(n snapName) bool {
	if n.key == c.load.base {
		return true
	}
	if base, ok := parseSnap(c.cfg.Shard, c.load.base); ok && n.pos.Less(base.pos) {
		return false
	}
	s := c.committed
	i := slices.IndexFunc(s.Epochs, func(e state.Epoch) bool { return e.Number == n.pos.Epoch && e.Nonce == n.nonce })
	switch {
	case i < 0:
		return false
	case i == len(s.Epochs)-1:
		return n.pos.Slot <= s.Pos.Slot
	}
	return n.pos.Slot <= s.Epochs[i].Seal
}

// rebase makes a newer snapshot on our path the base, so that the next snapshot is due when a start
// from this one would read much.
func (c *Core) rebase(n snapName) {
	l := &c.load
	if n.key == l.base {
		return
	}
	l.base, l.newest = n.key, n.key
	all := l.slots
	l.slots, l.seals = 0, 0
	from := n.pos.Slot
	for _, e := range c.committed.Epochs {
		switch {
		case e.Number < n.pos.Epoch:
			continue
		case e.Number == c.committed.Pos.Epoch:
			l.slots += int(c.committed.Pos.Slot - from)
		default:
			l.slots += int(e.Seal-from) + 1
			l.seals++
		}
		from = 0
	}
	l.bytes = l.bytes / int64(max(all, 1)) * int64(l.slots)
}

// onLog removes snapshots of branches that a recovery has cut off the log. They may be newer than
// all others, and unreadable. The snapshot that was loaded stays: the walk from it came by the
// recovery, so it is on the log, although a recovery that cuts the log just there names its position.
func (c *Core) onLog(names []snapName) []snapName {
	return slices.DeleteFunc(names, func(n snapName) bool {
		return n.key != c.load.base && c.committed.OnLostBranch(n.pos)
	})
}

// findOwnEpoch walks by heads from the newest snapshot until the chain reaches our epoch. If it
// does not, our SEAL is not on the chain and the start begins again.
func (c *Core) findOwnEpoch(from snapName) {
	ours := c.committed
	c.startWalk(from.pos, from.nonce, true, func(s *Slot) bool {
		if s.Head.Kind == record.KindSeal && s.Head.NextEpoch == ours.Pos.Epoch && s.Head.NextNonce == ours.Nonce {
			c.load.newest = from.key
			c.becomeLeader()
			return false
		}
		return true
	}, c.loadNewest)
}

// becomeLeader is rule R5 (5).
func (c *Core) becomeLeader() {
	clear(c.ops)
	c.beginScrubbing()
	c.load.stretches = nil
	c.walk, c.take, c.attempt, c.fed = nil, takeover{}, attempt{}, false
	if !c.mayJournal() {
		c.leads(false)
		return
	}
	// This run draws the nonce of its epoch, and no slot of the epoch is sent before it leads. So
	// the folder is claimed once, and before its first object.
	s := c.committed
	c.request(Effect{Kind: EffOwn, Key: state.SlotFolder(s.Shard, s.Pos.Epoch, s.Nonce)}, func(ev *Event) {
		c.leads(ev.Journaled)
	})
}

// mayJournal reports whether the commit objects of the new epoch may lie in a journal. The record
// that raised the bucket to state.LevelJournal must lie outside of journals, because an older
// program finds no object of a journal and must refuse the bucket. It does: everything that is
// applied belongs to earlier epochs, and the first epoch of a journal begins after that record.
func (c *Core) mayJournal() bool {
	return c.cfg.Journals && c.committed.Level >= state.LevelJournal
}

func (c *Core) leads(journaled bool) {
	c.role = RoleLeader
	c.lead.journaled = journaled
	c.lead.overlay = c.committed.Catalog()
	c.lead.seenAt, c.lead.since = c.now, c.now
	c.lead.remember.began, c.lead.remember.newest = c.committed.AppendTime, logTime{c.now, c.committed.AppendTime}
	c.startReclaiming()
	c.emit(Effect{Kind: EffRole, Role: RoleLeader, Epoch: c.committed.Pos.Epoch})
	c.confirmed()
	c.snapshotAfterReplay()
	c.scrub()
}
