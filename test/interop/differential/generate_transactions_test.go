package differential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
)

// transactions generates the steps of transactional producers of one version of transactions. Every
// success of InitProducerId, and of EndTxn in version 2, gives a transactional ID a producer: a pair
// of id and epoch, which the brokers choose differently. Steps name it by its number.
type transactions struct {
	*generator
	two   bool // version 2 (KIP-890)
	ids   []*transaction
	queue []*step // that come next
}

// transaction is the generator's knowledge of a transactional ID, from Kafka's answers.
type transaction struct {
	id        string
	given     int // producers so far
	open      bool
	group     string // the newest that was added in version 1
	parts     map[partition]bool
	sequences map[partition]int32 // of the newest producer
	ended     bool                // the newest end was a commit
}

type partition struct {
	topic string
	n     int32
}

// transactionTimeout is a timeout that no sequence reaches, shortTimeout one that it waits for.
const (
	transactionTimeout = 600_000
	shortTimeout       = 1_500
)

const codeOutOfOrder = 45

func newTransactions(w *generator) *transactions {
	x := &transactions{generator: w, two: w.chance(2)}
	for i := range 3 {
		x.ids = append(x.ids, &transaction{id: fmt.Sprintf("%stransactional%d", w.prefix, i), parts: map[partition]bool{}, sequences: map[partition]int32{}})
	}
	return x
}

// next returns the next step.
func (x *transactions) next() *step {
	if len(x.queue) > 0 {
		st := x.queue[0]
		x.queue = x.queue[1:]
		return st
	}
	t := pick(x.generator, x.ids...)
	if t.given == 0 && !x.chance(20) {
		return x.init(t)
	}
	for {
		n := x.IntN(100)
		for _, a := range []struct {
			weight int
			next   func(*transaction) *step
		}{
			{4, x.init},
			{12, x.addPartitions},
			{22, x.produce},
			{3, x.plain},
			{5, x.addOffsets},
			{8, x.commitOffsets},
			{14, x.end},
			{12, x.read},
			{5, x.bounds},
			{5, x.offsets},
			{3, x.describeProducers},
			{4, x.describe},
			{2, x.list},
			{1, x.timeout},
		} {
			if n -= a.weight; n < 0 {
				if st := a.next(t); st != nil {
					return st
				}
				break
			}
		}
	}
}

// last returns the steps that end all transactions and read everything.
func (x *transactions) last() (list []*step) {
	for _, t := range x.ids {
		if t.open {
			list = append(list, x.endOf(t, x.newest(t), true))
		}
	}
	for _, t := range x.sorted() {
		for n := range int32(t.partitions) {
			for isolation := range int8(2) {
				list = append(list, x.readFrom(partition{t.name, n}, 0, isolation))
			}
		}
	}
	return list
}

// given is the producer that a request names.
type given struct {
	what string
	of   func(s *side) producer
}

// newest is the newest producer of a transactional ID.
func (x *transactions) newest(t *transaction) given {
	n := t.given - 1
	return given{fmt.Sprintf("%s@%d", t.id, n), func(s *side) producer { return s.producerOf(t.id, n) }}
}

// producer is usually the newest one; else an older one, one with another epoch, or none.
func (x *transactions) producer(t *transaction) given {
	g := x.newest(t)
	switch x.IntN(24) {
	case 0:
		n := max(0, t.given-2)
		return given{fmt.Sprintf("%s@%d (of %d)", t.id, n, t.given), func(s *side) producer { return s.producerOf(t.id, n) }}
	case 1:
		return given{g.what + " with the next epoch", func(s *side) producer {
			p := g.of(s)
			return producer{p.id, p.epoch + 1}
		}}
	case 2:
		return given{"an unknown producer", func(*side) producer { return producer{1 << 50, 0} }}
	}
	return g
}

// producerOf returns the producer with a number of a transactional ID.
func (s *side) producerOf(id string, n int) producer {
	if list := s.given[id]; n >= 0 && n < len(list) {
		return list[n]
	}
	return producer{-1, -1}
}

// gave notes a producer that was given to a transactional ID.
func (s *side) gave(id string, p producer) {
	s.symbols.another("producer", fmt.Sprint(p.id), id)
	if name := fmt.Sprintf("%s@%d", id, len(s.given[id])); s.symbols.of("pair", p.String()) == p.String() {
		s.symbols.name("pair", p.String(), name)
	}
	s.given[id] = append(s.given[id], p)
}

func (p producer) String() string { return fmt.Sprintf("%d/%d", p.id, p.epoch) }

// pair returns the symbol of an epoch of a producer.
func (s *side) pair(id string, epoch int64) string {
	if name := s.symbols.of("pair", fmt.Sprintf("%s/%d", id, epoch)); name != fmt.Sprintf("%s/%d", id, epoch) {
		return name
	}
	if s.symbols.of("producer", id) != id && len(s.given) > 0 {
		return "other"
	}
	return fmt.Sprint(epoch)
}

// txnStep is a step of a transactional ID.
func (x *transactions) step(t *transaction, key kmsg.Key, what string, args ...any) *step {
	return &step{what: fmt.Sprintf(what, args...), key: key, version: anyVersion, transactional: t.id}
}

// limit keeps a step within the version of transactions: version 2 begins with a version of the key.
func (x *transactions) limit(st *step, begin int16) *step {
	if x.two {
		st.from = begin
	} else {
		st.until = begin - 1
	}
	if st.key == kmsg.Produce {
		st.from = max(st.from, 3) // older ones have no transactions
	}
	return st
}

func (x *transactions) init(t *transaction) *step {
	timeout := int32(transactionTimeout)
	if x.chance(12) {
		timeout = pick(x.generator, int32(0), -1, 900_001, 2_000_000_000)
	}
	switch {
	case t.given == 0 || !x.chance(3):
	case t.open: // with an older one Kafka refuses, and aborts nevertheless
		return x.initWith(t, timeout, x.newest(t))
	default:
		return x.initWith(t, timeout, x.producer(t))
	}
	return x.initWith(t, timeout, none)
}

var none = given{"none", func(*side) producer { return producer{-1, -1} }}

func (x *transactions) initWith(t *transaction, timeout int32, has given) *step {
	st := x.step(t, kmsg.InitProducerID, "a producer for %s, timeout %d, which has %s", t.id, timeout, has.what)
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis = kmsg.StringPtr(t.id), timeout
		r.ProducerID, r.ProducerEpoch = has.of(s).id, has.of(s).epoch
		return r
	}
	st.after = func(resp kmsg.Response) {
		if resp.(*kmsg.InitProducerIDResponse).ErrorCode == 0 {
			t.renew()
		}
	}
	return st
}

// renew notes that a transactional ID has a new producer and no transaction.
func (t *transaction) renew() {
	t.given++
	t.open, t.group, t.parts, t.sequences = false, "", map[partition]bool{}, map[partition]int32{}
}

// somewhere usually returns a partition that exists.
func (x *transactions) somewhere() partition {
	p := x.there()
	if x.chance(40) {
		p.n = 7
	}
	return p
}

// there returns a partition that exists.
func (x *transactions) there() partition {
	t := pick(x.generator, x.sorted()...)
	return partition{t.name, x.Int32N(int32(t.partitions))}
}

func (x *transactions) addPartitions(t *transaction) *step {
	if x.two && !x.chance(8) {
		return nil
	}
	g := x.producer(t)
	parts := []partition{x.somewhere()}
	if o := x.somewhere(); o != parts[0] && x.chance(2) {
		parts = append(parts, o)
	}
	st := x.step(t, kmsg.AddPartitionsToTxn, "add %v to the transaction of %s", parts, g.what)
	st.until = 3 // later ones are for brokers
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = t.id, g.of(s).id, g.of(s).epoch
		for _, p := range parts {
			i := slices.IndexFunc(r.Topics, func(o kmsg.AddPartitionsToTxnRequestTopic) bool { return o.Topic == p.topic })
			if i < 0 {
				of := kmsg.NewAddPartitionsToTxnRequestTopic()
				of.Topic = p.topic
				r.Topics, i = append(r.Topics, of), len(r.Topics)
			}
			r.Topics[i].Partitions = append(r.Topics[i].Partitions, p.n)
		}
		return r
	}
	st.after = func(resp kmsg.Response) {
		for _, of := range resp.(*kmsg.AddPartitionsToTxnResponse).Topics {
			for _, p := range of.Partitions {
				// Kafka also writes markers where a transaction has no records, so it gets some.
				if at := (partition{of.Topic, p.Partition}); p.ErrorCode == 0 && !t.parts[at] {
					t.open, t.parts[at] = true, true
					x.queue = append(x.queue, x.append(t, batch{at, x.newest(t), t.sequences[at], true, true}))
				}
			}
		}
	}
	return st
}

func (x *transactions) produce(t *transaction) *step {
	p := x.somewhere()
	if !x.two && !x.chance(10) {
		if len(t.parts) == 0 {
			return nil
		}
		p = x.addedTo(t)
	}
	return x.produceTo(t, p)
}

// addedTo returns a partition that was added to a transaction.
func (x *transactions) addedTo(t *transaction) partition {
	return pick(x.generator, slices.SortedFunc(maps.Keys(t.parts), func(a, b partition) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.n, b.n))
	})...)
}

func (x *transactions) produceTo(t *transaction, p partition) *step {
	g, sequence := x.producer(t), t.sequences[p]
	if x.chance(12) && (sequence > 0 || x.chance(10)) {
		sequence += pick(x.generator, int32(-1), 1, 5)
	}
	return x.append(t, batch{p, g, sequence, !x.chance(30), !x.chance(30)})
}

// batch is where and how records are written.
type batch struct {
	at                   partition
	by                   given
	sequence             int32
	transactional, named bool // its attribute and the ID in the request
}

// append writes records.
func (x *transactions) append(t *transaction, b batch) *step {
	records := x.records(true)
	for i := range records {
		records[i].Timestamp = 1000
	}
	st := x.step(t, kmsg.Produce, "produce %d records with sequence %d to %v by %s, transactional %v, with its ID %v", len(records), b.sequence, b.at, b.by.what, b.transactional, b.named)
	x.limit(st, 12)
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = -1, 20_000
		if b.named {
			r.TransactionID = kmsg.StringPtr(t.id)
		}
		of := b.by.of(s)
		return produceOf(s, r, b.at, records, record.EncodeOptions{Transactional: b.transactional, Producer: &record.Producer{ID: of.id, Epoch: of.epoch, Sequence: b.sequence}})
	}
	st.after = func(resp kmsg.Response) {
		got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got.ErrorCode == codeOutOfOrder && x.two { // Kafka has added the partition to the transaction
			x.queue = append(x.queue, x.append(t, batch{b.at, x.newest(t), t.sequences[b.at], true, true}))
		}
		if got.ErrorCode == 0 {
			ends := x.topics[b.at.topic].ends
			ends[b.at.n] = max(ends[b.at.n], got.BaseOffset+int64(len(records)))
			t.sequences[b.at] = max(t.sequences[b.at], b.sequence+int32(len(records)))
			t.open = t.open || b.transactional
			t.parts[b.at] = true
		}
	}
	return st
}

// produceOf adds a batch to a request.
func produceOf(s *side, r *kmsg.ProduceRequest, at partition, records []record.Record, o record.EncodeOptions) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = at.n, encoded(records, o)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = at.topic, idOf(s, at.topic)
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// plain writes records without a transaction.
func (x *transactions) plain(t *transaction) *step {
	p, records := x.somewhere(), x.records(true)
	st := x.step(t, kmsg.Produce, "produce %d records to %v", len(records), p)
	st.from = 3
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = -1, 20_000
		return produceOf(s, r, p, records, record.EncodeOptions{})
	}
	return st
}

func (x *transactions) addOffsets(t *transaction) *step {
	if x.two && !x.chance(8) {
		return nil
	}
	g, group := x.producer(t), pick(x.generator, x.groups...)
	st := x.step(t, kmsg.AddOffsetsToTxn, "add group %s to the transaction of %s", group, g.what)
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = t.id, g.of(s).id, g.of(s).epoch, group
		return r
	}
	st.after = func(resp kmsg.Response) {
		if resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode == 0 {
			t.open, t.group = true, group
			x.queue = append(x.queue, x.commitTo(t, x.newest(t), x.there(), group, -1))
		}
	}
	return st
}

func (x *transactions) commitOffsets(t *transaction) *step {
	if !x.two && (t.group == "" || !t.open) && !x.chance(12) {
		return nil
	}
	group, generation := pick(x.generator, x.groups...), int32(-1)
	if x.chance(10) {
		generation = 5
	}
	if !x.two && t.group != "" {
		group = t.group // what Kafka answers otherwise depends on the partition of the group
	}
	return x.commitTo(t, x.producer(t), x.somewhere(), group, generation)
}

func (x *transactions) commitTo(t *transaction, g given, p partition, group string, generation int32) *step {
	offset, memberID := x.Int64N(100), ""
	if generation >= 0 {
		memberID = "unknown"
	}
	st := x.step(t, kmsg.TxnOffsetCommit, "offset %d of %v in group %s by %s, generation %d", offset, p, group, g.what, generation)
	x.limit(st, 5)
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrTxnOffsetCommitRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = t.id, g.of(s).id, g.of(s).epoch, group
		r.Generation, r.MemberID = generation, memberID
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = p.n, offset, kmsg.StringPtr("")
		of := kmsg.NewTxnOffsetCommitRequestTopic()
		of.Topic, of.Partitions = p.topic, append(of.Partitions, part)
		r.Topics = append(r.Topics, of)
		return r
	}
	st.after = func(resp kmsg.Response) {
		switch code := resp.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; {
		case code == 0:
			t.open = true
		case generation >= 0 && x.two: // Kafka has begun a transaction
			x.queue = append(x.queue, x.commitTo(t, x.newest(t), x.there(), group, -1))
		}
	}
	return st
}

func (x *transactions) end(t *transaction) *step {
	commit := x.chance(2)
	switch {
	case !t.open && x.chance(2):
		commit = t.ended // a retry
	case !t.open && !x.chance(3):
		return nil
	}
	g := x.producer(t)
	if x.two && t.given > 1 && !t.open && x.chance(2) {
		n := t.given - 2 // the one whose transaction has ended
		g = given{fmt.Sprintf("%s@%d (of %d)", t.id, n, t.given), func(s *side) producer { return s.producerOf(t.id, n) }}
	}
	return x.endOf(t, g, commit)
}

func (x *transactions) endOf(t *transaction, g given, commit bool) *step {
	st := x.step(t, kmsg.EndTxn, "end the transaction of %s, commit %v", g.what, commit)
	x.limit(st, 5)
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrEndTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = t.id, g.of(s).id, g.of(s).epoch, commit
		return r
	}
	st.after = func(resp kmsg.Response) {
		if resp.(*kmsg.EndTxnResponse).ErrorCode != 0 {
			return
		}
		t.ended = commit
		if t.open, t.group, t.parts = false, "", map[partition]bool{}; x.two {
			t.renew()
		}
	}
	return st
}
