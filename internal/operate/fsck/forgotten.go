package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// The state drops an epoch once its names are not needed; only the epoch's SEAL remains in the
// store. If the walk began at a snapshot, an earlier epoch is known only if the snapshot lists it.
// The other epochs are found by their SEALs: each SEAL names the next epoch, so the chain is
// followed back from the first known epoch.

// learnSeal adds to the chain the epoch that the walk just finished, and the epoch that begins.
func (c *checker) learnSeal() {
	n := len(c.st.Epochs)
	c.chain[len(c.chain)-1] = c.st.Epochs[n-2]
	c.chain = append(c.chain, c.st.Epochs[n-1])
}

// learnState adds to the chain the epochs of the snapshot at which the walk continues.
func (c *checker) learnState() {
	chain := slices.Clone(c.st.Epochs)
	told := map[uint32]bool{}
	for _, e := range chain {
		told[e.Number] = true
	}
	for _, e := range c.chain[:len(c.chain)-1] { // the end of the last epoch is unknown
		if !told[e.Number] {
			chain = append(chain, e)
		}
	}
	c.chain = chain
	sorting.Sort(c.chain, func(a, b state.Epoch) int { return cmp.Compare(a.Number, b.Number) })
}

// epoch returns the log's epoch of that number, if it is known.
func (c *checker) epoch(number uint32) (state.Epoch, bool) {
	i, ok := slices.BinarySearchFunc(c.chain, number, func(e state.Epoch, n uint32) int { return cmp.Compare(e.Number, n) })
	if !ok {
		return state.Epoch{}, false
	}
	return c.chain[i], true
}

// next returns the epoch after the i-th of the chain, if it is known.
func (c *checker) next(i int) (state.Epoch, bool) {
	if i+1 == len(c.chain) || c.chain[i+1].Number != c.chain[i].Number+1 {
		return state.Epoch{}, false
	}
	return c.chain[i+1], true
}

// oldSeal is a SEAL in a forgotten epoch.
type oldSeal struct {
	name slotName
	key  string
	size int64
	next uint32
}

// oldData is a DATA object in a forgotten epoch.
type oldData struct {
	job
	low uint64
}

// forgotten reports whether the log had an epoch of that number that is not known.
func (l *listing) forgotten(number uint32) bool {
	_, known := l.numbers[number]
	return !known && number < l.end
}

// old reads a slot of a forgotten epoch. DATA there is garbage if the epoch was on the log; link
// decides that.
func (l *listing) old(ctx context.Context, j job) error {
	h, missing, err := l.c.readHead(ctx, j.key)
	switch {
	case missing:
		return nil
	case errors.Is(err, record.ErrCorrupt):
		l.c.orphan("void slot", j.key, j.size, "in an epoch long over, and not readable: it stays (%v)", err)
		return nil
	case err != nil:
		return err
	case h.Kind != record.KindSeal:
		l.c.verified(0, false)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.oldData = append(l.oldData, oldData{j, h.Low})
		return nil
	}
	o := l.c.readObject(ctx, j.key)
	if err := o.fatal(); err != nil || o.missing() {
		return err
	}
	if o.err == nil {
		if err := l.c.place(&o.head, j.name); err != nil {
			o.err = err
		}
	}
	l.c.verified(o.size, o.err == nil && o.body == nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.err != nil || o.body != nil {
		l.c.suspect(suspect{key: j.key, at: j.at, kind: "corrupt object", err: cmp.Or(o.err, o.body)})
	}
	l.seals[h.NextNonce] = oldSeal{j.name, j.key, o.size, h.NextEpoch}
	return nil
}

// place compares an object's head with its name.
func (c *checker) place(h *record.Head, n slotName) error {
	if h.Cluster != c.cluster || h.Shard != c.o.Shard || h.Epoch != n.epoch || h.Nonce != n.nonce || h.Slot != n.slot {
		return fmt.Errorf("holds cluster %s shard %d epoch %d nonce %s slot %d", h.Cluster, h.Shard, h.Epoch, h.Nonce, h.Slot)
	}
	return nil
}

// link finds the forgotten epochs by their SEALs, and reports the SEALs that are not on the log as
// orphans.
func (l *listing) link() {
	c := l.c
	var found []state.Epoch
	for i, e := range c.chain {
		if e.Number == 0 || i > 0 && (c.chain[i-1].Number == e.Number-1 || c.skips(c.chain[i-1].Number, e.Number)) {
			continue
		}
		found = append(found, l.linkBack(e)...)
	}
	c.chain = append(c.chain, found...)
	sorting.Sort(c.chain, func(a, b state.Epoch) int { return cmp.Compare(a.Number, b.Number) })
	for _, d := range l.oldData {
		e, on := c.epoch(d.name.epoch)
		if on = on && e.Nonce == d.name.nonce; on && (d.name.slot < e.Seal || d.low <= e.Seal) {
			c.superseded(d.size)
			continue
		}
		c.lostBranch(d.key, d.size, d.name)
	}
	for _, s := range l.seals { //tidy:unordered findings are not ordered
		c.orphan("void slot", s.key, s.size, "seal in an epoch that never led, never part of the log")
	}
}

// skips reports whether a recovery made the log continue in epoch to after epoch from.
func (c *checker) skips(from, to uint32) bool {
	return slices.ContainsFunc(c.st.LostBranches, func(b state.LostBranch) bool { return b.From.Epoch == from && b.LastEpoch == to-1 })
}

// linkBack follows the SEALs back from an epoch to the nearest known epoch, and returns the epochs
// between.
func (l *listing) linkBack(e state.Epoch) (found []state.Epoch) {
	c := l.c
	for e.Number > 0 {
		if _, known := c.epoch(e.Number - 1); known {
			return found
		}
		s, there := l.seals[e.Nonce]
		if !there || s.next != e.Number {
			if e.Number-1 < l.end { // otherwise it was written after the listing
				c.damage("missing seal", state.SlotPrefix(c.o.Shard, e.Number, e.Nonce),
					"no seal of epoch %d leads here: it is never deleted", e.Number-1)
			}
			return found
		}
		delete(l.seals, e.Nonce)
		c.sealSeen(s.name.nonce)
		e = state.Epoch{Number: s.name.epoch, Nonce: s.name.nonce, Seal: s.name.slot}
		found = append(found, e)
	}
	if e.Nonce != c.cluster {
		c.damage("wrong object", state.SlotKey(c.o.Shard, 0, e.Nonce, e.Seal), "the log begins with it, and not in the cluster's epoch 0")
	}
	return found
}

// survey lists the objects after the cut and on earlier lost branches, and notes every epoch and
// offset that they name.
func (r *recovery) survey(ctx context.Context) error {
	at := r.st.Pos
	r.beyond, r.first, r.damaged, r.topics = nil, nil, 0, map[record.ID]bool{}
	v := &strays{recovery: r, judge: core.NewCollector(r.st, nil)}
	for _, s := range r.snaps {
		r.proof = r.proof || at.Less(s.pos) && !r.st.OnLostBranch(s.pos)
	}
	if err := r.note(ctx, r.cut.key); err != nil {
		return err
	}
	var failed error
	err := r.list(ctx, core.WALPrefix(r.o.Shard), "", func(e objstore.Entry) bool {
		n, ok := parseSlot(r.o.Shard, e.Key)
		switch {
		case !ok || n.epoch == at.Epoch && n.nonce == r.st.Nonce && n.slot <= at.Slot:
		case n.epoch > at.Epoch || n.epoch == at.Epoch && n.nonce == r.st.Nonce:
			damaged := r.damaged
			failed = r.onBranch(ctx, n)
			r.proof = r.proof || r.damaged > damaged
		default:
			failed = v.look(ctx, e.Key, n)
		}
		return failed == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := v.note(ctx); err != nil {
		return err
	}
	err = r.list(ctx, state.ViewPrefix(r.o.Shard), "", func(e objstore.Entry) bool {
		p, ok := state.ParseViewPosition(r.o.Shard, e.Key)
		r.proof = r.proof || ok && at.Less(p) && !r.st.OnLostBranch(p)
		return true
	})
	if err != nil {
		return err
	}
	var packs *state.Position // of a branch that has no other objects
	err = r.list(ctx, state.PackPrefix(r.o.Shard), "", func(e objstore.Entry) bool {
		n, ok := parsePack(r.o.Shard, e.Key)
		if behind := n.epoch > at.Epoch; ok && (behind || !v.judge.OnLog(n.nonce) && !r.st.LossAccepted(n.epoch)) {
			r.proof = r.proof || behind
			r.lastEpoch = max(r.lastEpoch, n.epoch)
			if at := n.pos(); !behind && (packs == nil || at.Less(*packs)) {
				packs = &at
			}
			failed = r.note(ctx, e.Key)
		}
		return failed == nil
	})
	r.first = cmp.Or(r.first, packs)
	return errors.Join(err, failed)
}

// onBranch notes a slot of the lost branch.
func (r *recovery) onBranch(ctx context.Context, n slotName) error {
	r.beyond = append(r.beyond, n)
	r.lastEpoch = max(r.lastEpoch, n.epoch)
	return r.note(ctx, state.SlotKey(r.o.Shard, n.epoch, n.nonce, n.slot))
}

// strays finds the slots of branches that brokers abandoned when they continued without a lost
// object: DATA in epochs that are not on the log, and the SEALs between these epochs.
type strays struct {
	*recovery
	judge *core.Collector
	seals map[record.ID][]straySeal // of epochs that may be on such a branch, by nonce
}

type straySeal struct {
	name slotName
	next record.ID
}

// look judges a name that is not after the end of the log.
func (v *strays) look(ctx context.Context, key string, n slotName) error {
	// The judge keeps every slot that is not below the state. In an epoch that is not on the log,
	// that comparison means nothing.
	if n.epoch < v.st.Pos.Epoch && v.judge.Judge(key) != core.AskHead {
		return nil
	}
	h, missing, err := v.readHead(ctx, key)
	switch {
	case missing:
		return nil
	case errors.Is(err, record.ErrCorrupt):
		return nil // the check reports it
	case err != nil:
		return err
	}
	v.judge.Head(key, &h)
	if h.Kind == record.KindSeal {
		if v.seals == nil {
			v.seals = map[record.ID][]straySeal{}
		}
		v.seals[n.nonce] = append(v.seals[n.nonce], straySeal{n, h.NextNonce})
	}
	return nil
}

// note adds the strays to the lost branch.
func (v *strays) note(ctx context.Context) error {
	v.judge.Settle()
	led := map[record.ID]bool{}
	var follow []record.ID
	lead := func(nonce record.ID) {
		if !led[nonce] && !v.judge.OnLog(nonce) {
			led[nonce] = true
			follow = append(follow, nonce)
		}
	}
	for _, key := range v.judge.Branch() {
		n, _ := parseSlot(v.o.Shard, key)
		if at := n.pos(); v.first == nil || at.Less(*v.first) {
			v.first = &at
		}
		if err := v.onBranch(ctx, n); err != nil {
			return err
		}
		lead(n.nonce)
	}
	for len(follow) > 0 {
		nonce := follow[0]
		follow = follow[1:]
		for _, s := range v.seals[nonce] {
			if err := v.onBranch(ctx, s.name); err != nil {
				return err
			}
			lead(s.next)
		}
	}
	return nil
}

// note reads an object after the cut and notes the epochs and offsets that it names.
func (r *recovery) note(ctx context.Context, key string) error {
	o := r.readObject(ctx, key)
	switch {
	case o.fatal() != nil:
		return o.err
	case o.missing():
		return nil
	case o.err != nil:
		r.damaged++
		return nil
	}
	if n, slot := parseSlot(r.o.Shard, key); slot && r.place(&o.head, n) != nil {
		r.damaged++ // the original object of this name is unknown
	}
	if o.head.Kind == record.KindSeal {
		r.lastEpoch = max(r.lastEpoch, o.head.NextEpoch)
	}
	r.proof = r.proof || o.head.Kind != record.KindPack && o.head.Epoch >= r.st.Pos.Epoch && core.RefersBeyond(r.st, &o.head)
	if h := &o.head; h.Epoch == r.st.Pos.Epoch && h.Nonce == r.st.Nonce && h.Kind == record.KindData && h.Low > r.st.Pos.Slot {
		r.data = true
	}
	for i := range o.index {
		e := &o.index[i]
		p := partition{e.Topic, e.Partition}
		r.next[p] = max(r.next[p], e.Base+int64(e.Span))
	}
	for i := range o.recs {
		switch rec := &o.recs[i]; rec.Kind {
		case state.TopicCreate:
			r.topics[rec.Topic] = true
		case state.OffsetCommit:
			p := partition{rec.Topic, rec.Partition}
			r.next[p] = max(r.next[p], rec.Offset)
		}
	}
	return nil
}
