package state_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestAbortedIn: many transactions of several producers, some of them long, end in another order than they began. The
// list of a window is exactly those with offsets in it, also after a trim, a compaction and a restored snapshot.
func TestAbortedIn(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f"}
	l := newTxLog(t, ids...)
	rng := rand.New(rand.NewPCG(1, 2))
	checkAll := func(when string) {
		t.Helper()
		p := l.partition(0)
		for range 300 {
			from := p.Start + rng.Int64N(p.Next-p.Start)
			to := from + 1 + rng.Int64N(1<<rng.IntN(12))
			var want []state.AbortedTransaction
			for _, a := range p.Aborted {
				if a.First < to && a.Last >= from {
					want = append(want, a)
				}
			}
			slices.SortFunc(want, func(a, b state.AbortedTransaction) int { return cmp.Compare(a.First, b.First) })
			must.EqualSlicesf(t, p.AbortedIn(from, to), want, "%s: aborted transactions in [%d, %d)", when, from, to)
		}
	}
	write := func(n int) {
		for range n {
			i := rng.IntN(len(ids))
			l.send(ids[i], 0)
			if rng.IntN(1+i*i*i) == 0 { // the last ones are long
				kind := state.TransactionAbort
				if rng.IntN(8) == 0 {
					kind = state.TransactionCommit
				}
				l.end(kind, ids[i])
			}
		}
	}
	write(1500)
	checkAll("written")
	l.trim(0, l.partition(0).Next/7)
	checkAll("trimmed")
	write(300)
	checkAll("written after a trim")
	l.must([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{1}, Clean: state.Compaction{To: l.partition(0).Next / 3}}})
	checkAll("compacted")
	l.same() // continues with the decoded state
	checkAll("decoded")
	write(300)
	checkAll("written after a snapshot")
	if n := len(l.partition(0).Aborted); n < 300 {
		t.Errorf("%d aborted transactions: nothing was tested", n)
	}
}

// BenchmarkAbortedIn looks for the aborted transactions of a fetch of about 100 batches in a partition with as many
// as there may be.
func BenchmarkAbortedIn(b *testing.B) {
	l := newTxLog(b, "x")
	for range state.AbortedMax {
		l.send("x", 0)
		l.end(state.TransactionAbort, "x")
	}
	p := l.partition(0)
	for _, where := range []int64{0, 50, 99} {
		b.Run(fmt.Sprintf("at %d percent", where), func(b *testing.B) {
			from := p.Next / 100 * where
			for b.Loop() {
				p.AbortedIn(from, from+400)
			}
		})
	}
}

// BenchmarkStaged looks for the staged offsets of a group beside as many transactional IDs as there may be.
func BenchmarkStaged(b *testing.B) {
	var ids []string
	for i := range state.TransactionsMax {
		ids = append(ids, fmt.Sprint("id-", i))
	}
	for _, open := range []int{0, 1, len(ids)} {
		b.Run(fmt.Sprintf("%d open", open), func(b *testing.B) {
			l := newTxLog(b, ids...)
			for _, id := range ids[:open] {
				o := state.StagedOffset{Group: id, PartitionID: state.PartitionID{Topic: record.ID{1}}}
				l.must([]state.Record{update(id, state.TransactionChange{Kind: state.TransactionOffsets, Offsets: []state.StagedOffset{o}})})
			}
			for b.Loop() {
				l.s.Staged("id-0")
			}
		})
	}
}

// TestSizeOfAborted: an aborted transaction takes at most 20 bytes of a snapshot.
func TestSizeOfAborted(t *testing.T) {
	const transactions = 10_000
	size := func(kind state.TransactionKind) int {
		ids := []string{"a", "b", "c"}
		l := newTxLog(t, ids...)
		for i := range transactions {
			l.send(ids[i%len(ids)], 0)
			l.end(kind, ids[i%len(ids)])
		}
		return len(state.EncodeMessage(l.s.View()))
	}
	each := float64(size(state.TransactionAbort)-size(state.TransactionCommit)) / transactions
	t.Logf("%.1f bytes", each)
	must.Equal(t, each > 0 && each <= 20, true)
}
