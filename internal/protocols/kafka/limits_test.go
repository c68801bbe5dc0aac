package kafka_test

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestFetchWithoutMemory: a fetch without memory waits for it, and otherwise returns no data and no
// error.
func TestFetchWithoutMemory(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store, nil)
	ref := topic(t, b, "t", broker.TopicSpec{})
	s := serve(t, b, kafka.Options{})
	if p := produced(dial(t, s).ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 0 {
		t.Fatal(p)
	}
	must.NoError(t, b.Close(t.Context()))
	b = openBroker(t, store, nil) // nothing in memory
	s = serve(t, b, kafka.Options{})
	class := b.Budget().Class(budget.Fetch)
	held := must.Get(class.Reserve(class.Limit()))(t)
	c := dial(t, s)
	r := fetchRequest(ref, 0)
	r.MinBytes, r.MaxWaitMillis = 1, 50
	if p := fetched(c.ask(r, 12)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 1 {
		t.Errorf("%+v", p)
	}
	r.MaxWaitMillis = 60_000
	c.send(r, 12)
	s.asked(t, "Fetch", 2)
	held.Release()
	if p := fetched(c.receive(r, 12, c.last)); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("%+v", p)
	}
}

// TestReadOnly: a follower serves reads, and redirects producers.
func TestReadOnly(t *testing.T) {
	store := objstore.NewMemory()
	leader := openBroker(t, store, nil)
	ref := topic(t, leader, "t", broker.TopicSpec{})
	first := serve(t, leader, kafka.Options{})
	if p := produced(dial(t, first).ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 0 {
		t.Fatal(p)
	}
	s := serve(t, openBroker(t, store, func(o *broker.Options) { o.Core.ReadOnly = true }), kafka.Options{})
	if got := consume(t, client(t, s, kgo.ConsumeTopics("t")), 1); string(got[0].Value) != "v" {
		t.Errorf("%q", got[0].Value)
	}
	c := dial(t, s)
	if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 6 {
		t.Errorf("produce: %+v", p)
	}
	if r := c.ask(kmsg.NewPtrInitProducerIDRequest(), 4).(*kmsg.InitProducerIDResponse); r.ErrorCode != 14 || r.ProducerID != -1 {
		t.Errorf("%+v", r)
	}
}

// TestManyProducersInLittleMemory: many connections that send more than fits into memory are all
// served. The memory for requests is never exceeded, and all of it is released.
func TestManyProducersInLittleMemory(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.Budget = budget.New(16 << 20) })
	s := serve(t, b, kafka.Options{})
	ref := topic(t, b, "t", broker.TopicSpec{})
	clients, each := 16, sebtest.Runs(10, 3)
	large := string(make([]byte, 700_000))
	var sending sync.WaitGroup
	for range clients {
		c := dial(t, s)
		for range each {
			sent := batch(t, nil, large)
			// Errors show as missing answers.
			sending.Go(func() { _, _ = c.Write(c.encodeAs(produceRequest(ref, -1, sent), 9, 7)) })
		}
		sending.Go(func() {
			for range each {
				resp, err := c.next(9)
				if err != nil {
					t.Error(err)
					return
				}
				if p := produced(resp); p.ErrorCode != 0 && p.ErrorCode != 19 { // out of memory
					t.Errorf("%+v", p)
				}
			}
		})
	}
	sending.Wait()
	u := b.Budget().Class(budget.Produce).Usage()
	if u.Peak > u.Limit || u.Peak == 0 {
		t.Errorf("%+v", u)
	}
	sebtest.Eventually(t, "all memory is released", func() bool { return b.Budget().Class(budget.Produce).Used() == 0 })
}
