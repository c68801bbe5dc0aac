package logcore

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/internal/planted"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// plantedBug is a mistake that brokers of this kind were shipped with, to be found by the simulator's invariants.
type plantedBug string

const (
	bugAckOnTimeout      plantedBug = "ack on timeout"
	bugConflictExists    plantedBug = "409 read as exists"
	bugExistsForeign     plantedBug = "412 read as foreign"
	bugIdentityFirst     plantedBug = "412 judged by identity before kind"
	bugAckOutOfOrder     plantedBug = "acks out of order"
	bugCountedWindow     plantedBug = "K counted instead of windowed"
	bugBytesChange       plantedBug = "bytes of a slot change on retry"
	bugNonceTwoSlots     plantedBug = "SEAL nonce used for two slots"
	bugGenesisRace       plantedBug = "genesis by two racers"
	bugNonceTwoRuns      plantedBug = "one nonce for two runs"
	bugSnapshotsBySlot   plantedBug = "snapshots ordered by slot across epochs"
	bugNoValidation      plantedBug = "no validation after the seal"
	bugServeOverlay      plantedBug = "expected offset answered from an uncommitted slot"
	bugUnknownIsRejected plantedBug = "fenced answers rejected for what was sent"
	bugNoDedup           plantedBug = "no dedup"
	bugDedupCommitted    plantedBug = "no dedup inside a pending object"
	bugDuplicateEarly    plantedBug = "duplicate acknowledged before its original is durable"
	bugOffsetEarly       plantedBug = "offset commit acknowledged before it is durable"
	bugSealCollected     plantedBug = "seal collected"
	bugAboveSnapshot     plantedBug = "slot deleted above the snapshot"
	bugReferenced        plantedBug = "slot deleted that the snapshot still points at"
	bugHigherEpoch       plantedBug = "a zombie's sweep touches a higher epoch"
	bugEarlySnapshot     plantedBug = "snapshot written before R5 (4)"
	bugBelievesMissing   plantedBug = "a reader believes a missing slot"
	bugEndUnproven       plantedBug = "the end of the log is not proven"
	bugBranchCollected   plantedBug = "objects of a lost branch are collected"
	bugGarbageStays      plantedBug = "garbage stays on an idle log"
	bugStampWall         plantedBug = "records stamped with the clock instead of the append time"
	bugStampCommitted    plantedBug = "records stamped as the committed settings say"
	bugResetIgnored      plantedBug = "append times go on from the latest after a time reset"
)

func bug(b plantedBug) bool { return planted.On(string(b)) }

// PlantedBugs lists the names that Plant knows.
func PlantedBugs() []string {
	return []string{
		string(bugAckOnTimeout), string(bugConflictExists), string(bugExistsForeign), string(bugIdentityFirst),
		string(bugAckOutOfOrder), string(bugCountedWindow), string(bugBytesChange), string(bugNonceTwoSlots),
		string(bugGenesisRace), string(bugNonceTwoRuns), string(bugSnapshotsBySlot), string(bugNoValidation),
		string(bugServeOverlay), string(bugUnknownIsRejected),
		string(bugNoDedup), string(bugDedupCommitted), string(bugDuplicateEarly), string(bugOffsetEarly),
		string(bugSealCollected), string(bugAboveSnapshot), string(bugReferenced), string(bugHigherEpoch),
		string(bugEarlySnapshot), string(bugBelievesMissing), string(bugEndUnproven), string(bugBranchCollected), string(bugGarbageStays), string(bugStampWall),
		string(bugStampCommitted), state.BugProducersTrimmed,
	}
}

// PlantedBugsOfLosses lists those that do no harm while nothing is lost.
func PlantedBugsOfLosses() []string {
	return []string{string(bugEndUnproven), string(bugBranchCollected)}
}

// PlantedBugsOfClocks lists those that do no harm while no clock is wrong.
func PlantedBugsOfClocks() []string { return []string{string(bugResetIgnored)} }

func sortBySlot(names []snapName) {
	slices.SortStableFunc(names, func(a, b snapName) int { return cmp.Compare(b.pos.Slot, a.pos.Slot) })
}

// sharedNonce is what a nonce that is not fresh would look like.
func sharedNonce(cluster record.ID, epoch uint32) record.ID {
	n := cluster
	n[0], n[1] = byte(epoch), byte(epoch>>8)
	return n
}
