package core

import (
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Verdict says what may be done with a listed name (rule R7).
type Verdict uint8

// The verdicts.
const (
	Keep Verdict = iota // not garbage, not ours to judge, or a name that does not parse
	// garbage permanently: a DELETE that comes late, twice or from a deposed leader does no harm
	Delete
	AskHead // the object's head decides: call Head
)

// Collector judges names by the tests of rule R7. It needs only the older of the two newest durable
// snapshots that this leader wrote in this epoch: a name that this state does not reference is
// garbage permanently.
//
// A state forgets the epochs without any remaining data. DATA of an epoch that the state does not
// know is therefore one of two things: garbage of a forgotten epoch, or the rest of a branch that a
// lost SEAL cut off the log. The SEALs distinguish them: each names the next epoch, so they lead
// back from the oldest known epoch through the forgotten ones. DATA of an epoch that they do not
// lead to is never deleted (rule R9).
//
//	Judge every slot's name; Head for each AskHead  ->  Settle, once  ->  Judge packs and snapshots
//
// A Collector is not safe for concurrent use.
type Collector struct {
	a       *state.State
	refs    map[slotRef]struct{}
	packs   map[state.PackID]struct{}
	chain   map[record.ID]state.Epoch
	proven  *Proven
	links   map[record.ID]sealLink // SEALs of unknown epochs, by the nonce that they name
	unknown []unknownData
	branch  []string // DATA on no epoch of the log that no recovery has accepted
}

// sealLink is the location of a SEAL.
type sealLink struct {
	nonce record.ID
	slot  uint64
	key   string
}

// unknownData is a DATA slot of an epoch that the state does not know.
type unknownData struct {
	key   string
	epoch uint32
	nonce record.ID
	low   uint64
}

// Proven is the set of forgotten epochs that are known to be on the log, with the slots of their
// SEALs. It grows from pass to pass, so each pass reads only new heads.
type Proven struct {
	seals map[record.ID]uint64
	names map[string]struct{} // names of their SEALs
}

// provenMax bounds the remembered epochs to about 10 MiB. DATA of forgotten epochs beyond it stays.
const provenMax = 1 << 16

// has reports whether an epoch is proven.
func (p *Proven) has(nonce record.ID) bool { _, ok := p.seals[nonce]; return ok }

type slotRef struct {
	epoch uint32
	slot  uint64
}

// NewCollector returns the collector for a snapshot's state. It visits every range, so it must not
// run on the log's owner goroutine. proven is reused from pass to pass; nil starts an empty one.
func NewCollector(a *state.State, proven *Proven) *Collector {
	if proven == nil {
		proven = &Proven{}
	}
	if proven.seals == nil {
		proven.seals, proven.names = map[record.ID]uint64{}, map[string]struct{}{}
	}
	g := &Collector{
		a: a, refs: map[slotRef]struct{}{}, packs: map[state.PackID]struct{}{}, chain: map[record.ID]state.Epoch{},
		proven: proven, links: map[record.ID]sealLink{},
	}
	for _, e := range a.Epochs {
		g.chain[e.Nonce] = e
	}
	for _, t := range a.Topics() {
		for _, p := range t.Partitions.Written() {
			for i := range p.Ranges {
				if r := &p.Ranges[i]; r.Lost() {
					continue
				} else if r.Pack {
					g.packs[state.PackID{Epoch: r.Epoch, ID: r.Slot}] = struct{}{}
				} else {
					g.refs[slotRef{r.Epoch, r.Slot}] = struct{}{}
				}
			}
		}
	}
	return g
}

// judgePack finds two kinds of garbage: an unreferenced pack of a lower epoch, and an unreferenced
// pack of this epoch that was installed. A pack of this epoch that was not installed may still be
// installed.
func (g *Collector) judgePack(epoch uint32, nonce record.ID, number uint64) Verdict {
	id := state.PackID{Epoch: epoch, ID: number}
	_, used := g.packs[id]
	e, on := g.chain[nonce]
	known := on && e.Number == epoch || !on && g.proven.has(nonce)
	switch {
	case !known, on && used:
		return Keep
	case epoch < g.a.Pos.Epoch:
		return Delete
	case epoch == g.a.Pos.Epoch && nonce == g.a.Nonce:
		if _, installed := g.a.PackOf(id); installed {
			return Delete
		}
	}
	return Keep
}

// Referenced is the number of slots with data that readers can reach.
func (g *Collector) Referenced() int { return len(g.refs) }

// Judge returns the verdict on the name of a slot, snapshot or pack.
func (g *Collector) Judge(key string) Verdict {
	if epoch, nonce, slot, ok := state.ParseSlotKey(g.a.Shard, key); ok {
		return g.judgeSlot(epoch, nonce, slot)
	}
	if epoch, nonce, number, ok := state.ParsePackKey(g.a.Shard, key); ok {
		return g.judgePack(epoch, nonce, number)
	}
	if n, ok := parseSnap(g.a.Shard, key); ok && n.pos.Less(g.a.Pos) && !g.a.OnLostBranch(n.pos) {
		return Delete
	}
	return Keep
}

// judgeSlot finds slots below the snapshot that it does not reference.
func (g *Collector) judgeSlot(epoch uint32, nonce record.ID, slot uint64) Verdict {
	at := state.Position{Epoch: epoch, Slot: slot}
	if !at.Less(g.a.Pos) {
		return Keep
	}
	e, on := g.chain[nonce]
	if on && e.Number != epoch || g.a.OnLostBranch(at) {
		return Keep
	}
	if _, used := g.refs[slotRef{epoch, slot}]; on && used {
		return Keep
	}
	switch {
	case !on:
		if _, read := g.proven.names[g.key(epoch, nonce, slot)]; read {
			return Keep // the SEAL of a forgotten epoch
		}
		return AskHead
	case epoch < g.a.Pos.Epoch && slot == e.Seal:
		return Keep // the SEAL
	case epoch == g.a.Pos.Epoch && slot < g.a.Pos.Slot, epoch < g.a.Pos.Epoch && slot < e.Seal:
		return Delete // an epoch holds only DATA before its SEAL
	}
	return AskHead
}

func (g *Collector) key(epoch uint32, nonce record.ID, slot uint64) string {
	return state.SlotKey(g.a.Shard, epoch, nonce, slot)
}

// Head decides an AskHead by the object's head. Settle may still find a name that it keeps to be
// garbage.
func (g *Collector) Head(key string, h *record.Head) Verdict {
	epoch, nonce, slot, ok := state.ParseSlotKey(g.a.Shard, key)
	if !ok || h.Epoch != epoch || h.Nonce != nonce || h.Slot != slot {
		return Keep // content of another object: corruption (rule R9)
	}
	e, on := g.chain[nonce]
	switch {
	case on && h.Kind == record.KindData && g.inFlight(h.Low, e.Seal, h.Epoch):
		return Delete
	case on && h.Kind == record.KindData:
		g.stray(key, epoch)
	case on:
	case h.Kind == record.KindSeal:
		g.links[h.NextNonce] = sealLink{nonce: nonce, slot: slot, key: key}
	case h.Kind == record.KindData:
		g.unknown = append(g.unknown, unknownData{key, epoch, nonce, h.Low})
	}
	return Keep
}

// inFlight reports whether DATA behind the SEAL of its epoch was in flight when the SEAL was
// stored. If its `low` is above the SEAL it was not: its writer had seen another object committed
// in the SEAL's slot, and that object was lost (rule R13).
func (g *Collector) inFlight(low, seal uint64, epoch uint32) bool {
	return low <= seal || epoch == g.a.Pos.Epoch
}

// Settle follows the SEALs back through the forgotten epochs and returns the names of their DATA.
// Those are garbage, because no range of the state refers to them.
func (g *Collector) Settle() (garbage []string) {
	for i, e := range g.a.Epochs {
		if e.Number == 0 || i > 0 && g.a.Epochs[i-1].Number+1 == e.Number {
			continue
		}
		for next := e.Nonce; ; {
			s, ok := g.links[next]
			if !ok || len(g.proven.seals) >= provenMax {
				break
			}
			g.proven.seals[s.nonce] = s.slot
			g.proven.names[s.key] = struct{}{}
			next = s.nonce
		}
	}
	for _, d := range g.unknown {
		seal, ok := g.proven.seals[d.nonce]
		switch {
		case ok && d.low <= seal:
			garbage = append(garbage, d.key)
		case len(g.proven.seals) < provenMax:
			g.stray(d.key, d.epoch)
		}
	}
	g.unknown = nil
	return garbage
}

// stray records a DATA slot that is on no epoch of the log.
func (g *Collector) stray(key string, epoch uint32) {
	if !g.a.LossAccepted(epoch) {
		g.branch = append(g.branch, key)
	}
}

// Branch returns the DATA below the snapshot that is on no epoch of the log and that no recovery
// has accepted. It shows that a part of the log was lost and that a broker continued without it. It
// is complete after every name was judged and after Settle.
func (g *Collector) Branch() []string { return g.branch }

// OnLog reports whether the epoch of a nonce is on the log. Call it after Settle.
func (g *Collector) OnLog(nonce record.ID) bool {
	_, on := g.chain[nonce]
	return on || g.proven.has(nonce)
}
