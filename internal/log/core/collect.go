package core

import (
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Verdict says what may be done with a listed name (rule R7).
type Verdict uint8

// The verdicts.
const (
	Keep    Verdict = iota // not garbage, not ours to judge, or a name that does not parse
	Delete                 // garbage permanently: a DELETE that comes late, twice or from a deposed leader does no harm
	AskHead                // the object's head decides: Head
)

// Collector judges names by the four tests of rule R7. It needs only the older of the two newest snapshots that this
// leader wrote in this epoch, both durable: what that state does not reference is garbage permanently.
//
// A state forgets the epochs in which nothing lies any more, and only leaders write DATA. So DATA of an epoch that the state
// does not know is either garbage of a forgotten epoch, or all that is left of a branch that was cut off the log when a SEAL
// was lost. The SEALs tell the two apart: each names the next epoch, so they lead back from the oldest epoch that the state
// knows through those that it has forgotten. What they do not lead to is never deleted (rule R9).
//
// Use: Judge every slot's name; Head for each AskHead; then Settle once; then judge packs and snapshots. It is not safe for
// concurrent use.
type Collector struct {
	a      *state.State
	refs   map[slotRef]struct{}
	packs  map[state.PackID]struct{}
	chain  map[record.ID]state.Epoch
	proven *Proven
	links  map[record.ID]sealLink // SEALs of epochs that are not known, by the nonce that they name
	asked  []unknownData
	branch []string // DATA that is on no epoch of the log, and that no recovery has accepted
}

// sealLink is where a SEAL lies.
type sealLink struct {
	nonce record.ID
	slot  uint64
	key   string
}

// unknownData is a DATA of an epoch that is not known.
type unknownData struct {
	key   string
	epoch uint32
	nonce record.ID
	low   uint64
}

// Proven are forgotten epochs that were found to be on the log, with the slots of their SEALs. It grows from pass to pass, so
// that each pass reads only what is new.
type Proven struct {
	seals map[record.ID]uint64
	names map[string]struct{} // of their SEALs
}

// provenMax bounds how many forgotten epochs are remembered: some 10 MiB. DATA that others have left stays.
const provenMax = 1 << 16

// has says whether an epoch is proven.
func (p *Proven) has(nonce record.ID) bool { _, ok := p.seals[nonce]; return ok }

type slotRef struct {
	epoch uint32
	slot  uint64
}

// NewCollector returns the collector of a snapshot's state. It goes over every range: call it off the log's owner. proven is
// kept from pass to pass; nil begins without.
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

// judgePack: a pack of a lower epoch that is not referenced; one of this epoch that was installed and is not any more. One
// of this epoch that is not known may yet be installed.
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

// Referenced is the number of slots that hold data somebody can read.
func (g *Collector) Referenced() int { return len(g.refs) }

// Judge judges a name of the log, of a snapshot or of a pack.
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

// judgeSlot: a slot below the snapshot that it does not reference.
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
		return Keep // it is the SEAL
	case epoch == g.a.Pos.Epoch && slot < g.a.Pos.Slot, epoch < g.a.Pos.Epoch && slot < e.Seal:
		return Delete // between genesis and the SEAL of its epoch there is DATA only
	}
	return AskHead
}

func (g *Collector) key(epoch uint32, nonce record.ID, slot uint64) string {
	return state.SlotKey(g.a.Shard, epoch, nonce, slot)
}

// Head settles AskHead, with the head of the object of that name. What it keeps Settle may still find to be garbage.
func (g *Collector) Head(key string, h *record.Head) Verdict {
	epoch, nonce, slot, ok := state.ParseSlotKey(g.a.Shard, key)
	if !ok || h.Epoch != epoch || h.Nonce != nonce || h.Slot != slot {
		return Keep // another object's content: corruption (rule R9)
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
		g.asked = append(g.asked, unknownData{key, epoch, nonce, h.Low})
	}
	return Keep
}

// inFlight says whether a DATA behind the SEAL of its epoch was in flight when the SEAL was put. One whose `low` is above the
// SEAL is not: its writer had seen another object in the SEAL's slot, which was lost (rule R13).
func (g *Collector) inFlight(low, seal uint64, epoch uint32) bool {
	return low <= seal || epoch == g.a.Pos.Epoch
}

// Settle follows the SEALs back through the forgotten epochs, and returns the names of their DATA, which is garbage: no range
// of the state lies in it.
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
	for _, d := range g.asked {
		seal, ok := g.proven.seals[d.nonce]
		switch {
		case ok && d.low <= seal:
			garbage = append(garbage, d.key)
		case len(g.proven.seals) < provenMax:
			g.stray(d.key, d.epoch)
		}
	}
	g.asked = nil
	return garbage
}

// stray notes a DATA that is on no epoch of the log.
func (g *Collector) stray(key string, epoch uint32) {
	if !g.a.LossAccepted(epoch) {
		g.branch = append(g.branch, key)
	}
}

// Branch returns the DATA below the snapshot that is on no epoch of the log and that no recovery has accepted: a part of the
// log was lost, and a broker has continued without it. It holds once every name of the log was judged, and after Settle.
func (g *Collector) Branch() []string { return g.branch }

// OnLog says whether the epoch of a nonce is on the log, after Settle.
func (g *Collector) OnLog(nonce record.ID) bool {
	_, on := g.chain[nonce]
	return on || g.proven.has(nonce)
}
