package compact

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// A pass ends at the last stable offset, so that it knows the end of each transaction whose batches it reads.
// It removes all records of aborted transactions, whatever their keys, and the markers that no reader needs.
//
// A reader of committed records gets the aborted transactions of the state with each answer. It leaves out
// the batches of such a producer from the first offset on until it finds the marker of the abort. So
//   - a marker of an abort stays as long as the state has its transaction: without the marker, the reader
//     would leave out the committed batches of the producer that follow;
//   - the state has an aborted transaction as long as there are records of it.
//
// It takes two passes to remove both:
//
//	             records   transaction in the state   marker of the abort
//	               yes               yes                    yes
//	first pass      no               yes                    yes
//	  Done          no                no                    yes
//	second pass     no                no                     no
//
// A marker of a commit tells a reader nothing, so the first pass removes it. Otherwise the markers would keep the
// headers of empty batches apart that become one, and a partition with a few keys and many transactions would
// grow without end. A pass is never due for markers alone.

// abortedBy returns the aborted transactions of each producer, by last offset. The transactions of a producer do
// not overlap.
func abortedBy(list []state.AbortedTransaction) map[int64][]state.AbortedTransaction {
	if len(list) == 0 {
		return nil
	}
	by := map[int64][]state.AbortedTransaction{}
	for _, a := range list {
		by[a.Producer] = append(by[a.Producer], a)
	}
	return by
}

// Drops reports whether a batch of a run loses everything: all records, because their transaction was aborted,
// or its marker.
func (c *Compaction) Drops(run *Run, b record.Batch) bool {
	if !b.Transactional() {
		return false
	}
	list, at := run.part.aborted[b.ProducerID()], b.BaseOffset()
	i, _ := slices.BinarySearchFunc(list, at, func(a state.AbortedTransaction, at int64) int { return cmp.Compare(a.Last, at) })
	aborted := i < len(list) && list[i].First <= at
	return aborted != b.Control()
}
