package queuesim

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// transaction is the newest transaction of a transactional ID, with what is in flight.
type transaction struct {
	number int          // of the ID's transactions
	parts  map[int]bool // partitions with messages of it
}

const transactions = 2

func (w *world) producer(id int) state.ProducerEpoch {
	return state.ProducerEpoch{ID: int64(100 + id), Epoch: int16(w.open[id].number)}
}

func (w *world) transact(id int, change *state.TransactionChange) state.Record {
	return state.Record{Kind: state.TransactionUpdate, Name: fmt.Sprint("t", id), Transaction: change}
}

// begin gives all transactional IDs to their producers.
func (w *world) begin() {
	for id := range w.open {
		w.open[id].parts = map[int]bool{}
		w.slot(&slot{records: []state.Record{w.transact(id, &state.TransactionChange{Kind: state.TransactionInit, Producer: w.producer(id), Timeout: 1000})}})
		w.commit()
	}
}

// sendIn returns the record of a batch of messages in a transaction.
func (w *world) sendIn(id, p, n int, base int64) state.Record {
	t, now := &w.open[id], w.producer(id)
	t.parts[p] = true
	for _, m := range w.messages[p][base:] {
		m.in, m.number = id+1, t.number
	}
	return state.Record{
		Kind: state.ProducerAppend, Topic: record.ID{topicByte}, Partition: uint32(p), Offset: base, Transactional: true,
		Producer: state.ProducerBatch{ID: now.ID, Epoch: now.Epoch, Span: uint32(n)},
	}
}

// end ends a transaction, in one slot with its markers.
func (w *world) end(id int) {
	t := &w.open[id]
	if len(t.parts) == 0 {
		return
	}
	change := &state.TransactionChange{Kind: state.TransactionCommit}
	if w.r.IntN(2) == 0 {
		change.Kind = state.TransactionAbort
	}
	s := w.freeze()
	number, was := t.number, w.producer(id)
	for p := range w.messages {
		if t.parts[p] {
			change.Marks = append(change.Marks, state.TransactionMark{PartitionID: state.PartitionID{Topic: record.ID{topicByte}, Partition: uint32(p)}, Offset: w.next[p]})
			s.index = append(s.index, record.IndexEntry{Topic: record.ID{topicByte}, Partition: uint32(p), Base: w.next[p], Span: 1, Len: record.MarkerSize})
			w.messages[p] = append(w.messages[p], &told{over: true})
			w.next[p]++
		}
	}
	t.number, t.parts = number+1, map[int]bool{}
	if change.Producer = w.producer(id); w.r.IntN(2) == 0 {
		change.Producer = was // version 1
	}
	s.records = append(s.records, w.transact(id, change))
	s.always = func() {
		for p := range w.messages {
			for _, m := range w.messages[p] {
				if m.in == id+1 && m.number == number {
					m.in = 0
					m.over = m.over || change.Kind == state.TransactionAbort
				}
			}
		}
	}
}

// reopened forgets what a takeover has lost of transactions.
func (w *world) reopened() {
	for id := range w.open {
		t, known := &w.open[id], w.log.Transaction(fmt.Sprint("t", id))
		t.parts = map[int]bool{}
		for _, part := range known.Parts {
			t.parts[int(part.Partition)] = true
		}
		for p := range w.messages {
			for _, m := range w.messages[p] {
				if m.in == id+1 {
					t.number = m.number // the end is lost, if there was one
				}
			}
		}
	}
}

// reach tells the core how far a partition goes, and returns it.
func (w *world) reach(p int) int64 {
	at := w.partition(p)
	w.core.Released(uint32(p), at.Open)
	next := at.Next
	if w.set.KeyMode == state.KeyOrder {
		next = at.LastStable()
	}
	w.core.Extended(uint32(p), next)
	return next
}

// purge ends all messages of a partition that are committed.
func (w *world) purge(p int) {
	part := w.partition(p)
	var runs []state.QueueRun
	for r := range part.QueueOf().Left(part.Start, part.Next) {
		runs = append(runs, state.QueueRun{Base: r.Base, Span: r.Span, State: state.QueueDone})
	}
	if len(runs) > 0 {
		w.slot(&slot{records: []state.Record{w.update(p, &state.QueueChange{Runs: runs})}})
		w.commit()
	}
	for _, m := range w.messages[p] {
		m.over = m.over || m.in == 0
	}
}

// uncommitted fails if a message is not committed.
func (w *world) uncommitted(id queue.ID) {
	if m := w.messages[id.Partition][id.Offset]; m.in != 0 {
		w.fail("message %v is not committed", id)
	}
}
