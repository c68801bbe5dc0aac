package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Seen is the last committed position that an earlier run of a broker knew, kept in its data
// directory.
type Seen struct {
	Cluster record.ID
	Epoch   uint32
	Nonce   record.ID // of the epoch
	Slot    uint64    // the next slot
	Highest int64     // the highest next offset of any partition
}

// Beyond reports whether the position lies behind a state, or on another branch: the bucket then
// holds less than it did.
func (s *Seen) Beyond(st *state.State) bool {
	at := state.Position{Epoch: s.Epoch, Slot: s.Slot}
	if st.OnLostBranch(at) {
		return false // a recovery has accepted the loss
	}
	for _, e := range st.Epochs {
		// at or behind a SEAL
		if e.Number == s.Epoch && (e.Nonce != s.Nonce || e.Number < st.Pos.Epoch && s.Slot > e.Seal) {
			return true
		}
	}
	return st.Pos.Less(at)
}

// OlderCopyError: the bucket holds less of the log than the data directory has seen.
type OlderCopyError struct {
	Seen    Seen
	Cluster record.ID // of the bucket
	Pos     state.Position
}

// Is reports whether target is record.ErrCorrupt, because acknowledged data is missing.
func (e *OlderCopyError) Is(target error) bool { return target == record.ErrCorrupt }

func (e *OlderCopyError) Error() string {
	if e.Cluster != e.Seen.Cluster {
		return fmt.Sprintf("data directory has seen log %s up to epoch %d slot %d, but the bucket holds log %s: it was emptied or is another bucket; to accept that: \"seb recover --accept-older-copy\"",
			e.Seen.Cluster, e.Seen.Epoch, e.Seen.Slot, e.Cluster)
	}
	return fmt.Sprintf("data directory has seen epoch %d slot %d, but the bucket ends at epoch %d slot %d: it is an older copy or has lost its newest objects; restore them, or accept the loss: \"seb recover --accept-older-copy\"",
		e.Seen.Epoch, e.Seen.Slot, e.Pos.Epoch, e.Pos.Slot)
}
