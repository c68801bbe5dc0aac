package fsck

import (
	"context"
	"errors"
	"slices"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// follow replays the chain from the current state to the end of the log, or to the first slot that
// it cannot pass.
func (c *checker) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &ahead{c: c}
	a.restart(c.st.Pos, c.st.Nonce)
	looked := "-" // the newest snapshot at the last check of the missing slot
	for {
		if err := c.passSnapshots(ctx); err != nil {
			return err
		}
		if err := c.hold(0); err != nil {
			return err
		}
		at := c.st.Pos
		if a.epoch != at.Epoch || a.nonce != c.st.Nonce {
			a.restart(at, c.st.Nonce)
		}
		o := a.get(ctx, at.Slot)
		if err := o.fatal(); err != nil {
			return err
		}
		if o.missing() {
			// A broker may have written or collected the slot meanwhile. Repeat until a listing
			// shows no newer snapshot.
			if err := c.listSnapshots(ctx); err != nil {
				return err
			}
			if looked != c.newest {
				looked = c.newest
				a.restart(at, c.st.Nonce)
				continue
			}
		}
		looked = "-"
		if c.apply(o) {
			continue
		}
		jumped, err := c.jump(ctx, o)
		if err != nil {
			return err
		}
		if !jumped && !c.gone {
			return c.endOfWalk(ctx, o)
		}
		a.restart(c.st.Pos, c.st.Nonce)
	}
}

// apply applies a slot to the state, and reports whether it did.
func (c *checker) apply(o *object) bool {
	if o.missing() {
		return false
	}
	at, nonce := c.st.Pos, c.st.Nonce
	kind, err := "corrupt object", o.err
	if err == nil {
		kind, err = "wrong object", c.st.Apply(&o.head, o.recs, o.index)
	}
	c.verified(o.size, err == nil && o.body == nil)
	if err != nil {
		c.suspect(suspect{key: o.key, at: ref{at, false}, kind: kind, err: err})
		return false
	}
	if o.body != nil {
		c.suspect(suspect{key: o.key, at: ref{at, false}, kind: "corrupt batches", err: o.body, body: true})
	}
	if o.head.Kind == record.KindSeal {
		c.learnSeal()
		c.sealSeen(nonce)
	}
	spans := c.walked[nonce]
	if n := len(spans); n > 0 && spans[n-1].to == at.Slot {
		spans[n-1].to++
	} else {
		c.walked[nonce] = append(spans, span{at.Slot, at.Slot + 1})
	}
	return true
}

func (c *checker) sealSeen(nonce record.ID) {
	if !c.sealed[nonce] {
		c.sealed[nonce] = true
		c.report.Seals++
	}
}

// wasWalked reports whether the walk has verified a slot.
func (c *checker) wasWalked(nonce record.ID, slot uint64) bool {
	return slices.ContainsFunc(c.walked[nonce], func(s span) bool { return s.from <= slot && slot < s.to })
}

// passSnapshots compares the snapshots at the current position with the state, and reports those
// that the walk has passed and that are not on the log.
func (c *checker) passSnapshots(ctx context.Context) error {
	for len(c.snaps) > 0 && !c.st.Pos.Less(c.snaps[0].pos) {
		s := c.snaps[0]
		c.snaps = c.snaps[1:]
		st, err := c.readSnapshot(ctx, s)
		if err != nil {
			return err
		}
		switch {
		case st == nil:
		case s.pos == c.st.Pos && s.nonce == c.st.Nonce:
			c.compare(s, st)
		case s.pos != c.st.Pos && c.onChain(s.nonce, s.pos):
			// A later listing showed it, after the walk had passed its position.
		default:
			c.damage("snapshot off the log", s.key, "the log does not come by epoch %d slot %d with this nonce", s.pos.Epoch, s.pos.Slot)
		}
	}
	return nil
}

// onChain reports whether a position is on the log up to the current position.
func (c *checker) onChain(nonce record.ID, at state.Position) bool {
	e, known := c.epoch(at.Epoch)
	return known && e.Nonce == nonce && (at.Epoch == c.st.Pos.Epoch || at.Slot <= e.Seal)
}

// jump continues at the next snapshot when the walk cannot continue at o.
func (c *checker) jump(ctx context.Context, o *object) (bool, error) {
	for len(c.snaps) > 0 {
		s := c.snaps[0]
		c.snaps = c.snaps[1:]
		st, err := c.readSnapshot(ctx, s)
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		if !c.extends(st) {
			c.damage("snapshot off the log", s.key, "its epochs are not those of the log")
			continue
		}
		if o.missing() && !c.st.Pos.Less(c.floor) {
			c.damage("missing slot", o.key, "it is not there, and no broker can have collected it: that takes two newer snapshots")
		}
		// The walk does not confirm this snapshot. The listing compares it with the objects.
		clear(c.walked)
		c.st = st
		c.learnState()
		c.proven = append(c.proven, s)
		return true, nil
	}
	return false, nil
}

// extends reports whether a state's chain can extend the walk's chain: the epochs that both know
// are equal.
func (c *checker) extends(st *state.State) bool {
	for _, e := range st.Epochs {
		ours, known := c.epoch(e.Number)
		if known && (e.Nonce != ours.Nonce || e.Number < c.st.Pos.Epoch && e.Seal != ours.Seal) {
			return false
		}
	}
	return !st.Pos.Less(c.st.Pos)
}

// beyondMax bounds the number of slots read after the end of the log. A window of slots and a few
// SEALs can exist there.
const beyondMax = 64

// endOfWalk verifies that the log ends at the end of the walk. A later slot whose `low` is above
// the missing slot proves that the missing slot was committed, which is a hole (rule R5 (2)).
func (c *checker) endOfWalk(ctx context.Context, o *object) error {
	at := c.st.Pos
	if !o.missing() {
		c.stopped = true
		return nil
	}
	var names []string
	after := o.key
	err := c.list(ctx, state.SlotPrefix(c.o.Shard, at.Epoch, c.st.Nonce), after, func(e objstore.Entry) bool {
		if _, ok := parseSlot(c.o.Shard, e.Key); ok {
			names = append(names, e.Key)
		}
		return len(names) < beyondMax
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		h, missing, err := c.readHead(ctx, name)
		switch {
		case missing:
		case errors.Is(err, record.ErrCorrupt):
			c.damage("corrupt object", name, "beyond the end of the log, where a broker looks when it starts: %v", err)
			c.stopped = true
		case err != nil:
			return err
		case h.Low > at.Slot:
			return c.hole(ctx, o.key, name)
		}
	}
	return nil
}

// hole reports a committed slot that is missing, unless it exists by now.
func (c *checker) hole(ctx context.Context, key, beyond string) error {
	_, missing, err := c.readHead(ctx, key)
	switch {
	case missing:
		c.damage("hole", key, "it was committed, as %s says, and is missing: no broker goes past it", beyond)
		c.stopped = true
		return nil
	case errors.Is(err, record.ErrCorrupt):
		c.damage("corrupt object", key, "%v", err)
		c.stopped = true
		return nil
	case err != nil:
		return err
	}
	return c.follow(ctx) // a broker is writing
}
