package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Seen is the last committed position that a broker knows of from an earlier run, kept in its data folder.
type Seen struct {
	Cluster record.ID
	Epoch   uint32
	Nonce   record.ID // of the epoch
	Slot    uint64    // the next slot
	Highest int64     // the highest next offset of any partition
}

// Beyond says whether the position lies behind a state, or on another branch: the bucket then holds less than it did.
func (s *Seen) Beyond(st *state.State) bool {
	at := state.Position{Epoch: s.Epoch, Slot: s.Slot}
	if st.OnLostBranch(at) {
		return false // a recovery has accepted that
	}
	for _, e := range st.Epochs {
		if e.Number == s.Epoch && (e.Nonce != s.Nonce || e.Number < st.Pos.Epoch && s.Slot > e.Seal) { // what it saw lay in the SEAL's slot, or behind
			return true
		}
	}
	return st.Pos.Less(at)
}

// OlderCopyError says that the bucket holds less than the data folder knows of it.
type OlderCopyError struct {
	Seen    Seen
	Cluster record.ID // of the bucket
	Pos     state.Position
}

// Is makes it record.ErrCorrupt: acknowledged data is not there.
func (e *OlderCopyError) Is(target error) bool { return target == record.ErrCorrupt }

func (e *OlderCopyError) Error() string {
	if e.Cluster != e.Seen.Cluster {
		return fmt.Sprintf("the data folder knows log %s in this bucket up to epoch %d slot %d, and the bucket holds log %s: it was emptied, or is another one. If that is right: \"seb recover --accept-older-copy\"",
			e.Seen.Cluster, e.Seen.Epoch, e.Seen.Slot, e.Cluster)
	}
	return fmt.Sprintf("the data folder knows epoch %d slot %d of this log, and the bucket ends at epoch %d slot %d: it holds an older copy, or its newest objects are lost. Bring them back, or accept the loss: \"seb recover --accept-older-copy\"",
		e.Seen.Epoch, e.Seen.Slot, e.Pos.Epoch, e.Pos.Slot)
}
