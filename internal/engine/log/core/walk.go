package core

import (
	"fmt"
	"math"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// walk reads slots in order along the chain, with read-ahead, until a slot is missing or the
// callback ends it (rule R5 (2)).
type walk struct {
	pos       state.Position
	nonce     record.ID
	heads     bool // read heads only
	onSlot    func(*Slot) bool
	onMissing func()
	to        state.Position // the walk ends there; zero: it does not
	least     uint64         // slots are requested at once even if none was found
	held      bool           // answers wait for release

	found  uint64 // slots found in the epoch
	issued uint64 // slots of the epoch below it were requested
	end    uint64 // slots from here on are not needed: an earlier one is missing or holds a SEAL
	got    map[uint64]answered
}

// answered is the answer to a request for a slot, and the time when the request was first sent.
type answered struct {
	*Event
	sent int64
}

// startWalk begins a walk at a position; onSlot returns false to end it. It replaces the current
// walk, which then reads no further.
func (c *Core) startWalk(pos state.Position, nonce record.ID, heads bool, onSlot func(*Slot) bool, onMissing func()) {
	c.begin(&walk{pos: pos, nonce: nonce, heads: heads, onSlot: onSlot, onMissing: onMissing})
}

func (c *Core) begin(w *walk) {
	w.issued, w.end, w.got = w.pos.Slot, math.MaxUint64, map[uint64]answered{}
	c.walk = w
	c.fill(w)
}

// window is how many slots are requested at once. It is half of the slots found. A walk thus
// requests at most half as many slots beyond the end as it found, and reaches the maximum within
// the first hundred.
func (w *walk) window(most int) uint64 { return min(max(1+w.found/2, w.least), uint64(most)) }

// fill requests the slots of the window that were not requested yet.
func (c *Core) fill(w *walk) {
	end := w.end
	if w.to.Epoch == w.pos.Epoch && w.to != (state.Position{}) {
		end = min(end, w.to.Slot)
	}
	for ; w.issued < min(w.pos.Slot+w.window(c.cfg.ReadAhead), end); w.issued++ {
		slot, epoch, sent := w.issued, w.pos.Epoch, c.now
		key := state.SlotKey(c.cfg.Shard, epoch, w.nonce, slot)
		if c.recovered[key] {
			key = state.RecoveryKey(c.cfg.Shard, epoch, w.nonce, slot)
		}
		r := c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: w.heads, Direct: c.direct}, func(ev *Event) {
			if c.walk == w && w.pos.Epoch == epoch {
				w.received(slot, answered{ev, sent})
				c.drain(w)
			}
		})
		r.wanted = func() bool { return c.walk == w && w.pos.Epoch == epoch }
	}
}

// received stores an answer until all slots before it are handled.
func (w *walk) received(slot uint64, ev answered) {
	w.got[slot] = ev
	switch {
	case ev.Outcome == OutcomeNotFound:
		w.end = min(w.end, slot)
	case ev.Outcome == OutcomeOK && ev.Slot.Head.Kind == record.KindSeal:
		w.end = min(w.end, slot+1)
	}
}

// drain passes the received slots on, in order.
func (c *Core) drain(w *walk) {
	for c.walk == w && !w.held {
		ev := w.got[w.pos.Slot]
		if ev.Event == nil {
			c.fill(w)
			return
		}
		delete(w.got, w.pos.Slot)
		switch ev.Outcome {
		case OutcomeNotFound:
			c.walk = nil
			c.follow.missed = ev.sent
			w.onMissing()
			return
		case OutcomeCorrupt:
			c.readRecovery(w, orUnknown(ev.Err))
			return
		}
		h := &ev.Slot.Head
		err := c.checkHead(w, h)
		if err == nil && !isRecovery(h) && c.recovered[state.SlotKey(c.cfg.Shard, w.pos.Epoch, w.nonce, w.pos.Slot)] {
			err = &state.ChainError{Pos: w.pos, Reason: "its recovery is not one"}
		}
		if err != nil {
			c.readRecovery(w, err)
			return
		}
		if !w.onSlot(ev.Slot) {
			if c.walk == w {
				c.walk = nil
			}
			return
		}
		w.advance(h)
	}
}

// readRecovery checks whether a recovery has put its SEAL alongside a slot that cannot be read
// (rule R14). Without one the log stops there (rule R9).
func (c *Core) readRecovery(w *walk, why error) {
	pos := w.pos
	slot := state.SlotKey(c.cfg.Shard, pos.Epoch, w.nonce, pos.Slot)
	r := c.request(Effect{Kind: EffGetSlot, Key: state.RecoveryKey(c.cfg.Shard, pos.Epoch, w.nonce, pos.Slot)}, func(ev *Event) {
		if c.walk != w || w.pos != pos {
			return
		}
		if ev.Outcome != OutcomeOK || !isRecovery(&ev.Slot.Head) || c.checkHead(w, &ev.Slot.Head) != nil {
			c.stop(c.lostError(pos, slot, "cannot be read", why))
			return
		}
		c.noteRecovery(slot)
		w.got[pos.Slot] = answered{ev, c.now}
		c.drain(w)
	})
	r.wanted = func() bool { return c.walk == w && w.pos == pos }
}

// isRecovery reports whether a head is that of a recovery's SEAL.
func isRecovery(h *record.Head) bool {
	return h.Kind == record.KindSeal && h.Flags&record.FlagRecovery != 0
}

// checkHead checks the identity of a head. Every walk checks it, also one that reads heads only.
func (c *Core) checkHead(w *walk, h *record.Head) error {
	if h.Cluster != c.cluster || h.Shard != c.cfg.Shard || h.Epoch != w.pos.Epoch || h.Nonce != w.nonce || h.Slot != w.pos.Slot {
		return &state.ChainError{Pos: w.pos, Reason: "holds an object of another slot"}
	}
	if h.Kind == record.KindSeal && h.NextEpoch != w.pos.Epoch+1 && h.Flags&record.FlagRecovery == 0 {
		return &state.ChainError{Pos: w.pos, Reason: fmt.Sprintf("seal names epoch %d", h.NextEpoch)}
	}
	return nil
}

func (w *walk) advance(h *record.Head) {
	if h.Kind == record.KindSeal {
		w.pos, w.nonce = state.Position{Epoch: h.NextEpoch}, h.NextNonce
		w.found, w.issued, w.end = 0, 0, math.MaxUint64
		clear(w.got)
		return
	}
	w.found++
	w.pos.Slot++
}

// catchUp applies slots from the committed position to the end of the log (rule R5 (2)).
func (c *Core) catchUp() {
	if c.attempt.once {
		c.overtaken(false)
		return
	}
	s := c.committed
	c.startWalk(s.Pos, s.Nonce, false, c.replay, c.endOfLog)
}

// replay applies one slot of the walk. A SEAL of ours that was put ahead ends the walk, because we
// lead the epoch that it names.
func (c *Core) replay(slot *Slot) bool {
	at := c.committed.Pos
	if err := c.committed.Apply(&slot.Head, slot.Records, slot.Index); err != nil {
		c.stop(err)
		return false
	}
	c.grew(slot)
	if to := c.walk.to; to != (state.Position{}) && !c.committed.Pos.Less(to) {
		c.reached()
		return false
	}
	if slot.Head.Kind != record.KindSeal {
		return true
	}
	if own, ok := c.take.sealed[at]; ok && own == slot.Head.NextNonce {
		c.listAndValidate()
		return false
	}
	clear(c.take.sealed) // of the ended epoch
	return true
}

// grew notes that a slot of another leader, or a SEAL, was applied.
func (c *Core) grew(s *Slot) {
	seal := s.Head.Kind == record.KindSeal
	c.applied(s.Records, seal)
	c.load.slots++
	c.load.bytes += c.replayCost(&s.Head, false)
	if c.role == RoleStarting {
		c.load.replayed(&s.Head)
	}
	if seal {
		c.load.seals++
	}
	c.emit(Effect{Kind: EffApplied})
}

// The least that a slot adds to the bytes that a start reads. A file takes at least one block of a
// disk, and the time to open it. Slots of a journal are read in succession, and a leader writes
// many more of them in the same time. Of a remote object the local cache reads up to a block.
const (
	diskBlock    = 4096
	journalBlock = diskBlock / 4
	cacheBlock   = 1 << 20
)

// replayCost is what a slot adds to the bytes that a start reads.
func (c *Core) replayCost(h *record.Head, journaled bool) int64 {
	least := int64(diskBlock)
	switch {
	case journaled:
		least = journalBlock
	case !c.cfg.Local:
		least = max(diskBlock, int64(min(h.ObjectLen, cacheBlock)))
	}
	return max(least, record.HeadSize+int64(h.StateLen)+int64(h.IndexCount)*record.IndexEntrySize)
}

// endOfLog handles the first missing slot.
func (c *Core) endOfLog() {
	if c.follows() {
		c.followEnd()
		return
	}
	c.proveEnd(c.drawNonce)
}
