package state

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// AbortedTransaction is an aborted transaction in a partition: of the batches of Producer, those from First to
// its marker at Last.
type AbortedTransaction struct{ Producer, First, Last int64 }

// AbortedIn returns the aborted transactions with batches in offsets [from, to), by first offset.
func (p *Partition) AbortedIn(from, to int64) []AbortedTransaction {
	// Ascending by Last.
	i, _ := slices.BinarySearchFunc(p.Aborted, from, func(a AbortedTransaction, from int64) int { return cmp.Compare(a.Last, from) })
	var list []AbortedTransaction
	for i < len(p.Aborted) {
		if block := i / abortedBlock; i%abortedBlock == 0 && block < len(p.firsts) && p.firsts[block] >= to {
			i += abortedBlock
			continue
		}
		if p.Aborted[i].First < to {
			list = append(list, p.Aborted[i])
		}
		i++
	}
	sorting.Sort(list, func(a, b AbortedTransaction) int { return cmp.Compare(a.First, b.First) })
	return list
}

// abortedBlock is how many aborted transactions AbortedIn passes at once.
const abortedBlock = 64

// indexAborted completes firsts after aborted transactions were added.
func (p *Partition) indexAborted() {
	for n := len(p.firsts) * abortedBlock; n+abortedBlock <= len(p.Aborted); n += abortedBlock {
		first := p.Aborted[n].First
		for _, a := range p.Aborted[n : n+abortedBlock] {
			first = min(first, a.First)
		}
		p.firsts = append(p.firsts, first)
	}
}

// forgetAborted drops the aborted transactions of which no offset is at or above from. The caller counts them.
func (p *Partition) forgetAborted(from int64) {
	n := 0
	for n < len(p.Aborted) && p.Aborted[n].Last < from {
		n++
	}
	if n > 0 {
		p.Aborted, p.firsts = slices.Clone(p.Aborted[n:]), nil
		p.indexAborted()
	}
}

// Aborted is the number of aborted transactions that a committed state knows, over all partitions.
func (s *State) Aborted() int { return s.tally.aborted }
