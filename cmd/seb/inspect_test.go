package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestInspectTransactions shows a slot in which a transaction is aborted and another begins, and the snapshot after it.
func TestInspectTransactions(t *testing.T) {
	id := record.ID{1}
	s := state.Genesis(record.ID{9}, 0)
	seal := record.Head{Kind: record.KindSeal, Time: 1, Cluster: s.Cluster, Nonce: s.Nonce, NextEpoch: 1, NextNonce: record.ID{2}}
	must.NoError(t, s.Apply(&seal, nil, nil))
	batch := func(producer int64) []byte {
		b, _ := must.Get2(record.Append(nil, []record.Record{{Timestamp: 1, Key: []byte("k")}}, record.EncodeOptions{Transactional: true, Producer: &record.Producer{ID: producer, Epoch: 3}}))(t)
		return b
	}
	part := slices.Concat(batch(77), record.AppendMarker(nil, &record.Marker{ProducerID: 77, ProducerEpoch: 3, Timestamp: 2}), batch(78))
	record.Patch(part, 0, 1)
	at := state.PartitionID{Topic: id}
	update := func(name string, c state.TransactionChange) state.Record {
		return state.Record{Kind: state.TransactionUpdate, Name: name, Transaction: &c}
	}
	recs := []state.Record{
		state.RaiseTo(state.LevelMax),
		{Kind: state.TopicCreate, Topic: id, Name: "t", Partitions: 1},
		update("a", state.TransactionChange{Kind: state.TransactionInit, Producer: state.ProducerEpoch{ID: 77, Epoch: 3}, Timeout: 500}),
		update("b", state.TransactionChange{Kind: state.TransactionInit, Producer: state.ProducerEpoch{ID: 78, Epoch: 3}}),
		{Kind: state.ProducerAppend, Topic: id, Transactional: true, Producer: state.ProducerBatch{ID: 77, Epoch: 3, Span: 1}},
		update("a", state.TransactionChange{Kind: state.TransactionOffsets, Offsets: []state.StagedOffset{{Group: "g", PartitionID: at, Offset: 5, Metadata: "m"}}}),
		update("a", state.TransactionChange{
			Kind: state.TransactionAbort, Forced: true, Producer: state.ProducerEpoch{ID: 77, Epoch: 4}, Marks: []state.TransactionMark{{PartitionID: at, Offset: 1}},
		}),
		{Kind: state.ProducerAppend, Topic: id, Offset: 2, Transactional: true, Producer: state.ProducerBatch{ID: 78, Epoch: 3, Span: 1}},
	}
	head := record.Head{Kind: record.KindData, Time: 1e6, Cluster: s.Cluster, Epoch: 1, Nonce: s.Nonce}
	index := []record.IndexEntry{{Topic: id, Span: 3, Records: 2, Len: uint32(len(part)), AppendTime: 1e6}}
	prefix := must.Get(record.EncodeObject(&head, state.EncodeRecords(nil, recs), index, [][]byte{part}))(t)
	must.NoError(t, s.Apply(&head, recs, index))

	var out bytes.Buffer
	d := dump{w: &out, records: true}
	must.NoError(t, d.object("slot", append(prefix, part...)))
	must.NoError(t, d.object("s0000/snap/x", state.EncodeSnapshot(s)))
	for _, want := range []string{
		`transaction update: init of "a", producer 77 epoch 3 from here on, timeout 500 ms`,
		`producer append: producer 78 epoch 3, topic 01000000000000000000000000000000 partition 0, offset 2: 1 records from sequence 0, in a transaction`,
		`  group g, topic 01000000000000000000000000000000 partition 0, offset 5, metadata "m"`,
		`transaction update: abort of "a" by the broker, producer 77 epoch 4 from here on, timeout 0 ms`,
		`  marker in topic 01000000000000000000000000000000 partition 0 at offset 1`,
		`topic 01000000000000000000000000000000 partition 0: offsets 0 to 2, 2 records,`,
		`  offsets 0 to 0, in a transaction of producer 77 epoch 3`,
		`  1: 1970-01-01T00:00:00.002000Z, abort of the transaction of producer 77 epoch 3`,
		`, open transactions from offset 2 on, 1 aborted transactions`,
		`transactional ID "a", producer 77 epoch 4: not open`,
		`transactional ID "b", producer 78 epoch 3: open since 1970-01-01T00:00:01.000000Z with 1 partitions and 0 offsets of groups`,
	} {
		check.Contains(t, out.String(), want)
	}
	if strings.Contains(out.String(), "records are left") {
		t.Errorf("a marker looks like a batch that compaction has emptied: %s", out.String())
	}
}
