package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestProduceVersions: every version with every acks stores the bytes and returns their offset;
// acks=0 gets no answer.
func TestProduceVersions(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	next := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{0, 1, -1} {
			sent := batch(t, nil, "a", "b")
			r := produceRequest(ref, acks, sent)
			if acks == 0 {
				c.send(r, version)
			} else if p := produced(c.ask(r, version)); p.ErrorCode != 0 || p.BaseOffset != next || p.LogAppendTime != -1 || version >= 5 && p.LogStartOffset != 0 {
				t.Fatalf("v%d acks %d: %+v, want offset %d", version, acks, p, next)
			}
			next += 2
		}
	}
	got := fetched(c.ask(fetchRequest(ref, 0), 12))
	check.Equalf(t, got.HighWatermark, next, "records are stored")
	at := int64(0)
	for b := got.RecordBatches; len(b) > 0; at += 2 {
		one, rest := must.Get2(record.Split(b))(t)
		want := batch(t, nil, "a", "b")
		record.Patch(want, at, int32(s.b.Epoch()))
		must.Equalf(t, string(one), string(want), "at %d: %x, want %x", at, one, want)
		b = rest
	}
	if at != next {
		t.Errorf("%d of %d records came back", at, next)
	}
}

// TestProduceRefused: an invalid produce has its code and nothing of it is stored; valid parts of
// the same request are stored.
func TestProduceRefused(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{Settings: map[string]string{"max-batch-bytes": "500"}})
	good := func() []byte { return batch(t, nil, "v") }
	changed := func(at int, b byte) []byte {
		g := good()
		g[at] = b
		crc(g)
		return g
	}
	id := "tx"
	for name, c := range map[string]struct {
		version int16
		change  func(r *kmsg.ProduceRequest)
		code    int16
	}{
		"magic 1":        {7, records(changed(16, 1)), 43},
		"magic 0":        {7, records(changed(16, 0)), 43},
		"old version":    {2, records(good()), 43},
		"a flipped bit":  {9, func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records[65] ^= 1 }, 2},
		"cut off":        {9, records(good()[:65]), 2},
		"nothing":        {9, records(nil), 87},
		"control":        {9, records(changed(22, 0x20)), 87},
		"transactional":  {9, records(changed(22, 0x10)), 53},
		"append time":    {9, records(changed(22, 0x08)), 32},
		"zstd before v7": {6, records(changed(22, 4)), 76},
		"of an unknown id": {9, func(r *kmsg.ProduceRequest) {
			r.TransactionID = &id
			r.Topics[0].Partitions[0].Records = ofTransaction(batch(t, &record.Producer{ID: 7}, "v"))
		}, 49},
		"unknown codec":          {9, records(changed(22, 5)), 76},
		"count":                  {9, records(changed(60, 2)), 87},
		"unknown topic":          {12, func(r *kmsg.ProduceRequest) { r.Topics[0].Topic = "other" }, 3},
		"unknown topic id":       {13, func(r *kmsg.ProduceRequest) { r.Topics[0].TopicID[0]++ }, 100},
		"unknown partition":      {9, func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 1 }, 3},
		"negative partition":     {9, func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = -1 }, 3},
		"acks 2":                 {9, func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 21},
		"a batch over the limit": {9, records(batch(t, nil, string(make([]byte, 600)))), 10},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, s)
			r := produceRequest(ref, -1, good())
			c.change(r)
			if p := produced(conn.ask(r, c.version)); p.ErrorCode != c.code || p.BaseOffset != -1 {
				t.Errorf("answered with %d at %d, want %d", p.ErrorCode, p.BaseOffset, c.code)
			}
			check.Equalf(t, fetched(conn.ask(fetchRequest(ref, 0), 12)).HighWatermark, 0, "a refused batch was stored")
		})
	}
	conn := dial(t, s)
	r := produceRequest(ref, -1, good())
	wrong := kmsg.NewProduceRequestTopic()
	wrong.Topic, wrong.Partitions = "other", r.Topics[0].Partitions
	r.Topics = append([]kmsg.ProduceRequestTopic{wrong}, r.Topics...)
	got := conn.ask(r, 9).(*kmsg.ProduceResponse)
	if a, b := got.Topics[0].Partitions[0], got.Topics[1].Partitions[0]; a.ErrorCode != 3 || b.ErrorCode != 0 || b.BaseOffset != 0 {
		t.Errorf("%+v", got)
	}
	bad := produceRequest(ref, 0, good())
	bad.Topics[0].Partitions[0].Partition = 7
	conn.send(bad, 9)
	conn.ended() // acks=0: the connection ends
}

func records(b []byte) func(*kmsg.ProduceRequest) {
	return func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records = b }
}

// ofTransaction makes a batch one of a transaction.
func ofTransaction(b []byte) []byte {
	b[22] |= record.AttrTransactional
	crc(b)
	return b
}

// crc corrects the checksum of a batch.
func crc(b []byte) { binary.BigEndian.PutUint32(b[17:], record.CRC32C(b[21:])) }

// TestProduceAgain: each of a producer's last five batches is stored once, and a repeat returns its
// first offset. A gap and an older epoch are refused; a new epoch starts at sequence 0.
func TestProduceAgain(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	init := c.ask(kmsg.NewPtrInitProducerIDRequest(), 4).(*kmsg.InitProducerIDResponse)
	if init.ErrorCode != 0 || init.ProducerID < 1<<32 || init.ProducerEpoch != 0 {
		t.Fatalf("%+v", init)
	}
	if again := c.ask(kmsg.NewPtrInitProducerIDRequest(), 0).(*kmsg.InitProducerIDResponse); again.ProducerID == init.ProducerID {
		t.Error("the same producer ID again")
	}
	send := func(epoch int16, sequence int32) *kmsg.ProduceResponseTopicPartition {
		p := record.Producer{ID: init.ProducerID, Epoch: epoch, Sequence: sequence}
		return produced(c.ask(produceRequest(ref, -1, batch(t, &p, "a", "b")), 9))
	}
	for i := range int32(7) {
		if p := send(0, 2*i); p.ErrorCode != 0 || p.BaseOffset != int64(2*i) {
			t.Fatalf("%d: %+v", i, p)
		}
	}
	for i := int32(2); i < 7; i++ {
		if p := send(0, 2*i); p.ErrorCode != 0 || p.BaseOffset != int64(2*i) {
			t.Errorf("%d again: %+v", i, p)
		}
	}
	for _, c := range []struct {
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{{0, 16, 45, -1}, {1, 0, 0, 14}, {0, 14, 47, -1}, {1, 2, 0, 16}} {
		if p := send(c.epoch, c.sequence); p.ErrorCode != c.code || p.BaseOffset != c.offset {
			t.Errorf("epoch %d sequence %d: %+v, want %d at %d", c.epoch, c.sequence, p, c.code, c.offset)
		}
	}
	tx := kmsg.NewPtrInitProducerIDRequest()
	tx.TransactionalID = new(string)
	if got := c.ask(tx, 4).(*kmsg.InitProducerIDResponse); got.ErrorCode != 42 {
		t.Errorf("an empty transactional ID: %+v", got)
	}
}

// stuck is a store whose PUTs can be held.
type stuck struct {
	objstore.Store
	held atomic.Pointer[chan struct{}]
	puts atomic.Int64
}

func (s *stuck) Put(ctx context.Context, key string, body objstore.Body) error {
	if held := s.held.Load(); held != nil {
		s.puts.Add(1)
		select {
		case <-*held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.Put(ctx, key, body)
}

// TestUnknownOutcome: a batch that was sent to the store and not confirmed in time is
// REQUEST_TIMED_OUT. One that was not sent is NOT_ENOUGH_REPLICAS and never stored. A repeat
// returns the offset of the first one.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	store := &stuck{Store: objstore.NewMemory()}
	s := serve(t, openBroker(t, store, nil), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	held := make(chan struct{})
	store.held.Store(&held)
	ask := func(sequence int32) int16 {
		p := record.Producer{ID: 7, Sequence: sequence}
		r := produceRequest(ref, -1, batch(t, &p, fmt.Sprint(sequence)))
		r.TimeoutMillis = 100
		return produced(c.ask(r, 9)).ErrorCode
	}
	codes := map[int16]int{}
	for i := range int32(10) {
		codes[ask(i)]++ // the window is four slots
	}
	if codes[7] == 0 || codes[19] == 0 || codes[7]+codes[19]+codes[45] != 10 {
		t.Errorf("codes %v", codes)
	}
	store.held.Store(nil)
	close(held)
	p := record.Producer{ID: 7}
	if got := produced(c.ask(produceRequest(ref, -1, batch(t, &p, "0")), 9)); got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("again: %+v", got)
	}
	seen := map[string]bool{}
	var r record.Reader
	for r.Reset(fetched(c.ask(fetchRequest(ref, 0), 12)).RecordBatches, 0); r.Next(); {
		if v := string(r.Record().Value); seen[v] {
			t.Errorf("%s is stored twice", v)
		} else {
			seen[v] = true
		}
	}
	check.Equalf(t, len(seen), codes[7], "records are stored")
}

// TestShortTimeout: a timeout shorter than the batch wait does not fail an append.
func TestShortTimeout(t *testing.T) {
	t.Parallel()
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.Batch.Wait = 250 * time.Millisecond })
	s := serve(t, b, kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	r := produceRequest(ref, -1, batch(t, nil, "v"))
	r.TimeoutMillis = 1
	if p := produced(c.ask(r, 9)); p.ErrorCode != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFenced: a deposed broker redirects its clients.
func TestFenced(t *testing.T) {
	store := objstore.NewMemory()
	s := serve(t, openBroker(t, store, nil), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	openBroker(t, store, nil)
	// The first batch was sent before the broker found the seal, so its outcome is unknown (rule
	// R6).
	if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 7 && p.ErrorCode != 6 {
		t.Errorf("%+v", p)
	}
	if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 6 {
		t.Errorf("again: %+v", p)
	}
}

// TestProducePipelined: a hundred pipelined produces of one connection are stored in order, and
// share objects instead of waiting for each other.
func TestProducePipelined(t *testing.T) {
	store := &stuck{Store: objstore.NewMemory()}
	open := make(chan struct{})
	close(open)
	s := serve(t, openBroker(t, store, nil), kafka.Options{})
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	store.held.Store(&open) // counts PUTs
	c := dial(t, s)
	const n = 100
	first := c.last + 1
	for i := range n {
		c.send(produceRequest(ref, -1, batch(t, nil, fmt.Sprint(i))), 9)
	}
	for i := range n {
		if p := produced(c.receive(kmsg.NewPtrProduceRequest(), 9, first+int32(i))); p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("%d: %+v", i, p)
		}
	}
	if puts := store.puts.Load(); puts > n/2 {
		t.Errorf("%d objects for %d requests", puts, n)
	}
	at := 0
	var r record.Reader
	for r.Reset(fetched(c.ask(fetchRequest(ref, 0), 12)).RecordBatches, 0); r.Next(); at++ {
		must.Equalf(t, string(r.Record().Value), fmt.Sprint(at), "%q at %d", r.Record().Value, at)
	}
	if at != n {
		t.Errorf("%d of %d records are stored", at, n)
	}
}
