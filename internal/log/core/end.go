package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Rule R13: a missing slot is the end of the log only if no remaining object refers to the log behind it. These refer to it:
//
//   - a slot of the same epoch whose `low` is above the missing slot: its writer had seen that slot durable,
//   - DATA, a pack or a copy of a view of a later epoch: only a leader by R5 (5) writes them, so the SEALs up to it were durable,
//   - a SEAL of a later epoch that is not older than the log here. A candidate that slept may put a SEAL into a slot that was
//     collected, and another one may follow it; their SEALs carry the append time of the slot before the collected one, so
//     they are always older,
//   - a snapshot behind the missing slot (endsShort).
//
// What refers to the log may have been written after the slot was looked for, and the slot may have been collected since. So
// the slot is read again, and the snapshots are listed, before the slot counts as lost.

// beyondListed bounds each LIST behind the end: K slots of DATA and a few SEALs put ahead can be there. Of a lost SEAL, or a
// lost slot, the first few names are proof enough.
const beyondListed = 64

// proveEnd makes sure that the missing slot at the committed position is the end of the log, and calls atEnd then.
func (c *Core) proveEnd(atEnd func()) {
	pos := c.committed.Pos
	if names := c.load.names; len(names) > 0 && pos.Less(names[0].pos) && !c.committed.OnLostBranch(names[0].pos) {
		c.endsShort()
		return
	}
	if s := c.cfg.Seen; s != nil && !c.cfg.ReadOnly && (s.Cluster != c.cluster || s.Beyond(c.committed)) {
		// What was seen may have been written since this walk began: the walk starts over before it is believed.
		if c.take.older++; c.take.older < shortMost {
			c.loadAgain()
			return
		}
		c.stop(&OlderCopyError{Seen: *s, Cluster: c.cluster, Pos: pos})
		return
	}
	folder := state.SlotPrefix(c.cfg.Shard, pos.Epoch, c.committed.Nonce)
	after := folder
	if pos.Slot > 0 {
		after = state.SlotKey(c.cfg.Shard, pos.Epoch, c.committed.Nonce, pos.Slot-1)
	}
	// The questions are asked at once: a start waits for one answer, not for three.
	e := &endCheck{c: c, left: 3, atEnd: atEnd}
	e.listBeyond(after)
	e.listPacks()
	e.listViews()
}

// endCheck is one look for what refers to the log behind the committed position.
type endCheck struct {
	c     *Core
	left  int  // questions without an answer
	over  bool // decided: answers that are still to come count no more
	atEnd func()
}

// none is the answer that nothing refers to the log behind.
func (e *endCheck) none() {
	if e.left--; e.left == 0 && !e.over {
		e.atEnd()
	}
}

// proof is the answer that an object does.
func (e *endCheck) proof(name string) {
	if !e.over {
		e.over = true
		e.c.lookAgain(name)
	}
}

// listBeyond looks at the slots behind a name: of the epoch in which the walk ended, and of later ones.
func (e *endCheck) listBeyond(after string) {
	c := e.c
	pos, nonce := c.committed.Pos, c.committed.Nonce
	c.request(Effect{Kind: EffList, Prefix: WALPrefix(c.cfg.Shard), After: after, Max: beyondListed}, func(ev *Event) {
		var beyond []string
		next := ""
		for _, name := range ev.Names {
			epoch, n, slot, ok := state.ParseSlotKey(c.cfg.Shard, name)
			switch {
			case !ok || epoch < pos.Epoch:
			case epoch == pos.Epoch && n == nonce && slot == pos.Slot:
				if !e.over { // written since
					e.over = true
					c.walkOn()
				}
				return
			case epoch == pos.Epoch && n != nonce: // an epoch that never led
			default:
				beyond = append(beyond, name)
			}
			next = name
		}
		if len(ev.Names) < beyondListed {
			next = ""
		} else if epoch, _, _, ok := state.ParseSlotKey(c.cfg.Shard, next); !ok || epoch == pos.Epoch {
			next = state.EpochPrefix(c.cfg.Shard, pos.Epoch+1)
		}
		e.readBeyond(beyond, next)
	})
}

// readBeyond reads the heads of what lies behind the end; next, if not empty, is where the listing goes on.
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
				e.c.stop(&LostError{Pos: pos, Key: e.c.committed.Key(pos.Epoch, pos.Slot), Why: "is missing, and what lies behind it, " + key + ", cannot be read", Err: orUnknown(ev.Err)})
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

// RefersBeyond says whether a head, of the epoch in which the log ends or a later one, shows that the log goes on behind the
// missing slot at its end.
func RefersBeyond(s *state.State, h *record.Head) bool {
	switch {
	case h.Epoch == s.Pos.Epoch:
		return h.Nonce == s.Nonce && h.Low > s.Pos.Slot
	case h.Kind == record.KindData:
		return true
	}
	// After a TimeReset an old SEAL may carry a time of the future that was left.
	return h.Kind == record.KindSeal && h.Time >= s.AppendTime && (h.Time == s.AppendTime || h.Time > s.Latest || s.Latest == s.AppendTime)
}

// listPacks looks for a pack that only a later leader can have written.
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

// listViews looks for a copy of a view that only a later leader can have written. The newest copy of a view sorts first, and
// there is one view of which copies are made.
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

// lookAgain reads the missing slot again, to which an object refers. If it is still missing it was collected, and a newer
// snapshot shows that, or it is lost.
func (c *Core) lookAgain(proof string) {
	key := c.committed.Key(c.committed.Pos.Epoch, c.committed.Pos.Slot)
	c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
		if ev.Outcome != OutcomeNotFound {
			c.walkOn()
			return
		}
		c.listSnaps(func(names []snapName) {
			if len(names) > 0 && names[0].key != c.load.newest && names[0].key != c.follow.confirmed {
				c.loadAgain()
				return
			}
			c.stop(&LostError{Pos: c.committed.Pos, Key: key, Why: "was stored and is missing: " + proof + " refers to the log behind it"})
		})
	})
}

// LostError says that no walk goes past a slot: it is missing and other objects refer to it (rule R13), or it cannot be read
// (rule R9). A recovery ends that (rule R14).
type LostError struct {
	Pos state.Position
	Key string // of the slot
	Why string
	Err error // of a slot that cannot be read
}

func (e *LostError) Error() string {
	why := e.Why
	if e.Err != nil {
		why += ": " + e.Err.Error()
	}
	return fmt.Sprintf(`epoch %d slot %d (%s) %s. Bring the object back, or accept the loss: "seb recover --accept-loss %d:%d"`,
		e.Pos.Epoch, e.Pos.Slot, e.Key, why, e.Pos.Epoch, e.Pos.Slot)
}

// Is makes it record.ErrCorrupt: acknowledged data is not what it was.
func (e *LostError) Is(target error) bool { return target == record.ErrCorrupt }

// Unwrap returns Err, or that the log's chain is broken.
func (e *LostError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return &state.ChainError{Pos: e.Pos, Reason: e.Why}
}

// loadAgain starts over from the newest snapshot, as a candidate or as a follower does.
func (c *Core) loadAgain() {
	if c.role == RoleFollower {
		c.reload()
		return
	}
	c.loadNewest()
}

// shortMost is how many rounds may end before the newest snapshot: it may have been damaged on the way alone.
const shortMost = 3

// endsShort: the newest snapshot could not be read, and slots before it were collected. That is not the end of the log, and a
// SEAL there would only be one more round's litter.
func (c *Core) endsShort() {
	if c.take.short++; c.take.short < shortMost {
		c.loadAgain()
		return
	}
	pos := c.committed.Pos
	c.stop(&LostError{Pos: pos, Key: c.committed.Key(pos.Epoch, pos.Slot), Why: "is missing, and the newest snapshot, " + c.load.newest + ", cannot be read"})
}
