package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
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

// lostBranch reports DATA or a pack that is not on the log. Only leaders write such objects, so the
// log once included their epoch: a SEAL or a slot was lost, and a broker continued without it. The
// first object of each epoch is reported as damage, the others as orphans.
func (c *checker) lostBranch(key string, size int64, n slotName) {
	if c.st.LossAccepted(n.epoch) {
		c.mu.Lock()
		c.accepted = append(c.accepted, objstore.Entry{Key: key, Size: size})
		c.mu.Unlock()
		c.note("accepted loss", key, "of a branch that a recovery has cut off: seb recover --discard removes it")
		return
	}
	c.mu.Lock()
	first := !c.branches[n.nonce]
	c.branches[n.nonce] = true
	c.strays = append(c.strays, key)
	c.mu.Unlock()
	if !first {
		c.orphan("lost branch", key, size, "of epoch %d, as reported", n.epoch)
		return
	}
	c.damage("lost branch", key, "epoch %d was led here, and the log does not come by: a part of the log was lost, and a broker "+
		"continued without it. What this branch holds was acknowledged; nothing of it is deleted", n.epoch)
}

// behind reports the records after the damage at which the log ends, from the indexes of the slots
// there. The records of a lost slot are included only if a later slot holds records of the same
// partition.
func (l *listing) behind(ctx context.Context) error {
	c := l.c
	var keys []string
	for _, e := range l.pending {
		if n, slot := parseSlot(c.o.Shard, e.Key); slot && !n.pos().Less(c.st.Pos) {
			keys = append(keys, e.Key)
		}
	}
	t, err := c.tell(ctx, keys)
	if err != nil {
		return err
	}
	f := Finding{Severity: Note, Kind: "lost records"}
	for _, topic := range c.st.Topics() {
		for i, p := range topic.Partitions.All() {
			if to := t.next[partition{topic.ID, uint32(i)}]; to > p.Next {
				f.Lost = append(f.Lost, Records{Topic: topic.Name, Partition: i, From: p.Next, To: to})
			}
		}
	}
	f.Text = fmt.Sprintf("behind epoch %d slot %d lie %d objects in %d epochs, which no broker reads; %d topics were created there. "+
		"Bring the lost object back, or accept the loss: seb recover --accept-loss %d:%d",
		c.st.Pos.Epoch, c.st.Pos.Slot, len(keys), len(t.epochs), t.created, c.st.Pos.Epoch, c.st.Pos.Slot)
	c.found(f)
	return nil
}

// branched reports the records on branches that brokers have left, and the command that accepts
// their loss.
func (c *checker) branched(ctx context.Context) error {
	if len(c.strays) == 0 || c.stopped {
		return nil // a recovery from the damage at the end covers the branch too
	}
	t, err := c.tell(ctx, c.strays)
	if err != nil {
		return err
	}
	var first, pack *state.Position
	for _, key := range c.strays {
		n, slot := parseSlot(c.o.Shard, key)
		least := &first
		if !slot {
			n, _ = parsePack(c.o.Shard, key)
			least = &pack
		}
		if at := n.pos(); *least == nil || at.Less(**least) {
			*least = &at
		}
	}
	first = cmp.Or(first, pack)
	f := Finding{Severity: Note, Kind: "lost records"}
	for _, topic := range c.st.Topics() {
		for i := range topic.Partitions.Len() {
			p := partition{topic.ID, uint32(i)}
			if to, there := t.next[p]; there {
				f.Lost = append(f.Lost, Records{Topic: topic.Name, Partition: i, From: t.first[p], To: to})
			}
		}
	}
	f.Text = fmt.Sprintf("on a branch that brokers have left lie %d objects in %d epochs, from epoch %d slot %d on, which no broker reads; "+
		"%d topics were created there. The log may have given out the same offsets again since. "+
		"Accept the loss, so that offsets continue above them: seb recover --accept-loss %d:%d",
		len(c.strays), len(t.epochs), first.Epoch, first.Slot, t.created, first.Epoch, first.Slot)
	c.found(f)
	return nil
}

// told sums up the indexes and state records of objects that are not on the log.
type told struct {
	epochs      map[uint32]bool
	first, next map[partition]int64 // offsets
	created     int                 // topics
}

// tell reads objects that are not on the log and sums them up.
func (c *checker) tell(ctx context.Context, keys []string) (*told, error) {
	t := &told{epochs: map[uint32]bool{}, first: map[partition]int64{}, next: map[partition]int64{}}
	for _, key := range keys {
		o := c.readObject(ctx, key)
		if err := o.fatal(); err != nil {
			return nil, err
		}
		if n, slot := parseSlot(c.o.Shard, key); slot {
			t.epochs[n.epoch] = true
		} else if n, pack := parsePack(c.o.Shard, key); pack {
			t.epochs[n.epoch] = true
		}
		for i := range o.index {
			x := &o.index[i]
			p := partition{x.Topic, x.Partition}
			if first, there := t.first[p]; !there || x.Base < first {
				t.first[p] = x.Base
			}
			t.next[p] = max(t.next[p], x.Base+int64(x.Span))
		}
		for i := range o.recs {
			if o.recs[i].Kind == state.TopicCreate {
				t.created++
			}
		}
	}
	return t, nil
}
