package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// producerOf returns the ID of a producer that may have a transactional ID.
func producerOf(src *sebtest.Source) int64 { return 10 + int64(src.Int(4)) }

// transacted adds random records about transactional IDs, and the markers of ends, to a slot that a catalog accepts.
func transacted(src *sebtest.Source, c *state.State, recs []state.Record, index []record.IndexEntry) ([]state.Record, []record.IndexEntry) {
	if c.Level < state.LevelTransactions {
		return recs, index
	}
	for range src.Int(3) {
		r := state.Record{Kind: state.TransactionUpdate, Name: sebtest.Pick(src, "x", "y"), Transaction: &state.TransactionChange{
			Kind:     sebtest.Pick(src, state.TransactionInit, state.TransactionOffsets, state.TransactionCommit, state.TransactionAbort, state.TransactionForget),
			Producer: state.ProducerEpoch{ID: producerOf(src), Epoch: int16(src.Int(3))}, Forced: src.Bool(), Recovers: src.Bool(), Timeout: uint32(src.Byte()),
		}}
		t, x := c.Transaction(r.Name), r.Transaction
		if other := c.TransactionOf(x.Producer.ID); other != nil && other != t {
			continue // no two have one producer
		}
		switch x.Kind {
		case state.TransactionInit:
			if t != nil && t.Open() {
				continue
			}
		case state.TransactionOffsets:
			x.Offsets = []state.StagedOffset{{
				Group: sebtest.Pick(src, "g", "h"), PartitionID: state.PartitionID{Topic: topicOf(src, c), Partition: uint32(src.Int(3))},
				Offset: int64(src.Byte()) - 3, Metadata: string(src.Bytes(2)),
			}}
		case state.TransactionForget:
			if t != nil && t.Open() {
				continue
			}
		default:
			if t != nil {
				index = marked(c, t, x, index)
			}
		}
		if t == nil && x.Kind != state.TransactionInit || c.Propose(&r) != nil {
			continue
		}
		recs = append(recs, r)
	}
	return recs, index
}

// marked adds the markers of a transaction that ends.
func marked(c *state.State, t *state.Transaction, x *state.TransactionChange, index []record.IndexEntry) []record.IndexEntry {
	for _, part := range t.Parts {
		m := state.TransactionMark{PartitionID: part.PartitionID, Offset: c.ReserveMark(part.PartitionID)}
		x.Marks = append(x.Marks, m)
		i := slices.IndexFunc(index, func(e record.IndexEntry) bool { return e.Topic == m.Topic && e.Partition == m.Partition })
		if i < 0 {
			i = len(index)
			e := entry(0, m.Partition, m.Offset, 0)
			e.Topic = m.Topic
			index = append(index, e)
		}
		index[i].Span++
		index[i].Len += 78
	}
	return index
}

// sealOrLose begins an epoch, or accepts a loss that may have had a few more offsets.
func (l *log) sealOrLose(src *sebtest.Source) {
	l.t.Helper()
	if l.s.Level < state.LevelTransactions || src.Int(4) > 0 {
		l.seal(1 + src.Byte())
		return
	}
	h := l.head(record.KindSeal)
	h.NextEpoch, h.NextNonce, h.Flags = h.Epoch+2, record.ID{1 + src.Byte(), 1}, record.FlagRecovery
	loss := &state.Loss{LastEpoch: h.Epoch + 1}
	for _, t := range l.s.Topics() {
		loss.Next = append(loss.Next, state.LostOffsets{Topic: t.ID, Next: int64(src.Int(30))})
	}
	must.NoError(l.t, l.apply(&h, []state.Record{{Kind: state.LossAccepted, Loss: loss}}, nil))
}

// transactionsOf is the transactions of a state as a text.
func transactionsOf(s *state.State) string {
	var b bytes.Buffer
	for _, t := range s.Transactions() {
		fmt.Fprintln(&b, t.ID, t.Now(), t.Was, t.Timeout, t.Changed, t.Started, t.Ended, t.Parts, t.Offsets, s.TransactionOf(t.Producer) == t)
	}
	return b.String()
}

// wellFormedTransactions checks what a partition knows of transactions.
func wellFormedTransactions(t testing.TB, s *state.State, id state.PartitionID, p *state.Partition) {
	t.Helper()
	var open []state.OpenTransaction
	stable := p.Next
	for _, x := range s.Transactions() {
		for _, part := range x.Parts {
			if part.PartitionID == id {
				open = append(open, state.OpenTransaction{Producer: x.Producer, First: part.First})
				stable = min(stable, part.First)
			}
		}
	}
	slices.SortFunc(open, func(a, b state.OpenTransaction) int { return int(a.First - b.First) })
	if !slices.Equal(open, p.Open) || p.LastStable() != max(stable, p.Start) {
		t.Fatalf("%v: open transactions %v, last stable offset %d, want %v and %d", id, p.Open, p.LastStable(), open, stable)
	}
	last := p.Start
	for _, a := range p.Aborted {
		if a.Last < last || a.First > a.Last || a.Last >= p.Next || p.Transactional == 0 || a.First < p.Transactional-1 {
			t.Fatalf("%v: aborted transactions %+v in [%d, %d), the first transaction is at %d", id, p.Aborted, p.Start, p.Next, p.Transactional-1)
		}
		last = a.Last
	}
}

func initialized(id string, producer int64, epoch int16) state.Record {
	return state.Record{Kind: state.TransactionUpdate, Name: id, Transaction: &state.TransactionChange{
		Kind: state.TransactionInit, Producer: state.ProducerEpoch{ID: producer, Epoch: epoch}, Timeout: 1000,
	}}
}

func batchOf(producer, offset int64) state.Record {
	return state.Record{
		Kind: state.ProducerAppend, Topic: record.ID{1}, Offset: offset, Owner: 1, Transactional: true,
		Producer: state.ProducerBatch{ID: producer, Span: 1},
	}
}

// stagedBy stages two offsets in the transaction of an ID.
func stagedBy(id string) state.Record {
	at := state.PartitionID{Topic: record.ID{1}}
	return state.Record{Kind: state.TransactionUpdate, Name: id, Transaction: &state.TransactionChange{
		Kind: state.TransactionOffsets, Producer: state.ProducerEpoch{ID: 10},
		Offsets: []state.StagedOffset{{Group: "g", PartitionID: at, Offset: 7, Metadata: "m"}, {Group: "h", PartitionID: at, Offset: -1}},
	}}
}

// aborted aborts the transaction of an ID, with a marker at an offset.
func aborted(id string, at int64) state.Record {
	return state.Record{Kind: state.TransactionUpdate, Name: id, Transaction: &state.TransactionChange{
		Kind: state.TransactionAbort, Producer: state.ProducerEpoch{ID: 10, Epoch: 1}, Forced: true,
		Marks: []state.TransactionMark{{PartitionID: state.PartitionID{Topic: record.ID{1}}, Offset: at}},
	}}
}

// transactional is a log with an open and an aborted transaction.
func transactional(t testing.TB) *log {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "a", 1), initialized("x", 10, 0), initialized("y", 11, 0)})
	l.must([]state.Record{batchOf(10, 0)}, entry(1, 0, 0, 1))
	l.must([]state.Record{batchOf(11, 1), stagedBy("y")}, entry(1, 0, 1, 1))
	l.must([]state.Record{aborted("x", 2)}, entry(1, 0, 2, 1))
	return l
}

// TestLossAbortsTransactions checks that a loss aborts what is open, and that no producer continues: the lost
// branch may have ended its transaction and given it another epoch.
func TestLossAbortsTransactions(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "a", 1), initialized("x", 10, 0), initialized("y", 11, 0), initialized("z", 12, 0)})
	l.must([]state.Record{batchOf(10, 0)}, entry(1, 0, 0, 1))
	l.must([]state.Record{batchOf(11, 1)}, entry(1, 0, 1, 1))
	h := l.head(record.KindSeal)
	h.NextEpoch, h.NextNonce, h.Flags = h.Epoch+1, record.ID{7}, record.FlagRecovery
	loss := &state.Loss{LastEpoch: h.Epoch, Next: []state.LostOffsets{{Topic: record.ID{1}, Next: 5}}}
	must.NoError(t, l.s.Apply(&h, []state.Record{{Kind: state.LossAccepted, Loss: loss}}, nil))

	p := l.s.TopicByName("a").Partitions.At(0)
	check.Equal(t, p.LastStable(), 5)
	check.EqualSlices(t, p.Aborted, []state.AbortedTransaction{{Producer: 10, First: 0, Last: 4}, {Producer: 11, First: 1, Last: 4}})
	back := must.Get(state.DecodeMessage(state.EncodeMessage(l.s)))(t)
	for _, s := range []*state.State{l.s, back} {
		for _, x := range s.Transactions() {
			check.Equalf(t, x.Now(), state.ProducerEpoch{ID: -1}, "producer of %s", x.ID)
			check.Equalf(t, x.Was, state.ProducerEpoch{ID: -1}, "earlier producer of %s", x.ID)
		}
		check.Equal(t, s.TransactionOf(12), nil)
		check.Equal(t, s.TransactionOf(-1), nil)
	}
	check.Equal(t, transactionsOf(back), transactionsOf(l.s))
	wellFormed(t, l.s)
}

// TestTrimForgetsAborted checks that a trim drops what it passes, and counts it once.
func TestTrimForgetsAborted(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "a", 1), initialized("x", 10, 0)})
	for i := int64(0); i < 10; i += 2 {
		l.must([]state.Record{batchOf(10, i)}, entry(1, 0, i, 1))
		l.must([]state.Record{{Kind: state.TransactionUpdate, Name: "x", Transaction: &state.TransactionChange{
			Kind: state.TransactionAbort, Producer: state.ProducerEpoch{ID: 10},
			Marks: []state.TransactionMark{{PartitionID: state.PartitionID{Topic: record.ID{1}}, Offset: i + 1}},
		}}}, entry(1, 0, i+1, 1))
	}
	check.Equal(t, l.s.Aborted(), 5)
	for _, c := range []struct{ to, left int64 }{{1, 5}, {2, 4}, {7, 2}, {8, 1}} {
		l.must([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{1}, Offset: c.to}})
		check.Equalf(t, l.s.Aborted(), int(c.left), "after a trim to %d", c.to)
		wellFormed(t, l.s)
	}
	l.must([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{1}, Clean: state.Compaction{To: 10}}})
	check.Equal(t, l.s.Aborted(), 0)
	wellFormed(t, l.s)
}
