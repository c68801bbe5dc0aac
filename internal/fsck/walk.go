package fsck

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// follow walks along the chain, from where the fold is to the end of the log, or to where it cannot continue.
func (c *checker) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &ahead{c: c}
	a.restart(c.st.Pos, c.st.Nonce)
	looked := "-" // the newest snapshot when the missing slot at this position was looked for last
	for {
		if err := c.passSnapshots(ctx); err != nil {
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
			// A broker may have written or collected it meanwhile: look again after the listing, until that stands still.
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

// apply applies a slot to the fold, if it may.
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

// wasWalked says whether the walk has verified a slot.
func (c *checker) wasWalked(nonce record.ID, slot uint64) bool {
	for _, s := range c.walked[nonce] {
		if s.from <= slot && slot < s.to {
			return true
		}
	}
	return false
}

// passSnapshots compares those at the fold's position, and reports those that the walk went past.
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
			// It came up in a later listing, when the walk was further.
		default:
			c.damage("snapshot off the log", s.key, "the log does not come by epoch %d slot %d with this nonce", s.pos.Epoch, s.pos.Slot)
		}
	}
	return nil
}

// onChain says whether a position is one of the log's so far.
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
		// What the walk has seen does not bear this snapshot out: the listing compares it with the objects.
		clear(c.walked)
		c.st = st
		c.learnState()
		c.proven = append(c.proven, s)
		return true, nil
	}
	return false, nil
}

// extends says whether a state's chain may be the walk's, and longer: epochs that both know must be the same.
func (c *checker) extends(st *state.State) bool {
	for _, e := range st.Epochs {
		ours, known := c.epoch(e.Number)
		if known && (e.Nonce != ours.Nonce || e.Number < c.st.Pos.Epoch && e.Seal != ours.Seal) {
			return false
		}
	}
	return !st.Pos.Less(c.st.Pos)
}

// beyondMax bounds how many slots beyond the end are looked at: a window's worth and a few SEALs can be there.
const beyondMax = 64

// endOfWalk makes sure that the log ends where the walk does: a slot beyond a missing one that says by its `low` that
// it was committed shows a hole (rule R5 (2)).
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

// hole reports a slot that was committed and is missing, unless it has come meanwhile.
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
