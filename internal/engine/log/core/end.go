package core

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Rule R13: a missing slot is the end of the log only if no remaining object refers to the log
// behind it. These objects refer to it:
//
//   - A slot of the same epoch whose `low` is above the missing slot: its writer had seen that slot
//     committed.
//   - DATA, a pack or a copy of a view of a later epoch: only a leader by R5 (5) writes them, so
//     the SEALs before it were durable.
//   - A SEAL of a later epoch that is not older than the log here. A candidate that was suspended
//     may put a SEAL into a slot that was collected, and another candidate may follow it. Their
//     SEALs carry the append time of the slot before the collected one, so they are always older.
//   - A snapshot behind the missing slot (endsShort).
//
// The referring object may be newer than the request for the slot, and the slot may have been
// collected since. So the slot is read again, and the snapshots are listed again, before the slot
// counts as lost.

// beyondListed bounds each LIST behind the end. Up to K slots of DATA and a few SEALs put ahead can
// be there legitimately. If a slot or SEAL is lost, the first few names are proof enough.
const beyondListed = 64

// proveEnd makes sure that the missing slot at the committed position is the end of the log, and
// then calls atEnd.
func (c *Core) proveEnd(atEnd func()) {
	pos := c.committed.Pos
	if names := c.load.names; len(names) > 0 && pos.Less(names[0].pos) && !c.committed.OnLostBranch(names[0].pos) {
		c.endsShort()
		return
	}
	if s := Older(c.cfg.Seen, c.committed); s != nil && !c.cfg.ReadOnly {
		// An earlier run may have written the position after this walk began, so the walk is repeated before the log counts as older.
		if c.take.older++; c.take.older < shortMax {
			c.startOver()
			return
		}
		c.stop(&OlderCopyError{Seen: *s, Cluster: c.cluster, Pos: pos})
		return
	}
	c.checkEnd(atEnd)
}

// checkEnd looks for objects that refer to the log behind the committed position, and calls atEnd if
// there are none. The three checks run concurrently, so a start waits for one round trip instead of
// three.
func (c *Core) checkEnd(atEnd func()) {
	e := &endCheck{c: c, left: 3, atEnd: atEnd}
	after := c.slotBefore()
	if c.role == RoleStarting {
		e.replayed, after = c.compareReplayed()
	}
	e.listBeyond(after)
	e.listPacks()
	e.listViews()
}

// slotBefore is the name after which a LIST begins with the slot at our position.
func (c *Core) slotBefore() string {
	s := c.committed
	if s.Pos.Slot == 0 {
		return state.SlotPrefix(c.cfg.Shard, s.Pos.Epoch, s.Nonce)
	}
	return s.Key(s.Pos.Epoch, s.Pos.Slot-1)
}

// endCheck looks for objects that refer to the log behind the committed position.
type endCheck struct {
	c       *Core
	left    int  // checks without an answer
	decided bool // later answers are ignored
	atEnd   func()
	// walks: a walk reads the slots from our position on. unread are their names, as far as they were
	// listed; more: there may be others.
	walks, more bool
	unread      []string
	replayed    *comparison // of the names up to our position; nil: they are not listed
}

// none records that a check found no such object.
func (e *endCheck) none() {
	if e.left--; e.left == 0 && !e.decided {
		e.atEnd()
	}
}

// grown handles a slot at our position that was written after the walk. For a follower that is proof
// enough: nothing is lost before it. A follower that read on first would never be at the end, if the
// leader commits more often than the requests of a check take.
func (e *endCheck) grown() {
	if e.c.follows() && !e.c.attempt.once {
		e.atEnd()
		return
	}
	e.c.catchUp()
}

// proof records that an object refers to the log behind the position.
func (e *endCheck) proof(name string) {
	if !e.decided {
		e.decided = true
		e.c.confirmMissing(name)
	}
}

// listBeyond lists the slots after a name, of the epoch in which the walk ended and of later ones.
func (e *endCheck) listBeyond(after string) {
	c := e.c
	pos, nonce := c.committed.Pos, c.committed.Nonce
	most := beyondListed
	if e.replayed != nil {
		most = replayListed
	}
	c.request(Effect{Kind: EffList, Prefix: WALPrefix(c.cfg.Shard), After: after, Max: most}, func(ev *Event) {
		names, full := ev.Names, len(ev.Names) >= most
		if e.replayed != nil {
			var ok bool
			if names, ok = e.compare(ev, full); !ok {
				return
			}
			names, full = names[:min(len(names), beyondListed)], full || len(names) > beyondListed
		}
		var beyond []string
		next := ""
		for _, name := range names {
			epoch, n, slot, ok := state.ParseSlotKey(c.cfg.Shard, name)
			switch {
			case !ok || epoch < pos.Epoch:
			case epoch == pos.Epoch && n == nonce && e.walks:
				e.unread = append(e.unread, name)
			case epoch == pos.Epoch && n == nonce && slot == pos.Slot:
				if !e.decided { // written after the walk
					e.decided = true
					e.grown()
				}
				return
			case epoch == pos.Epoch && n != nonce: // the epoch of a candidate that never led
			default:
				beyond = append(beyond, name)
			}
			next = name
		}
		if !full {
			next = ""
		} else if epoch, _, _, ok := state.ParseSlotKey(c.cfg.Shard, next); !ok || epoch == pos.Epoch {
			next = state.EpochPrefix(c.cfg.Shard, pos.Epoch+1)
			e.more = true
		}
		e.readBeyond(beyond, next)
	})
}

// compare compares a page with the slots that were replayed, and returns the names from our position
// on. ok is false if the check continues elsewhere.
func (e *endCheck) compare(ev *Event, full bool) (beyond []string, ok bool) {
	if e.decided {
		return nil, false
	}
	names := ev.Names
	e.replayed.see(names, ev.Sizes)
	i, _ := slices.BinarySearch(names, e.c.committed.Key(e.c.committed.Pos.Epoch, e.c.committed.Pos.Slot))
	if i == len(names) && full {
		e.listBeyond(names[i-1])
		return nil, false
	}
	if !e.replayed.end() {
		e.decided = true
		return nil, false
	}
	e.replayed = nil
	return names[i:], true
}

// readBeyond reads the heads of names behind the end. next, if not empty, is where the listing
// continues.
func (e *endCheck) readBeyond(names []string, next string) {
	left, first := len(names), ""
	read := func() {
		switch {
		case left > 0:
		case first != "":
			e.proof(first)
		case next != "":
			e.listBeyond(next)
		default:
			e.none()
		}
	}
	for _, key := range names {
		e.c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
			left--
			if ev.Outcome == OutcomeCorrupt {
				pos := e.c.committed.Pos
				e.c.stop(e.c.lostError(pos, e.c.committed.Key(pos.Epoch, pos.Slot), "is missing, and "+key+" behind it cannot be read", orUnknown(ev.Err)))
				return
			}
			if ev.Outcome == OutcomeOK && RefersBeyond(e.c.committed, &ev.Slot.Head) && (first == "" || key < first) {
				first = key
			}
			read()
		})
	}
	if len(names) == 0 {
		read()
	}
}

// RefersBeyond reports whether a head, of the epoch in which the log ends or of a later one, shows
// that the log continues behind the missing slot at its end.
func RefersBeyond(s *state.State, h *record.Head) bool {
	switch {
	case h.Epoch == s.Pos.Epoch:
		return h.Nonce == s.Nonce && h.Low > s.Pos.Slot
	case h.Kind == record.KindData:
		return true
	}
	// After a TimeReset an old SEAL may carry a time from the abandoned future.
	return h.Kind == record.KindSeal && h.Time >= s.AppendTime && (h.Time == s.AppendTime || h.Time > s.Latest || s.Latest == s.AppendTime)
}

// listPacks looks for a pack of a later epoch.
func (e *endCheck) listPacks() {
	c := e.c
	after := state.PackEpochPrefix(c.cfg.Shard, c.committed.Pos.Epoch+1)
	c.request(Effect{Kind: EffList, Prefix: state.PackPrefix(c.cfg.Shard), After: after, Max: 1}, func(ev *Event) {
		if len(ev.Names) > 0 {
			e.proof(ev.Names[0])
			return
		}
		e.none()
	})
}

// listViews looks for a copy of a view that only a later leader can have written. The newest copy
// of a view sorts first, and only one view has copies.
func (e *endCheck) listViews() {
	c := e.c
	c.request(Effect{Kind: EffList, Prefix: state.ViewPrefix(c.cfg.Shard), Max: 1}, func(ev *Event) {
		if len(ev.Names) > 0 {
			at, ok := state.ParseViewPosition(c.cfg.Shard, ev.Names[0])
			if ok && c.committed.Pos.Less(at) && !c.committed.OnLostBranch(at) {
				e.proof(ev.Names[0])
				return
			}
		}
		e.none()
	})
}

// confirmMissing reads the missing slot again, because an object refers to the log behind it. If it
// is still missing, it was either collected, which a newer snapshot shows, or it is lost.
func (c *Core) confirmMissing(proof string) {
	key := c.committed.Key(c.committed.Pos.Epoch, c.committed.Pos.Slot)
	c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
		if ev.Outcome != OutcomeNotFound {
			c.catchUp()
			return
		}
		c.listSnaps(func(names []snapName) {
			newer := len(names) > 0 && names[0].key != c.load.newest && names[0].key != c.follow.confirmed
			if newer || c.fed { // what the leader fed may not be the log
				c.startOver()
				return
			}
			c.stop(c.lostError(c.committed.Pos, key, "is missing although it was stored: "+proof+" refers to the log behind it", nil))
		})
	})
}

// LostError: no walk can pass a slot, because it is missing and other objects refer to the log
// behind it (rule R13), or because it cannot be read (rule R9). A recovery ends that (rule R14).
type LostError struct {
	Pos state.Position
	Key string // of the slot
	Why string
	Err error // the read error, if any
	// Known: the broker knows a position behind the slot, which a recovery accepts as well
	Known bool
}

func (e *LostError) Error() string {
	why := e.Why
	if e.Err != nil {
		why += ": " + e.Err.Error()
	}
	also := ""
	if e.Known {
		also = " --accept-older-copy"
	}
	return fmt.Sprintf(`epoch %d slot %d (%s) %s; restore the object, or accept the loss: "seb recover --accept-loss %d:%d%s"`,
		e.Pos.Epoch, e.Pos.Slot, e.Key, why, e.Pos.Epoch, e.Pos.Slot, also)
}

// lostError returns the error of a lost slot. The command of a recovery also accepts that the bucket holds
// less than a position that the broker knows.
func (c *Core) lostError(pos state.Position, key, why string, err error) *LostError {
	known := slices.ContainsFunc(c.cfg.Seen, func(s Seen) bool {
		return s.Cluster == c.cluster && s.Concerns(c.committed) && pos.Less(state.Position{Epoch: s.Epoch, Slot: s.Slot})
	})
	return &LostError{Pos: pos, Key: key, Why: why, Err: err, Known: known}
}

// Is reports whether target is record.ErrCorrupt, because acknowledged data is damaged or missing.
func (e *LostError) Is(target error) bool { return target == record.ErrCorrupt }

// Unwrap returns Err, or else an error that the log's chain is broken.
func (e *LostError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return &state.ChainError{Pos: e.Pos, Reason: e.Why}
}

// startOver starts over from the newest snapshot, as a candidate or as a follower.
func (c *Core) startOver() {
	if c.role == RoleFollower {
		c.reload()
		return
	}
	c.loadNewest()
}

// shortMax is how many rounds may end before the newest snapshot. A single failure may be damage in
// transit.
const shortMax = 3

// endsShort handles a walk that ends before the newest snapshot: that snapshot could not be read,
// and slots before it were collected. A SEAL there would not be on the log.
func (c *Core) endsShort() {
	if c.take.short++; c.take.short < shortMax {
		c.startOver()
		return
	}
	pos := c.committed.Pos
	c.stop(c.lostError(pos, c.committed.Key(pos.Epoch, pos.Slot), "is missing, and the newest snapshot "+c.load.newest+" cannot be read", nil))
}
