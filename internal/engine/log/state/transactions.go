package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/record"
)

const (
	// TransactionsMax bounds the transactional IDs that the state knows.
	TransactionsMax = 1_000
	// AbortedMax bounds the aborted transactions of all partitions. Beyond it no transaction begins in a
	// partition.
	AbortedMax = 100_000
)

// Transaction is what the log knows of a transactional ID: its producer, and the transaction that is open
// or was the newest. Read-only outside this package.
type Transaction struct {
	ID       string
	Producer int64 // -1: none, until the next init
	Epoch    int16
	Timeout  uint32 // ms
	Changed  int64  // append time of the newest init or end, µs
	// Started is the append time of the open transaction's first batch or offset, µs; 0: none is open.
	Started int64
	Ended   Ending // of the newest transaction
	// Was is the producer that the newest end found, from which it made Producer and Epoch. A client that did not
	// get the answer still names it.
	Was     ProducerEpoch
	Parts   []TransactionPart // of the open transaction, in the order of their first batches
	Offsets []StagedOffset    // of the open transaction, in the order in which they came
	gen     uint64
}

// ProducerEpoch is a producer ID with an epoch.
type ProducerEpoch struct {
	ID    int64 // -1: none
	Epoch int16
}

// Now is the producer of the transactional ID.
func (t *Transaction) Now() ProducerEpoch { return ProducerEpoch{t.Producer, t.Epoch} }

// Open reports whether a transaction is open.
func (t *Transaction) Open() bool { return t.Started != 0 }

// part returns the index of a partition in Parts, or -1.
func (t *Transaction) part(id PartitionID) int {
	return slices.IndexFunc(t.Parts, func(p TransactionPart) bool { return p.PartitionID == id })
}

// Ending is how a transaction ended.
type Ending uint8

// The endings.
const (
	EndedNot       Ending = iota // there was none since the init
	EndedCommitted               // by its producer
	EndedAborted                 // by its producer
	EndedForced                  // aborted by the broker, after the timeout or for an operator
)

// TransactionPart is a partition with batches of an open transaction.
type TransactionPart struct {
	PartitionID
	First int64 // offset of the first of them
}

// StagedOffset is the offset of a group that a transaction commits.
type StagedOffset struct {
	Group string
	PartitionID
	Offset   int64
	Metadata string
}

// OpenTransaction is an open transaction in a partition.
type OpenTransaction struct{ Producer, First int64 }

// TransactionKind says what a TransactionUpdate does. Zero is invalid.
type TransactionKind uint8

// The kinds.
const (
	TransactionInit    TransactionKind = iota + 1 // Producer and Timeout are new; none is open
	TransactionOffsets                            // Offsets are staged
	TransactionCommit                             // ends: Marks; Producer is that of the next one
	TransactionAbort                              // likewise
	TransactionForget                             // the ID is forgotten
)

// TransactionChange is the content of a TransactionUpdate record.
type TransactionChange struct {
	Kind     TransactionKind
	Producer ProducerEpoch // after the change
	Timeout  uint32        // ms
	Forced   bool          // an abort that its producer did not ask for
	Recovers bool          // an init by the producer itself
	Offsets  []StagedOffset
	Marks    []TransactionMark
}

// TransactionMark is where the marker of an end is in a partition.
type TransactionMark struct {
	PartitionID
	Offset int64
}

// LastStable is the last stable offset: all transactions with batches below it have ended. It is at most Next.
func (p *Partition) LastStable() int64 {
	stable := p.Next
	for i := range p.Open {
		stable = min(stable, p.Open[i].First)
	}
	return max(stable, p.Start)
}

// Transaction returns what is known of a transactional ID, or nil.
func (s *State) Transaction(id string) *Transaction { return s.transactions[id] }

// TransactionsFull reports whether the state knows as many transactional IDs as it may.
func (s *State) TransactionsFull() bool { return len(s.transactions) >= TransactionsMax }

// TransactionOf returns that of a producer ID, or nil.
func (s *State) TransactionOf(producer int64) *Transaction {
	if len(s.producing) == 0 {
		return nil
	}
	return s.transactions[s.producing[producer]]
}

// Staged returns the partitions for which open transactions hold offsets of a group, in no order.
func (s *State) Staged(group string) (ids []PartitionID) {
	if s.tally.staged == 0 {
		return nil
	}
	for _, t := range s.transactions {
		for i := range t.Offsets {
			if t.Offsets[i].Group == group {
				ids = append(ids, t.Offsets[i].PartitionID)
			}
		}
	}
	return ids
}

// OpenTransactions returns the open transactions, in no order.
func (s *State) OpenTransactions() (open []*Transaction) {
	for _, t := range s.transactions {
		if t.Open() {
			open = append(open, t)
		}
	}
	return open
}

// Transactions returns those of all transactional IDs, by ID.
func (s *State) Transactions() []*Transaction {
	return sorting.Sorted(maps.Values(s.transactions), func(a, b *Transaction) int { return cmp.Compare(a.ID, b.ID) })
}

// transactionForWrite returns the transaction of an ID that no view shares, or nil.
func (s *State) transactionForWrite(id string) *Transaction {
	t := s.transactions[id]
	if t == nil || t.gen == s.gen {
		return t
	}
	n := *t
	n.gen = s.gen
	n.Parts, n.Offsets = slices.Clone(t.Parts), slices.Clone(t.Offsets)
	s.transactions[id] = &n
	return &n
}

// updateTransaction applies a TransactionUpdate record.
func (s *State) updateTransaction(r *Record) {
	c := r.Transaction
	t := s.transactionForWrite(r.Name)
	if t == nil {
		if c.Kind != TransactionInit {
			return
		}
		t = &Transaction{ID: r.Name, Producer: -1, Was: ProducerEpoch{ID: -1}, gen: s.gen}
		s.transactions[r.Name] = t
	} else {
		s.tally.countTransaction(t, -1)
	}
	if c.Kind == TransactionForget {
		s.endParts(t, nil, true)
		delete(s.producing, t.Producer)
		delete(s.transactions, t.ID)
		return
	}
	switch c.Kind {
	case TransactionInit:
		t.Timeout = c.Timeout
		if t.Open() || c.Producer != t.Now() { // else it repeats the one before
			s.endParts(t, nil, true)
			t.Ended, t.Was = EndedNot, ProducerEpoch{ID: -1}
			if c.Recovers {
				t.Was = t.Now()
			}
		}
		s.setProducer(t, c.Producer)
	case TransactionOffsets:
		s.stage(t, c.Offsets)
	case TransactionCommit, TransactionAbort:
		if t.Ended = EndedCommitted; c.Kind == TransactionAbort {
			t.Ended = EndedAborted
		}
		if c.Forced {
			t.Ended = EndedForced
		}
		s.endParts(t, c.Marks, c.Kind == TransactionAbort)
		t.Was = t.Now()
		s.setProducer(t, c.Producer)
	}
	s.tally.countTransaction(t, 1)
}

func (s *State) setProducer(t *Transaction, p ProducerEpoch) {
	if t.Changed = s.slotTime; t.Producer != p.ID {
		delete(s.producing, t.Producer)
		if p.ID >= 0 {
			s.producing[p.ID] = t.ID
		}
	}
	t.Producer, t.Epoch = p.ID, p.Epoch
}

// stage adds offsets of groups to the open transaction, or opens it.
func (s *State) stage(t *Transaction, offsets []StagedOffset) {
	s.began(t)
	type key struct {
		group string
		PartitionID
	}
	at := make(map[key]int, len(t.Offsets)+len(offsets))
	for i := range t.Offsets {
		at[key{t.Offsets[i].Group, t.Offsets[i].PartitionID}] = i
	}
	for _, o := range offsets {
		k := key{o.Group, o.PartitionID}
		if i, staged := at[k]; staged {
			t.Offsets[i] = o
			continue
		}
		at[k] = len(t.Offsets)
		t.Offsets = append(t.Offsets, o)
	}
}

func (s *State) began(t *Transaction) {
	if t.Started == 0 {
		t.Started = max(1, s.slotTime)
	}
}

// produced notes a batch of a transaction.
func (s *State) produced(r *Record) {
	t := s.TransactionOf(r.Producer.ID)
	id := PartitionID{r.Topic, r.Partition}
	if t == nil {
		return
	}
	if !s.noRange && s.topics[r.Topic].IsQueue() {
		s.sentIn(s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition), r.Producer.ID, r.Offset, r.Producer.Span)
	}
	if t.Open() && t.part(id) >= 0 {
		return
	}
	t = s.transactionForWrite(t.ID)
	s.tally.countTransaction(t, -1)
	s.began(t)
	t.Parts = append(t.Parts, TransactionPart{id, r.Offset})
	s.tally.countTransaction(t, 1)
	if s.noRange {
		return
	}
	p := s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition)
	p.Open = append(p.Open, OpenTransaction{r.Producer.ID, r.Offset})
	if p.Transactional == 0 {
		p.Transactional = r.Offset + 1
	}
}

// endParts closes the open transaction. Without marks its batches, if there are any, count as aborted up to the
// end of the partition.
func (s *State) endParts(t *Transaction, marks []TransactionMark, abort bool) {
	for _, part := range t.Parts {
		s.endPart(t, part, marks, abort)
	}
	if !abort {
		for _, o := range t.Offsets {
			if s.topics[o.Topic] != nil {
				s.commitOffset(&Record{Name: o.Group, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Metadata: o.Metadata, Time: s.slotTime})
			}
		}
	}
	t.Started, t.Parts, t.Offsets = 0, nil, nil
}

func (s *State) endPart(t *Transaction, part TransactionPart, marks []TransactionMark, abort bool) {
	if s.noRange {
		return
	}
	topic, marker := s.topicForWrite(part.Topic), int64(-1)
	p := s.partitionForWrite(topic, part.Partition)
	p.Open = slices.DeleteFunc(slices.Clone(p.Open), func(o OpenTransaction) bool { return o.Producer == t.Producer })
	if i := slices.IndexFunc(marks, func(m TransactionMark) bool { return m.PartitionID == part.PartitionID }); i >= 0 {
		marker = marks[i].Offset
	}
	if topic.IsQueue() {
		s.endSent(p, t.Producer, part.First, marker, abort)
	}
	if !abort {
		return
	}
	last := marker
	if last < 0 {
		last = p.Next - 1
	}
	if last = max(last, part.First); last >= p.Start {
		p.Aborted = append(p.Aborted, AbortedTransaction{t.Producer, part.First, last})
		s.tally.aborted++
		if n := len(p.Aborted); n > 1 && p.Aborted[n-2].Last > last { // only in a forged log
			p.Aborted = sorting.Sorted(slices.Values(p.Aborted), func(a, b AbortedTransaction) int { return cmp.Compare(a.Last, b.Last) })
			p.firsts = nil
		}
		p.indexAborted()
	}
}

// transactionsLost aborts all open transactions after a loss. All producers get other IDs: no later batch has that
// of a transaction without a marker, and none has an epoch that the lost branch has ended.
func (s *State) transactionsLost() {
	for _, t := range s.Transactions() {
		t = s.transactionForWrite(t.ID)
		s.tally.countTransaction(t, -1)
		if t.Open() {
			t.Ended = EndedForced
		}
		s.endParts(t, nil, true)
		t.Was = ProducerEpoch{ID: -1}
		s.setProducer(t, t.Was)
		s.tally.countTransaction(t, 1)
	}
}

// transactionsWithout removes a deleted topic from the open transactions.
func (s *State) transactionsWithout(topic record.ID) {
	for _, t := range s.Transactions() {
		if !slices.ContainsFunc(t.Parts, func(p TransactionPart) bool { return p.Topic == topic }) &&
			!slices.ContainsFunc(t.Offsets, func(o StagedOffset) bool { return o.Topic == topic }) {
			continue
		}
		t = s.transactionForWrite(t.ID)
		s.tally.countTransaction(t, -1)
		t.Parts = slices.DeleteFunc(t.Parts, func(p TransactionPart) bool { return p.Topic == topic })
		t.Offsets = slices.DeleteFunc(t.Offsets, func(o StagedOffset) bool { return o.Topic == topic })
		s.tally.countTransaction(t, 1)
	}
}

// holds reports whether an open transaction has batches of a producer in a partition.
func (s *State) holds(k ProducerKey) bool {
	t := s.TransactionOf(k.ID)
	return t != nil && t.part(k.PartitionID) >= 0
}

// refusesTransaction returns why a TransactionUpdate cannot be accepted, or nil.
func (s *State) refusesTransaction(r *Record) error {
	switch {
	case s.Level < LevelTransactions:
		return &LevelError{Needs: LevelTransactions, Has: s.Level}
	case r.Transaction.Kind == TransactionInit && s.transactions[r.Name] == nil && s.TransactionsFull():
		return ErrTransactionsFull
	}
	for i := range r.Transaction.Offsets {
		o := &r.Transaction.Offsets[i]
		switch t := s.topics[o.Topic]; {
		case t == nil:
			return ErrUnknownTopic
		case o.Partition >= uint32(t.Partitions.Len()):
			return ErrUnknownPartition
		case s.tally.offsets+s.tally.staged+len(r.Transaction.Offsets) > OffsetsMax:
			return ErrFull
		}
	}
	return nil
}

// RefusesPart returns why the open transaction of a producer, or its next one, may not have batches in a partition,
// or nil. aborted is the number of aborted transactions of the committed state.
func (s *State) RefusesPart(producer int64, id PartitionID, aborted int) error {
	t, topic := s.TransactionOf(producer), s.topics[id.Topic]
	switch {
	case topic == nil:
		return ErrUnknownTopic
	case s.Room.Max > 0 && s.Room.Queues > s.Room.Max/4*3 && topic.IsQueue():
		return s.full(false) // it remembers which messages are not committed
	case t.part(id) >= 0:
		return nil
	case aborted >= AbortedMax:
		return ErrAbortedFull
	case !s.fits(partMemory):
		return s.full(false)
	}
	return nil
}

// ReserveMark assigns the offset of a marker in a partition of a catalog that has batches of the transaction. It is
// never refused.
func (s *State) ReserveMark(id PartitionID) int64 {
	p := s.partitionForWrite(s.topics[id.Topic], id.Partition)
	p.Next++
	return p.Next - 1
}

// Estimates of memory, in bytes.
const (
	transactionMemory = 600
	partMemory        = 160
	stagedMemory      = 320
	abortedMemory     = 48
)

func (t *Transaction) memory() int {
	n := transactionMemory + 3*len(t.ID) + len(t.Parts)*partMemory
	for i := range t.Offsets {
		n += t.Offsets[i].memory()
	}
	return n
}

func (o *StagedOffset) memory() int { return stagedMemory + len(o.Group) + len(o.Metadata) }

// transactionGrowth is an estimate of the bytes that a TransactionUpdate adds.
func (s *State) transactionGrowth(r *Record) (n int64) {
	if s.transactions[r.Name] == nil {
		n = transactionMemory + 3*int64(len(r.Name))
	}
	for i := range r.Transaction.Offsets {
		// Once staged and once committed.
		n += 2 * int64(r.Transaction.Offsets[i].memory())
	}
	return n
}

// checkTransactions checks the transactions of a decoded snapshot, and sets what follows from them.
func (s *State) checkTransactions() error {
	if len(s.transactions) > 0 && s.Level < LevelTransactions {
		return fmt.Errorf("transactions at format level %d: %w", s.Level, errWire)
	}
	for _, t := range s.Transactions() {
		for _, part := range t.Parts {
			topic := s.topics[part.Topic]
			if topic == nil || part.Partition >= uint32(topic.Partitions.Len()) || !t.Open() {
				return fmt.Errorf("transaction %q in an unknown partition: %w", t.ID, errWire)
			}
			p := topic.Partitions.At(int(part.Partition))
			if p == unwritten {
				return fmt.Errorf("transaction %q in an unwritten partition: %w", t.ID, errWire)
			}
			p.Open = append(p.Open, OpenTransaction{t.Producer, part.First})
		}
	}
	for _, t := range s.topics {
		for _, p := range t.Partitions.Written() {
			if s.Level < LevelTransactions && (len(p.Aborted) > 0 || p.Transactional != 0) {
				return fmt.Errorf("transactions in a partition at format level %d: %w", s.Level, errWire)
			}
			sorting.Sort(p.Open, func(a, b OpenTransaction) int { return cmp.Compare(a.First, b.First) })
			p.indexAborted()
		}
	}
	return nil
}

// bits is the encoded offset, as in Record.offsetBits.
func (o *StagedOffset) bits() uint64 { return uint64(o.Offset) & math.MaxInt64 }
