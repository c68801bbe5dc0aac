package differential

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
)

func (w *generator) initProducer() *step {
	n := w.producers
	st := &step{what: fmt.Sprintf("an id for producer %d", n), key: kmsg.InitProducerID, version: anyVersion, producer: n}
	transactional := w.chance(8)
	if transactional {
		st.transactional = w.prefix + "transactional"
		st.what = "an id for a transactional producer"
	} else {
		w.producers++
	}
	id, epoch := int64(-1), int16(-1)
	if w.chance(10) {
		id, epoch = pick(w, int64(5), -1), pick(w, int16(0), 3)
		st.what += ", with one it has"
	}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = 60_000, id, epoch
		if transactional {
			r.TransactionalID = kmsg.StringPtr(w.prefix + "transactional")
		}
		return r
	}
	return st
}

var codecs = []record.Compression{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}

// records returns a few records, with keys and headers or without.
func (w *generator) records(key bool) []record.Record {
	list := make([]record.Record, 1+w.IntN(5))
	at := pick(w, int64(1000), 5000, 1_700_000_000_000) + w.Int64N(100)
	for i := range list {
		list[i] = record.Record{Timestamp: at + pick(w, int64(0), 1, 7, -3), Value: []byte(strings.Repeat("v", w.IntN(90)))}
		if key {
			list[i].Key = []byte(fmt.Sprintf("k%d", w.IntN(4)))
		}
		if w.chance(6) {
			list[i].Value = nil
		}
		if w.chance(5) {
			list[i].Headers = []record.Header{{Key: "h", Value: []byte("x")}}
		}
	}
	return list
}

// spoilers make a batch invalid.
var spoilers = []struct {
	what  string
	spoil func(b []byte) []byte
}{
	{"wrong checksum", func(b []byte) []byte { b[atCRC] ^= 1; return b }},
	{"magic 1", func(b []byte) []byte { b[atMagic] = 1; return b }},
	{"magic 0", func(b []byte) []byte { b[atMagic] = 0; return b }},
	{"magic 3", func(b []byte) []byte { b[atMagic] = 3; return b }},
	{"a record too many in the count", func(b []byte) []byte { b[atCount+3]++; return seal(b) }},
	{"a record too many in the count and the delta", func(b []byte) []byte { b[atCount+3]++; b[atLastDelta+3]++; return seal(b) }},
	{"wrong last offset delta", func(b []byte) []byte { b[atLastDelta+3]++; return seal(b) }},
	{"a count of -1", func(b []byte) []byte { binary.BigEndian.PutUint32(b[atCount:], ^uint32(0)); return seal(b) }},
	{"two batches", func(b []byte) []byte { return append(b[:len(b):len(b)], b...) }},
	{"nothing", func([]byte) []byte { return []byte{} }},
	{"cut off", func(b []byte) []byte { return b[:len(b)-1] }},
	{"only a head that is cut off", func(b []byte) []byte { return b[:20] }},
	{"bytes behind it", func(b []byte) []byte { return append(b[:len(b):len(b)], 1, 2, 3) }},
	{"transactional", func(b []byte) []byte { b[atAttributes+1] |= 0x10; return seal(b) }},
	{"control", func(b []byte) []byte { b[atAttributes+1] |= 0x20; return seal(b) }},
	{"an append time of its own", func(b []byte) []byte { b[atAttributes+1] |= 0x08; return seal(b) }},
	{"codec 6", func(b []byte) []byte { b[atAttributes+1] |= 6; return seal(b) }},
	{"gzip that is none", func(b []byte) []byte { b[atAttributes+1] = 1; return seal(b) }},
	{"base offset 7", func(b []byte) []byte { b[7] = 7; return b }},
	{"a leader epoch", func(b []byte) []byte { b[atEpoch+3] = 5; return b }},
	{"a wrong length", func(b []byte) []byte { b[atLength+3]++; return b }},
	{"max timestamp too late", func(b []byte) []byte { b[atMaxTime+7]++; return seal(b) }},
	{"max timestamp too early", func(b []byte) []byte { b[atMaxTime+6]--; return seal(b) }},
	{"no max timestamp", func(b []byte) []byte { binary.BigEndian.PutUint64(b[atMaxTime:], ^uint64(0)); return seal(b) }},
	{"unknown attribute", func(b []byte) []byte { b[atAttributes] |= 0x40; return seal(b) }},
	{"garbage for records", func(b []byte) []byte {
		for i := batchHead; i < len(b); i++ {
			b[i] = 0xff
		}
		b[atAttributes+1] &^= attrCodec
		return seal(b)
	}},
}

// loners are batches that make Kafka refuse a whole request. "null" is omitted because Kafka 4.3.1
// never answers it.
var loners = []string{"magic 0", "magic 1", "magic 3", "transactional", "codec 6", "gzip that is none", "garbage for records"}

// batch chooses the batch for a partition, and describes it.
func (w *generator) batch(name string, p int32) (content, string) {
	c := content{producer: -1, codec: pick(w, codecs...)}
	key := !w.chance(8) || strings.HasSuffix(name, compacted) && !w.chance(2)
	c.records = w.records(key)
	what := fmt.Sprintf("%d records, codec %d, keys %v", len(c.records), c.codec, key)
	switch n := w.IntN(20); {
	case n < 6 && w.producers > 0:
		what += w.sequence(&c, name, p)
	case n < 10:
		s := spoilers[w.IntN(len(spoilers))]
		c.spoil, c.alone = s.spoil, slices.Contains(loners, s.what)
		what += ", " + s.what
	case n == 10:
		c.codec = record.None
		c.records[0].Value = make([]byte, pick(w, 400, 2100, 1_100_000))
		what += ", large"
	case n == 11:
		// Kafka accepts times up to an hour in the future; these are far from that limit.
		c.records[0].Timestamp = pick(w, int64(0), 4_000_000_000_000)
		what += fmt.Sprintf(", at %d", c.records[0].Timestamp)
	}
	return c, what
}

// sequence chooses the sequence of an idempotent producer's batch.
func (w *generator) sequence(c *content, name string, p int32) string {
	c.producer = w.IntN(w.producers)
	at := seqKey{c.producer, name, p}
	next := w.sequences[at]
	c.sequence, c.epoch = next, w.epochs[c.producer]
	c.records = w.records(true)[:1] // so that each sequence number is a batch
	c.records[0].Timestamp = 1000 + int64(next)
	c.records[0].Headers, c.records[0].Key, c.records[0].Value = nil, []byte("k"), []byte("same")
	c.codec = record.None
	what := "in order"
	switch w.IntN(10) {
	case 0:
		c.sequence, what = next-1, "the last one again"
	case 1:
		c.sequence, what = next-5, "five back"
	case 2:
		c.sequence, what = next-6, "six back"
	case 3:
		c.sequence, what = next+pick(w, int32(1), 3), "after a gap"
	case 4:
		c.epoch, what = c.epoch+1, "of the next epoch"
		if w.chance(2) {
			c.sequence, what = 0, "of the next epoch, from 0"
		}
	case 5:
		if c.epoch > 0 {
			c.epoch, what = c.epoch-1, "of the epoch before"
		}
	case 6:
		c.unknownProducer, what = true, "of an unknown producer"
	case 7:
		c.sequence, what = next-2, "the last but one again"
	}
	if c.sequence < 0 {
		c.sequence, what = next, "in order"
	}
	return fmt.Sprintf(", producer %d, sequence %d, %s", c.producer, c.sequence, what)
}

// produced is a batch for a partition.
type produced struct {
	topic string
	n     int32
	content
}

// bring chooses the batches of a produce.
func (w *generator) bring() (parts []produced, what []string) {
	const most = 2
	for range 1 + w.IntN(most) {
		p := produced{topic: w.topicName()}
		p.n = w.partition(p.topic)
		for _, other := range parts {
			if other.topic == p.topic && other.n == p.n {
				p.topic = "" // clients do not send a partition twice
			}
		}
		if p.topic == "" || len(parts) > 0 && parts[0].alone {
			continue
		}
		var of string
		p.content, of = w.batch(p.topic, p.n)
		if p.alone && len(parts) > 0 {
			continue
		}
		parts = append(parts, p)
		what = append(what, fmt.Sprintf("%s/%d: %s", p.topic, p.n, of))
	}
	slices.SortFunc(parts, func(a, b produced) int { return strings.Compare(a.topic, b.topic) })
	return parts, what
}

// blameless keeps batches that both brokers accept, because acks=0 hides differences.
func blameless(parts []produced) {
	for i := range parts {
		parts[i].spoil = nil
		for j := range parts[i].records {
			parts[i].records[j].Key = []byte("k")
			parts[i].records[j].Timestamp = 1000
		}
	}
}

func (w *generator) produce() *step {
	parts, what := w.bring()
	acks := pick(w, int16(1), -1, -1, 1, -1, 0)
	if w.chance(20) {
		acks = pick(w, int16(2), -2)
	}
	if acks == 0 {
		blameless(parts)
	}
	transaction := w.chance(40) && acks != 0
	version := int16(anyVersion)
	if w.chance(15) {
		version = w.IntN16(3)
	}
	st := &step{
		what: fmt.Sprintf("produce acks=%d %s", acks, strings.Join(what, "; ")), key: kmsg.Produce, version: version, silent: acks == 0,
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = acks, 20_000
		if transaction {
			r.TransactionID = kmsg.StringPtr(w.prefix + "transactional")
		}
		for i := range parts {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = parts[i].n, parts[i].encode(s)
			if i == 0 || parts[i-1].topic != parts[i].topic {
				t := kmsg.NewProduceRequestTopic()
				t.Topic, t.TopicID = parts[i].topic, idOf(s, parts[i].topic)
				r.Topics = append(r.Topics, t)
			}
			t := &r.Topics[len(r.Topics)-1]
			t.Partitions = append(t.Partitions, p)
		}
		return r
	}
	st.after = func(resp kmsg.Response) {
		if got := resp.(*kmsg.ProduceResponse); acks != 0 {
			for i := range parts {
				w.appended(&parts[i].content, parts[i].topic, parts[i].n, got)
			}
		}
	}
	return st
}

// appended takes over the result of a batch: the partition's end and the producer's sequence.
func (w *generator) appended(c *content, name string, n int32, resp *kmsg.ProduceResponse) {
	t := w.topics[name]
	for i := range resp.Topics {
		for _, got := range resp.Topics[i].Partitions {
			if t == nil || !same(t.name, resp.Topics[i].Topic) || got.Partition != n || got.ErrorCode != 0 {
				continue
			}
			t.ends[n] = max(t.ends[n], got.BaseOffset+int64(len(c.records)))
			if c.producer < 0 || c.unknownProducer {
				return
			}
			if c.epoch > w.epochs[c.producer] {
				w.epochs[c.producer] = c.epoch
				maps.DeleteFunc(w.sequences, func(at seqKey, _ int32) bool { return at.producer == c.producer })
			}
			at := seqKey{c.producer, name, n}
			w.sequences[at] = max(w.sequences[at], c.sequence+1)
		}
	}
}

// same reports whether an answer is about a topic; with topic ids the name is empty.
func same(name, answered string) bool { return answered == "" || answered == name }

// IntN16 is IntN for versions.
func (w *generator) IntN16(n int) int16 { return int16(w.IntN(n)) }

func (w *generator) fetch() *step {
	type part struct {
		topic          string
		n              int32
		offset         int64
		most           int32
		epochFromNow   int32
		epochSaid      bool
		lastFetchEpoch int32
	}
	var parts []part
	seen := map[seqKey]bool{}
	for range 1 + w.IntN(3) {
		p := part{topic: w.topicName(), most: pick(w, int32(1<<20), 1<<20, 1, 200, 0), lastFetchEpoch: -1}
		p.n = w.partition(p.topic)
		if at := (seqKey{0, p.topic, p.n}); !seen[at] {
			seen[at] = true
			p.offset = w.offset(p.topic, p.n)
			if w.chance(5) {
				p.epochSaid, p.epochFromNow = true, pick(w, int32(0), 1)
			}
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.topic, b.topic) })
	wait, least, most := pick(w, int32(0), 0, 20), pick(w, int32(0), 1, 1<<20), pick(w, int32(1<<20), 1<<20, 1, 300)
	isolation := pick(w, int8(0), 0, 1)
	session, sessionEpoch := int32(0), int32(-1)
	switch w.IntN(20) {
	case 0:
		sessionEpoch = 0
	case 1:
		session, sessionEpoch = 12345, 1
	case 2:
		session, sessionEpoch = 0, 3
	}
	what := fmt.Sprintf("fetch %+v, at most %d bytes", parts, most)
	small := most < 1<<20 || slices.ContainsFunc(parts, func(p part) bool { return p.most < 1<<20 })
	return &step{what: what, key: kmsg.Fetch, small: small, version: anyVersion, reads: session == 0 && sessionEpoch == -1, build: func(s *side) kmsg.Request {
		r := kmsg.NewPtrFetchRequest()
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.IsolationLevel = wait, least, most, isolation
		r.SessionID, r.SessionEpoch = session, sessionEpoch
		for i, p := range parts {
			out := kmsg.NewFetchRequestTopicPartition()
			out.Partition, out.FetchOffset, out.PartitionMaxBytes, out.CurrentLeaderEpoch = p.n, p.offset, p.most, -1
			if p.epochSaid {
				out.CurrentLeaderEpoch = s.epochs[p.topic] + p.epochFromNow
			}
			if i == 0 || parts[i-1].topic != p.topic {
				t := kmsg.NewFetchRequestTopic()
				t.Topic, t.TopicID = p.topic, idOf(s, p.topic)
				r.Topics = append(r.Topics, t)
			}
			t := &r.Topics[len(r.Topics)-1]
			t.Partitions = append(t.Partitions, out)
		}
		return r
	}}
}

func (w *generator) listOffsets() *step {
	name := w.topicName()
	n := w.partition(name)
	at := pick(w, int64(-1), -2, -3, -4, -5, -6, -7, -100, 0, 1000, 1003, 1050, 1099, 5000, 5050, 1_700_000_000_000, 1_700_000_000_050, 1_900_000_000_000)
	said, from := w.chance(5), pick(w, int32(0), 1)
	isolation := pick(w, int8(0), 0, 1)
	st := &step{what: fmt.Sprintf("offset of %s/%d at %d", name, n, at), key: kmsg.ListOffsets, version: anyVersion, reads: true}
	if t := w.topics[name]; t != nil {
		st.cut = t.starts[n] > 0 && (at >= 0 || at == -3)
	}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID, r.IsolationLevel, r.TimeoutMillis = -1, isolation, 20_000
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = n, at, -1
		if said {
			p.CurrentLeaderEpoch = s.epochs[name] + from
		}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}
	st.after = func(resp kmsg.Response) {
		p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		t := w.topics[name]
		switch {
		case t == nil || p.ErrorCode != 0:
		case at == -1:
			t.ends[n] = p.Offset
		case at == -2:
			t.starts[n] = p.Offset
		}
	}
	return st
}

func (w *generator) offsetForLeaderEpoch() *step {
	name := w.topicName()
	n := w.partition(name)
	of := pick(w, int32(0), 0, 1, -1)
	said, from := w.chance(3), pick(w, int32(0), 1)
	st := &step{what: fmt.Sprintf("end of epoch %+d of %s/%d", of, name, n), key: kmsg.OffsetForLeaderEpoch, version: anyVersion, reads: true}
	st.build = func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.ReplicaID = -1
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = n, -1, s.epochs[name]+of
		if of == -1 {
			p.LeaderEpoch = -1
		}
		if said {
			p.CurrentLeaderEpoch = s.epochs[name] + from
		}
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = name
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}
	return st
}

func (w *generator) deleteRecords() *step {
	name := w.topicName()
	n := w.partition(name)
	offset := w.offset(name, n)
	if w.chance(4) {
		offset = pick(w, int64(-1), -2)
	}
	st := &step{what: fmt.Sprintf("delete records of %s/%d below %d", name, n, offset), key: kmsg.DeleteRecords, version: anyVersion}
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.TimeoutMillis = 20_000
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = n, offset
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = name
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	}
	st.after = func(resp kmsg.Response) {
		p := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		if t := w.topics[name]; t != nil && p.ErrorCode == 0 {
			t.starts[n], t.ends[n] = p.LowWatermark, max(t.ends[n], p.LowWatermark)
		}
	}
	return st
}
