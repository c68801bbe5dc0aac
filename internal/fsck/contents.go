package fsck

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/localdb/snapshot"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// contents is the set of object names that a copy at a state holds.
type contents struct {
	shard  uint32
	st     *state.State
	epochs map[record.ID]bool // epochs that the state knows, by nonce
	must   map[string]bool    // slots and packs with records
	may    map[string]bool    // SEALs and copies of views, if they exist
}

// contentsAt returns the contents at a state. views lists the copies of views in the store.
func contentsAt(st *state.State, views []snapshot.Found) *contents {
	n := &contents{st.Shard, st, map[record.ID]bool{}, map[string]bool{}, map[string]bool{}}
	for _, t := range st.Topics() {
		for _, p := range t.Partitions.Written() {
			for i := range p.Ranges {
				if r := &p.Ranges[i]; !r.Lost() {
					n.must[st.RangeKey(r)] = true
				}
			}
		}
	}
	for _, e := range st.Epochs {
		n.epochs[e.Nonce] = true
		if e.Nonce != st.Nonce {
			n.may[state.SlotKey(st.Shard, e.Number, e.Nonce, e.Seal)] = true
			n.may[state.RecoveryKey(st.Shard, e.Number, e.Nonce, e.Seal)] = true
		}
	}
	for _, f := range viewsAt(st, views) {
		for _, key := range f.Keys {
			n.may[key] = true
		}
	}
	return n
}

// forgotten reports whether key is a slot of an earlier epoch that the state does not know (rule
// R12). A copy holds the SEALs among these slots. They link epoch 0 to the epochs that the state
// knows.
func (n *contents) forgotten(key string) bool {
	s, ok := parseSlot(n.shard, key)
	return ok && s.epoch < n.st.Pos.Epoch && !n.epochs[s.nonce] && !n.st.OnLostBranch(s.pos())
}

func (n *contents) holds(key string) bool { return n.must[key] || n.may[key] || n.forgotten(key) }

// before reports whether an object was written before the state, so that a later state needs it only
// if this one does.
func (n *contents) before(key string) bool {
	if s, ok := parseSlot(n.shard, strings.TrimSuffix(key, state.RecoverySuffix)); ok {
		return s.pos().Less(n.st.Pos)
	}
	if p, ok := parsePack(n.shard, key); ok {
		_, installed := n.st.PackOf(state.PackID{Epoch: p.epoch, ID: p.slot})
		return p.epoch < n.st.Pos.Epoch || installed
	}
	at, ok := state.ParseViewPosition(n.shard, key)
	return ok && at.Less(n.st.Pos)
}

// viewsAt returns the newest complete copy of each view that is not ahead of a state. In all, the
// newest copy of a view comes first.
func viewsAt(st *state.State, all []snapshot.Found) (found []snapshot.Found) {
	for _, f := range all {
		on := slices.ContainsFunc(st.Epochs, func(e state.Epoch) bool { return e.Number == f.Epoch && e.Nonce == f.Nonce })
		newer := slices.ContainsFunc(found, func(o snapshot.Found) bool { return o.View == f.View })
		if f.Complete && on && !newer && !st.Pos.Less(f.Position) {
			found = append(found, f)
		}
	}
	return found
}
