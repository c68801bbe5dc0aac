package state

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// fields lists the fields of a TransactionChange (FORMAT.md).
func (t *TransactionChange) fields(c *protobuf.Codec) {
	kind := uint64(t.Kind)
	if protobuf.Int(c, 1, "kind", &kind); c.Decoding() {
		t.Kind = TransactionKind(kind)
	}
	t.Producer.fields(c, 2, 3)
	protobuf.Int(c, 4, "timeout", &t.Timeout)
	c.Bool(5, "forced", &t.Forced)
	protobuf.Messages(c, 6, "offset", &t.Offsets, (*StagedOffset).fields)
	protobuf.Messages(c, 7, "mark", &t.Marks, (*TransactionMark).fields)
	if c.Bool(8, "recovers", &t.Recovers); c.Done() && (kind == 0 || kind > uint64(TransactionForget)) {
		c.Fail(fmt.Errorf("transaction update of kind %d: written by a newer version", kind))
	}
}

// String names a kind for people.
func (k TransactionKind) String() string {
	names := [...]string{TransactionInit: "init", TransactionOffsets: "offsets", TransactionCommit: "commit", TransactionAbort: "abort", TransactionForget: "forget"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// fields lists a producer as two fields: its id + 1, which is always written, and its epoch.
func (p *ProducerEpoch) fields(c *protobuf.Codec, id, epoch protowire.Number) {
	n, e := uint64(p.ID+1), uint16(p.Epoch)
	c.KeepZeros(true)
	protobuf.Int(c, id, "producer", &n)
	c.KeepZeros(false)
	if protobuf.Int(c, epoch, "epoch", &e); c.Decoding() {
		if p.ID, p.Epoch = int64(n)-1, int16(e); p.ID < -1 {
			c.Fail(fmt.Errorf("producer %d: %w", p.ID, errWire))
		}
	}
}

func (p *PartitionID) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.Fixed(1, "topic", p.Topic[:])
	protobuf.Int(c, 2, "partition", &p.Partition)
}

func (m *TransactionMark) fields(c *protobuf.Codec) {
	m.PartitionID.fields(c)
	protobuf.Int(c, 3, "offset", &m.Offset)
}

func (p *TransactionPart) fields(c *protobuf.Codec) {
	p.PartitionID.fields(c)
	if protobuf.Int(c, 3, "first offset", &p.First); p.First < 0 {
		c.Fail(fmt.Errorf("first offset %d: %w", p.First, errWire))
	}
}

func (o *StagedOffset) fields(c *protobuf.Codec) {
	o.PartitionID.fields(c)
	bits := o.bits()
	protobuf.Int(c, 3, "offset", &bits)
	c.String(4, "group", &o.Group)
	if c.String(5, "metadata", &o.Metadata); c.Decoding() {
		if o.Offset = int64(bits); o.Offset > CommitMax {
			o.Offset |= math.MinInt64
		}
	}
}

// transactionFields lists the transactions by ID.
func (s *State) transactionFields(c *protobuf.Codec, num protowire.Number) {
	if !c.Decoding() {
		for _, t := range s.Transactions() {
			protobuf.Message(c, num, "transaction", t, (*Transaction).fields)
		}
	}
	for c.At(num) {
		t := &Transaction{}
		if protobuf.Message(c, num, "transaction", t, (*Transaction).fields); s.transactions[t.ID] != nil {
			c.Fail(fmt.Errorf("transactional ID %q twice: %w", t.ID, errWire))
		}
		if s.transactions[t.ID] = t; t.Producer >= 0 {
			s.producing[t.Producer] = t.ID
		}
	}
}

func (t *Transaction) fields(c *protobuf.Codec) {
	c.String(1, "id", &t.ID)
	now := t.Now()
	if now.fields(c, 2, 3); c.Decoding() {
		t.Producer, t.Epoch = now.ID, now.Epoch
	}
	protobuf.Int(c, 4, "timeout", &t.Timeout)
	protobuf.Int(c, 5, "changed", &t.Changed)
	protobuf.Int(c, 6, "started", &t.Started)
	protobuf.Int(c, 7, "ended", &t.Ended)
	t.Was.fields(c, 8, 9)
	protobuf.Messages(c, 10, "part", &t.Parts, (*TransactionPart).fields)
	if protobuf.Messages(c, 11, "offset", &t.Offsets, (*StagedOffset).fields); c.Done() && (t.ID == "" || t.Ended > EndedForced) {
		c.Fail(fmt.Errorf("transaction %q: %w", t.ID, errWire))
	}
}

// abortedRow lists the numbers of an aborted transaction. Those that mostly grow are differences to the one before.
func abortedRow(prev, a *AbortedTransaction, c *protobuf.Codec) {
	if prev == nil {
		prev = &AbortedTransaction{}
	}
	protobuf.Delta(c, &a.Producer, prev.Producer)
	protobuf.Delta(c, &a.Last, prev.Last)
	if protobuf.Delta(c, &a.First, a.Last); c.Decoding() && (a.First < 0 || a.Last < max(a.First, prev.Last)) {
		c.Fail(fmt.Errorf("aborted transaction at offset %d: %w", a.First, errWire))
	}
}
