package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/record"
)

// DecodeMessage decodes the output of EncodeMessage.
func DecodeMessage(b []byte) (*State, error) {
	s := Genesis(record.ID{}, 0)
	s.Epochs = nil
	err := protobuf.Decode(b, s, (*State).fields)
	if newer, ok := errors.AsType[*NewerError](err); ok {
		return nil, newer
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fields lists the fields of a snapshot (FORMAT.md). Numbers are never reused. The level is first.
func (s *State) fields(c *protobuf.Codec) {
	if c.At(12) || !c.Decoding() && s.Level > LevelFirst {
		l := levelMessage{s.Level, levelVersions[s.Level]}
		if protobuf.Message(c, 12, "level", &l, (*levelMessage).fields); c.Decoding() {
			s.Level = l.level
		}
	}
	c.KeepZeros(true)
	c.Fixed(1, "cluster", s.Cluster[:])
	protobuf.Int(c, 2, "shard", &s.Shard)
	protobuf.Int(c, 3, "epoch", &s.Pos.Epoch)
	protobuf.Int(c, 4, "slot", &s.Pos.Slot)
	c.Fixed(5, "nonce", s.Nonce[:])
	protobuf.Int(c, 6, "checksum of the previous head", &s.PrevCRC)
	protobuf.Int(c, 7, "append time", &s.AppendTime)
	c.KeepZeros(false)
	protobuf.Messages(c, 8, "chain", &s.Epochs, (*Epoch).fields)
	s.topicFields(c)
	s.groupFields(c)
	s.packFields(c, 11)
	protobuf.Rows(c, 13, "lost branches", &s.LostBranches, lostRow)
	latest := s.Latest
	if !c.Decoding() && latest <= s.AppendTime {
		latest = 0
	}
	if protobuf.Int(c, 14, "latest time", &latest); c.Decoding() {
		s.Latest = latest
	}
	if c.At(15) {
		var t tableMessage
		protobuf.Message(c, 15, "access", &t, (*tableMessage).fields)
		s.Access.Apply(&t.Change)
		s.Access.Version = t.version
	} else if !c.Decoding() && s.Access.Version > 0 {
		protobuf.Message(c, 15, "access", tableOf(&s.Access), (*tableMessage).fields)
	}
	protobuf.Int(c, 16, "promise", &s.Promise)
	s.Sealer.field(c, 17, "sealer")
	if s.transactionFields(c, 18); c.Done() {
		c.Fail(s.finish())
	}
}

// finish checks a decoded snapshot, and sets what follows from it.
func (s *State) finish() error {
	if err := s.checkLevel(); err != nil {
		return err
	}
	for i := range s.Epochs[:max(0, len(s.Epochs)-1)] {
		if n := s.Epochs[i+1].Number; s.Epochs[i].Number >= n {
			return fmt.Errorf("chain at epoch %d: %w", n, errWire)
		}
	}
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1] != (Epoch{Number: s.Pos.Epoch, Nonce: s.Nonce}) {
		return fmt.Errorf("chain does not end in epoch %d: %w", s.Pos.Epoch, errWire)
	}
	if err := s.checkTransactions(); err != nil {
		return err
	}
	if s.tally = s.recount(); s.Level < LevelQueues && s.tally.queues > 0 {
		return fmt.Errorf("queue at format level %d: %w", s.Level, errWire)
	}
	s.Latest = max(s.Latest, s.AppendTime)
	return nil
}

func (e *Epoch) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	protobuf.Int(c, 1, "number", &e.Number)
	c.Fixed(2, "nonce", e.Nonce[:])
	protobuf.Int(c, 3, "seal", &e.Seal)
}

// topicFields lists the topics by name.
func (s *State) topicFields(c *protobuf.Codec) {
	if !c.Decoding() {
		for _, t := range s.Topics() {
			protobuf.Message(c, 9, "topic", &topicMessage{Topic: t}, (*topicMessage).fields)
		}
	}
	for c.At(9) {
		t := topicMessage{Topic: &Topic{}}
		if protobuf.Message(c, 9, "topic", &t, (*topicMessage).fields); s.topics[t.ID] != nil || s.names[t.Name] != nil {
			c.Fail(fmt.Errorf("topic %q twice: %w", t.Name, errWire))
		}
		s.topics[t.ID], s.names[t.Name] = t.Topic, t.Topic
	}
}

type topicMessage struct {
	*Topic
	parts []*Partition // decoded
}

func (t *topicMessage) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.Fixed(1, "id", t.ID[:])
	c.String(2, "name", &t.Name)
	settingFields(c, 3, &t.Settings)
	if !c.Decoding() {
		next := 0
		for i, p := range t.Partitions.Written() {
			unwrittenFields(c, i-next)
			protobuf.Message(c, 4, "partition", p, (*Partition).fields)
			next = i + 1
		}
		unwrittenFields(c, t.Partitions.Len()-next)
	}
	for c.At(4) {
		var m []byte
		c.Alias(4, "partition", &m)
		p, err := decodePartition(m)
		if err != nil {
			c.Fail(fmt.Errorf("%q, partition %d: %w", t.Name, len(t.parts), err))
		}
		t.parts = append(t.parts, p)
	}
	if c.Done() {
		if t.Partitions = partitionsOf(t.parts); len(t.parts) == 0 || len(t.parts) > PartitionsMax {
			c.Fail(fmt.Errorf("%q with %d partitions: %w", t.Name, len(t.parts), errWire))
		}
	}
}

// unwrittenFields lists n unwritten partitions: empty messages, of an encoder that keeps zeros.
func unwrittenFields(c *protobuf.Codec, n int) {
	var empty []byte
	for range n {
		c.Alias(4, "partition", &empty)
	}
}

func decodePartition(b []byte) (*Partition, error) {
	if len(b) == 0 {
		return unwritten, nil
	}
	p := &Partition{}
	if err := protobuf.Decode(b, p, (*Partition).fields); err != nil {
		return nil, err
	}
	if p.Next == 0 && len(p.Epochs) == 0 && p.Producers.n == 0 && p.LatestCommit == 0 && p.queue == nil && len(p.Aborted) == 0 && p.Transactional == 0 {
		return unwritten, nil // as written by earlier versions
	}
	return p, nil
}

func (p *Partition) fields(c *protobuf.Codec) {
	protobuf.Int(c, 1, "start offset", &p.Start)
	protobuf.Int(c, 2, "next offset", &p.Next)
	protobuf.Int(c, 3, "latest commit", &p.LatestCommit)
	protobuf.Rows(c, 4, "epochs", &p.Epochs, epochStartRow)
	protobuf.Rows(c, 5, "ranges", &p.Ranges, rangeRow)
	p.producerFields(c, 6, 10)
	protobuf.Int(c, 7, "compacted offset", &p.Clean)
	protobuf.Rows(c, 8, "marks", &p.Marks, markRow)
	protobuf.Int(c, 9, "swept offset", &p.Swept)
	protobuf.Optional(c, 11, "queue", &p.queue, (*Queue).fields)
	protobuf.Rows(c, 12, "aborted transactions", &p.Aborted, abortedRow)
	if protobuf.Int(c, 13, "first transaction", &p.Transactional); !c.Done() {
		return
	}
	if p.queue != nil {
		p.queueMemory = p.queue.memory()
	}
	for i := range p.Ranges {
		p.count(&p.Ranges[i], 1)
	}
	if n := len(p.Ranges); p.Start < 0 || p.Next < p.Start || n > 0 && (p.Ranges[n-1].End() != p.Next || p.Ranges[0].End() <= p.Start) || n == 0 && p.Next != p.Start {
		c.Fail(fmt.Errorf("ranges do not reach offset %d: %w", p.Next, errWire))
	}
	if len(p.Marks) > MarksMax {
		c.Fail(fmt.Errorf("%d marks: %w", len(p.Marks), errWire))
	}
}

func epochStartRow(_, e *EpochStart, c *protobuf.Codec) {
	protobuf.Varint(c, &e.Epoch)
	protobuf.Varint(c, &e.Offset)
}

// row lists the numbers of the first range of a field.
func (r *Range) row(c *protobuf.Codec) { rangeRow(nil, r, c) }

// rangeRow lists the numbers of a range. Those that mostly grow are differences to the range before
// it.
func rangeRow(prev, r *Range, c *protobuf.Codec) {
	if prev == nil {
		prev = &Range{}
	}
	protobuf.Delta(c, &r.Base, prev.End())
	protobuf.Delta(c, &r.Span, 0)
	protobuf.Delta(c, &r.Records, r.Span)
	protobuf.Delta(c, &r.Epoch, prev.Epoch)
	protobuf.Delta(c, &r.Slot, prev.Slot)
	protobuf.Delta(c, &r.Pos, 0)
	protobuf.Delta(c, &r.Len, 0)
	protobuf.Delta(c, &r.MinTime, prev.MinTime)
	protobuf.Delta(c, &r.MaxTime, r.MinTime)
	protobuf.Delta(c, &r.AppendTime, prev.AppendTime)
	pack := uint8(bit(r.Pack))
	if protobuf.Delta(c, &pack, 0); !c.Decoding() {
		return
	}
	r.Pack = pack == 1
	if r.Span == 0 || r.Records > r.Span || pack > 1 || r.Base < 0 || r.End() < r.Base || prev.Span > 0 && r.Base != prev.End() {
		c.Fail(fmt.Errorf("range at offset %d: %w", r.Base, errWire))
	}
}

// groupFields lists the groups by name, with their offsets as state records.
func (s *State) groupFields(c *protobuf.Codec) {
	if !c.Decoding() {
		for _, g := range s.Groups() {
			protobuf.Message(c, 10, "group", &groupMessage{g.Name, g.Offsets, s}, (*groupMessage).fields)
		}
	}
	for c.At(10) {
		protobuf.Message(c, 10, "group", &groupMessage{state: s}, (*groupMessage).fields)
	}
}

type groupMessage struct {
	name    string
	offsets map[PartitionID]Committed // encoded
	state   *State                    // gets the decoded offsets
}

func (g *groupMessage) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.String(1, "name", &g.name)
	var r Record
	if !c.Decoding() {
		for _, id := range sorting.Sorted(maps.Keys(g.offsets), PartitionID.compare) {
			o := g.offsets[id]
			r = Record{Kind: OffsetCommit, Topic: id.Topic, Partition: id.Partition, Offset: o.Offset, Metadata: o.Metadata, Time: o.Time}
			protobuf.Message(c, 2, "offset", &r, (*Record).fields)
		}
	}
	for c.At(2) {
		r = Record{}
		if protobuf.Message(c, 2, "offset", &r, (*Record).fields); r.Kind != OffsetCommit {
			c.Fail(fmt.Errorf("group %q: record of kind %d: %w", g.name, r.Kind, errWire))
			return
		}
		r.Name = g.name
		g.state.commitOffset(&r)
	}
}

func (p PartitionID) compare(q PartitionID) int {
	return cmp.Or(bytes.Compare(p.Topic[:], q.Topic[:]), cmp.Compare(p.Partition, q.Partition))
}
