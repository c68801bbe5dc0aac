package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// look is what a candidate that begins with the state of a follower asks of the bucket before its
// SEAL, in one round trip:
//
//   - the names of slots from its position on. One at the position, or one that refers to the log
//     behind it (rule R13), ends the attempt;
//   - the names of the snapshots. If the newest is not on its path, the slot at the position was
//     collected, or the path is not the log;
//   - the proof, if the leader fed some slots of the state: objects before the position;
//   - if the leader has ended, the next slots. They are no reason to end the attempt, and are applied
//     when the rest is proven.
//
// The requests are concurrent, so a slot may be collected between them. R5 (4) notices that after the
// SEAL.
type look struct {
	*endCheck
	newest snapName // on our path; zero: there is none
	path   []*pathObject
	ahead  *walk // through the slots of a leader that has ended
}

// pathObject is an object on our path.
type pathObject struct {
	at    state.Position
	nonce record.ID    // of its epoch
	next  *state.Epoch // that the SEAL begins; nil: DATA
	slot  *Slot        // nil: missing or unreadable
}

// standAtEnd looks before the SEAL of an attempt against one epoch.
func (c *Core) standAtEnd() {
	l := &look{}
	l.endCheck = &endCheck{c: c, left: 2, atEnd: l.decide}
	if c.attempt.gone {
		l.walks = true
		l.readAhead()
		l.ahead.held = true
	}
	if c.fed {
		l.left++
		l.readPath()
	}
	l.listBeyond(c.slotBefore())
	l.listSnapshots()
}

// listSnapshots checks that the newest snapshot is on our path.
func (l *look) listSnapshots() {
	c := l.c
	c.listSnaps(func(names []snapName) {
		names = c.onLog(names)
		from := snapName{nonce: c.cluster}
		if len(names) > 0 {
			from = names[0]
		}
		onPath := func() {
			l.newest = from
			l.none()
		}
		switch {
		case l.decided:
		case len(names) == 0 && c.load.base == "", len(names) > 0 && c.passed(from):
			onPath()
		default:
			c.findPosition(from, onPath, func() {
				if !l.decided {
					c.overtaken(true)
				}
			})
		}
	})
}

// readPath reads the objects that together prove that everything before our position is durable.
//
// A leader sends a slot when the slot K before it is committed (rule R2). So K slots of one epoch
// prove all slots before them. A SEAL proves nothing, because a candidate may put it beyond the end.
// But only a leader puts DATA, and the epoch of a leader is on the log. So the first slots of an epoch
// prove those of the epochs before it; an epoch without DATA proves nothing.
func (l *look) readPath() {
	c := l.c
	l.path = c.pathBack()
	left := len(l.path)
	if left == 0 {
		l.none()
	}
	for _, o := range l.path {
		key := state.SlotKey(c.cfg.Shard, o.at.Epoch, o.nonce, o.at.Slot)
		c.request(Effect{Kind: EffGetSlot, Key: key, HeadOnly: true}, func(ev *Event) {
			if ev.Outcome == OutcomeOK {
				o.slot = ev.Slot
			}
			if left--; left == 0 {
				l.none()
			}
		})
	}
}

// pathBack returns the objects for readPath, newest first.
func (c *Core) pathBack() (path []*pathObject) {
	epochs, at := c.committed.Epochs, c.committed.Pos
	for i := len(epochs) - 1; ; i-- {
		for n := range min(uint64(c.cfg.Window), at.Slot) {
			path = append(path, &pathObject{at: state.Position{Epoch: at.Epoch, Slot: at.Slot - 1 - n}, nonce: epochs[i].Nonce})
		}
		if at.Slot > 0 || i == 0 {
			return path
		}
		before := &epochs[i-1]
		at = state.Position{Epoch: before.Number, Slot: before.Seal}
		path = append(path, &pathObject{at: at, nonce: before.Nonce, next: &epochs[i]})
	}
}

// decide continues when the bucket has answered everything.
func (l *look) decide() {
	c := l.c
	ok, lie := l.proven()
	if lie != nil {
		c.alarm("leader fed a wrong slot", fmt.Errorf("the leader fed a slot that differs from the bucket: %w", lie))
	}
	if !ok {
		c.overtaken(true)
		return
	}
	if l.newest.key != "" {
		c.load.newest = l.newest.key
	}
	if l.ahead == nil {
		c.drawNonce()
		return
	}
	if c.walk != l.ahead { // the walk of findPosition has replaced it
		l.readAhead()
	}
	l.ahead.held = false
	c.drain(l.ahead)
}

// readAhead reads the slots that a leader has left at our position, up to the first missing one.
func (l *look) readAhead() {
	c := l.c
	l.ahead = &walk{pos: c.committed.Pos, nonce: c.committed.Nonce, least: uint64(c.cfg.Window), onMissing: l.passedRest}
	l.ahead.onSlot = func(s *Slot) bool {
		if s.Head.Kind == record.KindSeal {
			c.overtaken(false)
			return false
		}
		return c.replay(s)
	}
	c.begin(l.ahead)
}

// passedRest continues at the first missing slot. Slots behind it that were listed in the meantime may
// refer to the log behind it (rule R13), or are the missing slot itself, written since it was read.
func (l *look) passedRest() {
	c := l.c
	here := c.committed.Key(c.committed.Pos.Epoch, c.committed.Pos.Slot)
	for len(l.unread) > 0 && l.unread[0] <= here {
		name := l.unread[0]
		if l.unread = l.unread[1:]; name == here {
			l.readAhead()
			return
		}
	}
	e := &endCheck{c: c, left: 1, atEnd: c.drawNonce}
	if l.more {
		e.listBeyond(c.slotBefore())
		return
	}
	e.readBeyond(l.unread, "")
}

// proven reports whether the objects are those of our path. The checksum of each names the bytes of
// the one before it. An object before the newest snapshot may have been collected, and a late SEAL may
// have its name: the snapshot shows that it was committed. lie is not nil if the leader has stored
// another slot than it fed.
func (l *look) proven() (ok bool, lie error) {
	want, known := l.c.committed.PrevCRC, true
	for _, o := range l.path {
		switch h := o.head(l.c); {
		case h == nil && !o.at.Less(l.newest.pos):
			return false, nil
		case h == nil:
			known = false
		case known && h.CRC != want:
			return false, &state.ChainError{Pos: o.at, Reason: fmt.Sprintf("checksum %08x, want %08x", h.CRC, want)}
		default:
			want, known = h.PrevCRC, h.Flags&record.FlagAhead == 0
		}
	}
	return true, nil
}

// head is the head of the object if it is the one on our path, apart from its bytes.
func (o *pathObject) head(c *Core) *record.Head {
	if o.slot == nil {
		return nil
	}
	h := &o.slot.Head
	switch {
	case h.Cluster != c.cluster || h.Shard != c.cfg.Shard || h.Epoch != o.at.Epoch || h.Nonce != o.nonce || h.Slot != o.at.Slot,
		h.Kind == record.KindSeal && (o.next == nil || h.NextEpoch != o.next.Number || h.NextNonce != o.next.Nonce),
		h.Kind == record.KindData && o.next != nil:
		return nil
	}
	return h
}

// standAtGenesis stands in a bucket that held no log when this core waited for one.
func (c *Core) standAtGenesis() {
	c.attempt.fresh = true
	c.setState(state.Genesis(c.cluster, c.cfg.Shard))
	if s := Older(c.cfg.Seen, c.committed); s != nil {
		c.stop(&OlderCopyError{Seen: *s, Cluster: c.cluster, Pos: c.committed.Pos})
		return
	}
	c.standAtEnd()
}
