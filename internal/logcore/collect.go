package logcore

import (
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// Verdict says what may be done with a listed name (rule R7).
type Verdict uint8

// The verdicts.
const (
	Keep    Verdict = iota // not garbage, not ours to judge, or a name that does not parse
	Delete                 // garbage for ever: a DELETE that comes late, twice or from a deposed leader does no harm
	AskHead                // a slot that is garbage if its head says DATA: a SEAL is never deleted, whatever it seals
)

// Collector judges names by the four tests of rule R7. It needs only the older of the two newest snapshots that this
// leader wrote in this epoch, both durable: what that state does not reference is garbage for ever. It is immutable
// after NewCollector.
type Collector struct {
	a     *state.State
	refs  map[slotRef]struct{}
	packs map[state.PackID]struct{}
	chain map[record.ID]state.Epoch
}

type slotRef struct {
	epoch uint32
	slot  uint64
}

// NewCollector returns the collector of a snapshot's state. It goes over every range: call it off the log's owner.
func NewCollector(a *state.State) *Collector {
	g := &Collector{a: a, refs: map[slotRef]struct{}{}, packs: map[state.PackID]struct{}{}, chain: map[record.ID]state.Epoch{}}
	for _, e := range a.Epochs {
		g.chain[e.Nonce] = e
	}
	for _, t := range a.Topics() {
		for _, p := range t.Partitions {
			for i := range p.Ranges {
				if r := &p.Ranges[i]; r.Pack {
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
	switch {
	case on && e.Number == epoch && used:
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
	if n, ok := parseSnap(g.a.Shard, key); ok && n.pos.Less(g.a.Pos) {
		return Delete
	}
	return Keep
}

// judgeSlot: a slot below the snapshot that it does not reference.
func (g *Collector) judgeSlot(epoch uint32, nonce record.ID, slot uint64) Verdict {
	at := state.Position{Epoch: epoch, Slot: slot}
	switch {
	case bug(bugHigherEpoch) && epoch > g.a.Pos.Epoch:
		return AskHead
	case bug(bugAboveSnapshot) && epoch == g.a.Pos.Epoch && nonce == g.a.Nonce:
	case !at.Less(g.a.Pos):
		return Keep
	}
	e, on := g.chain[nonce]
	if on && e.Number != epoch {
		return Keep
	}
	if _, used := g.refs[slotRef{epoch, slot}]; on && used && !bug(bugReferenced) {
		return Keep
	}
	switch {
	case bug(bugSealCollected):
		return Delete
	case !on:
		return AskHead
	case epoch < g.a.Pos.Epoch && slot == e.Seal:
		return Keep // it is the SEAL
	case epoch == g.a.Pos.Epoch && slot < g.a.Pos.Slot, epoch < g.a.Pos.Epoch && slot < e.Seal:
		return Delete // between genesis and the SEAL of its epoch there is DATA only
	}
	return AskHead
}

// JudgeHead settles AskHead.
func (g *Collector) JudgeHead(h *record.Head) Verdict {
	if h.Kind == record.KindData {
		return Delete
	}
	return Keep
}
