package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
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
	// Here: the bucket at this address had the position. Otherwise it is that of a bucket at another
	// address.
	Here bool
}

// RestoredEpochs is how many epochs a restored copy of a log skips. So a copy is of a later generation of
// RestoredEpochs epochs than its original, which does not have to contain a position of the copy.
const RestoredEpochs = 1 << 16

// Concerns reports whether a position is evidence for a log: the bucket at this address had it, or it is of
// the same log at another address and not of a restored copy.
func (s *Seen) Concerns(st *state.State) bool {
	return s.Here || s.Cluster == st.Cluster && s.Epoch/RestoredEpochs <= st.Pos.Epoch/RestoredEpochs
}

// Older returns a position that a log does not reach, nil if there is none. A position of another address
// counts if it is of the same log: the bucket was moved, or its address is written in another way.
func Older(known []Seen, st *state.State) *Seen {
	for i := range known {
		if s := &known[i]; s.Concerns(st) && (s.Cluster != st.Cluster || s.Beyond(st)) {
			return s
		}
	}
	return nil
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
