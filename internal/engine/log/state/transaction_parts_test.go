package state_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// txLog is a log at the newest level with a topic of two partitions, and transactional IDs.
type txLog struct{ *log }

func newTxLog(t testing.TB, ids ...string) *txLog {
	l := &txLog{newLog(t)}
	recs := []state.Record{state.RaiseTo(state.LevelMax), create(1, "a", 2)}
	for i, id := range ids {
		recs = append(recs, update(id, state.TransactionChange{Kind: state.TransactionInit, Producer: state.ProducerEpoch{ID: int64(i)}}))
	}
	l.must(recs)
	return l
}

func update(id string, c state.TransactionChange) state.Record {
	return state.Record{Kind: state.TransactionUpdate, Name: id, Transaction: &c}
}

func (l *txLog) partition(i int) *state.Partition {
	return l.s.Topic(record.ID{1}).Partitions.At(i)
}

// send writes a batch of three records of the transaction of an ID.
func (l *txLog) send(id string, part uint32) {
	l.t.Helper()
	base := l.partition(int(part)).Next
	r := state.Record{
		Kind: state.ProducerAppend, Topic: record.ID{1}, Partition: part, Offset: base, Transactional: true,
		Producer: state.ProducerBatch{ID: l.s.Transaction(id).Producer, Span: 3},
	}
	l.must([]state.Record{r}, entry(1, part, base, 3))
}

// end ends the transactions of IDs in one slot.
func (l *txLog) end(kind state.TransactionKind, ids ...string) {
	l.t.Helper()
	var recs []state.Record
	index := map[uint32]*record.IndexEntry{}
	for _, id := range ids {
		c := state.TransactionChange{Kind: kind, Producer: l.s.Transaction(id).Now()}
		for _, part := range l.s.Transaction(id).Parts {
			e := index[part.Partition]
			if e == nil {
				e = new(entry(1, part.Partition, l.partition(int(part.Partition)).Next, 0))
				index[part.Partition] = e
			}
			c.Marks = append(c.Marks, state.TransactionMark{PartitionID: part.PartitionID, Offset: e.Base + int64(e.Span)})
			e.Span++
			e.Len += record.MarkerSize
		}
		recs = append(recs, update(id, c))
	}
	var entries []record.IndexEntry
	for _, part := range slices.Sorted(maps.Keys(index)) {
		entries = append(entries, *index[part])
	}
	l.must(recs, entries...)
}

// trim trims a partition of the topic.
func (l *txLog) trim(part uint32, to int64) {
	l.t.Helper()
	l.must([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{1}, Partition: part, Offset: to}})
}

// same checks that the state is well formed, and that its snapshot restores it.
func (l *txLog) same() {
	l.t.Helper()
	wellFormed(l.t, l.s)
	must.Equal(l.t, transactionsOf(l.s.Catalog()), transactionsOf(l.s))
	message := state.EncodeMessage(l.s)
	back := must.Get(state.DecodeMessage(message))(l.t)
	wellFormed(l.t, back)
	if !bytes.Equal(state.EncodeMessage(back), message) {
		l.t.Fatal("decoding gives another state")
	}
	must.Equal(l.t, transactionsOf(back), transactionsOf(l.s))
	l.s = back
}

// want checks a partition, also of the restored state.
func (l *txLog) want(part int, stable int64, aborted ...state.AbortedTransaction) {
	l.t.Helper()
	l.same()
	p := l.partition(part)
	must.Equalf(l.t, p.LastStable(), stable, "last stable offset of partition %d", part)
	must.EqualSlicesf(l.t, p.Aborted, aborted, "aborted transactions of partition %d", part)
}

// TestTransactionsInPartitions checks what partitions know of transactions of two producers that take turns.
func TestTransactionsInPartitions(t *testing.T) {
	l := newTxLog(t, "x", "y")
	l.must(nil, entry(1, 0, 0, 5))
	l.send("x", 0) // 5 to 7
	l.send("y", 0) // 8 to 10
	l.send("x", 1)
	l.want(0, 5)
	l.end(state.TransactionAbort, "y") // 11
	l.want(0, 5, state.AbortedTransaction{Producer: 1, First: 8, Last: 11})
	l.send("y", 0)                      // 12 to 14
	l.end(state.TransactionCommit, "x") // 15
	l.want(0, 12, state.AbortedTransaction{Producer: 1, First: 8, Last: 11})
	l.want(1, 4)
	l.send("x", 0)                          // 16 to 18
	l.end(state.TransactionAbort, "y", "x") // 19, 20
	x, y := state.AbortedTransaction{Producer: 0, First: 16, Last: 20}, state.AbortedTransaction{Producer: 1, First: 12, Last: 19}
	l.want(0, 21, state.AbortedTransaction{Producer: 1, First: 8, Last: 11}, y, x)
	must.EqualSlicesf(t, l.partition(0).AbortedIn(11, 12), []state.AbortedTransaction{{Producer: 1, First: 8, Last: 11}}, "up to its marker")
	must.EqualSlicesf(t, l.partition(0).AbortedIn(12, 16), []state.AbortedTransaction{y}, "by first offset")
	must.EqualSlicesf(t, l.partition(0).AbortedIn(19, 30), []state.AbortedTransaction{y, x}, "by first offset")

	l.must([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{1}, Clean: state.Compaction{To: 19}}})
	l.want(0, 21, y, x)
	l.must([]state.Record{{Kind: state.CompactionDone, Topic: record.ID{1}, Clean: state.Compaction{To: 20}}})
	l.want(0, 21, x)
	l.trim(0, 20)
	l.want(0, 21, x)
	l.trim(0, 21)
	l.want(0, 21)
	must.Equal(t, l.s.Aborted(), 0)
}

// TestTrimPassesOpenTransactions: the last stable offset is never below the start offset, and a transaction ends
// as it should whose batches are trimmed.
func TestTrimPassesOpenTransactions(t *testing.T) {
	for _, kind := range []state.TransactionKind{state.TransactionCommit, state.TransactionAbort} {
		l := newTxLog(t, "x")
		l.send("x", 0)
		l.send("x", 0)
		l.trim(0, 4)
		l.want(0, 4)
		l.trim(0, 6)
		l.want(0, 6)
		l.send("x", 0)
		l.want(0, 6)
		if l.end(kind, "x"); kind == state.TransactionCommit {
			l.want(0, 10)
		} else {
			l.want(0, 10, state.AbortedTransaction{First: 0, Last: 9})
		}
		l.send("x", 0)
		l.trim(0, 13)
		l.must([]state.Record{update("x", state.TransactionChange{Kind: state.TransactionForget})})
		l.want(0, 13)
	}
}

// TestTopicOfOpenTransactionIsDeleted: the transaction has its other partitions and offsets.
func TestTopicOfOpenTransactionIsDeleted(t *testing.T) {
	l := newTxLog(t, "x")
	l.must([]state.Record{create(2, "b", 1)})
	l.send("x", 0)
	staged := func(topic byte) state.StagedOffset {
		return state.StagedOffset{Group: "g", PartitionID: state.PartitionID{Topic: record.ID{topic}}, Offset: 7}
	}
	l.must([]state.Record{update("x", state.TransactionChange{Kind: state.TransactionOffsets, Offsets: []state.StagedOffset{staged(1), staged(2)}})})
	l.must([]state.Record{{Kind: state.TopicDelete, Topic: record.ID{1}}})
	l.same()
	x := l.s.Transaction("x")
	must.Equal(t, len(x.Parts), 0)
	must.EqualSlicesf(t, x.Offsets, []state.StagedOffset{staged(2)}, "offsets")
	must.Equal(t, x.Open(), true)
	l.end(state.TransactionCommit, "x")
	l.same()
	must.Equal(t, len(l.s.Group("g").Offsets), 1)
}

// TestSnapshotOfLowerLevelHasNoTransactions checks that forged ones are refused.
func TestSnapshotOfLowerLevelHasNoTransactions(t *testing.T) {
	for name, forge := range map[string]func(l *txLog){
		"an ID": func(*txLog) {},
		"an aborted transaction": func(l *txLog) {
			l.send("x", 0)
			l.must([]state.Record{update("x", state.TransactionChange{Kind: state.TransactionForget})})
		},
		"a first transaction": func(l *txLog) {
			l.send("x", 0)
			l.end(state.TransactionCommit, "x")
			l.must([]state.Record{update("x", state.TransactionChange{Kind: state.TransactionForget})})
		},
	} {
		l := newTxLog(t, "x")
		forge(l)
		l.s.Level--
		must.Error(t, check.Err(state.DecodeMessage(state.EncodeMessage(l.s))), "%s below its level", name)
	}
}

// TestForgedMarks: a log whose marks go back, or are not in their transaction, gives a state that a snapshot restores.
func TestForgedMarks(t *testing.T) {
	for i, offset := range []int64{0, 4, 1 << 60, 0, 4, 10, 1 << 60, 1<<63 - 1} {
		l := newTxLog(t, "x", "y", "open")
		if i > 2 {
			l.queue()
		}
		l.send("open", 0)
		for _, id := range []string{"x", "y"} {
			l.send(id, 0)
			l.end(state.TransactionAbort, id)
		}
		l.send("x", 0)
		at := state.PartitionID{Topic: record.ID{1}}
		l.must([]state.Record{update("x", state.TransactionChange{Kind: state.TransactionAbort, Marks: []state.TransactionMark{{PartitionID: at, Offset: offset}}})})
		l.send("x", 0)
		l.end(state.TransactionAbort, "x")
		message := state.EncodeMessage(l.s)
		back := must.Get(state.DecodeMessage(message))(t)
		must.EqualSlicesf(t, state.EncodeMessage(back), message, "the state of a snapshot, with a mark at %d", offset)
		must.Equal(t, len(l.partition(0).AbortedIn(0, 100)), 4)
	}
}

// queue makes the topic a queue.
func (l *txLog) queue() {
	l.t.Helper()
	l.must([]state.Record{{Kind: state.TopicChange, Topic: record.ID{1}, Settings: map[string]string{state.QueueSetting: "{}"}}})
}

// TestTransactionsInAQueue: the messages of a transaction are held back until its end, also over a snapshot, and take
// memory that is bounded.
func TestTransactionsInAQueue(t *testing.T) {
	l := newTxLog(t, "x", "y")
	l.queue()
	l.send("x", 0)
	l.send("y", 0)
	l.send("x", 0)
	l.send("y", 1)
	l.end(state.TransactionCommit, "x")
	l.s = must.Get(state.DecodeMessage(state.EncodeMessage(l.s.View())))(t)
	states := func() (list []state.QueueState) {
		for offset := range l.partition(0).Next {
			list = append(list, l.partition(0).QueueOf().Of(offset).State)
		}
		return list
	}
	const open, done = state.QueueUncommitted, state.QueueDone
	check.Equal(t, slices.Equal(states(), []state.QueueState{0, 0, 0, open, open, open, 0, 0, 0, done}), true)
	l.end(state.TransactionAbort, "y")
	check.Equal(t, slices.Equal(states(), []state.QueueState{0, 0, 0, done, done, done, 0, 0, 0, done, done}), true)

	id := state.PartitionID{Topic: record.ID{1}}
	c := l.s.Catalog()
	c.Room = state.Room{Max: 100, Queues: 76}
	full, _ := errors.AsType[*state.StateFullError](c.RefusesPart(0, id, 0))
	must.Equal(t, full != nil, true)
	check.Contains(t, full.Error(), "wait until delayed, retried and uncommitted messages of queues are done")
	check.ErrorIs(t, c.RefusesPart(0, state.PartitionID{Topic: record.ID{9}}, 0), state.ErrUnknownTopic)

	forged := state.Record{Kind: state.QueueUpdate, Topic: record.ID{1}, Queue: &state.QueueChange{Runs: []state.QueueRun{{Span: 1, State: open}}}}
	_, err := state.DecodeRecords(state.EncodeRecords(nil, []state.Record{forged}))
	check.Equalf(t, err != nil, true, "a queue update that holds a message back is refused")
}
