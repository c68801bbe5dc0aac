package fsck

import (
	"cmp"
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

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
