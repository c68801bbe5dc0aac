package kafka_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestTooLargeProduce: a Produce above the limit of requests gets MESSAGE_TOO_LARGE for each of its
// partitions, in every version, and the connection continues. All of it is one line in the log, which
// names the client.
func TestTooLargeProduce(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.Budget = budget.New(16 << 20) })
	var out sebtest.Log
	s := serve(t, b, kafka.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	ref := topic(t, b, "t", broker.TopicSpec{Partitions: 2})
	other := topic(t, b, "u", broker.TopicSpec{})
	large := make([]byte, 3<<20)
	c := dial(t, s)
	for version := int16(0); version <= 13; version++ {
		r := produceRequest(ref, -1, nil)
		r.Topics = nil
		for _, ref := range []broker.TopicRef{ref, other} {
			p := kmsg.NewProduceRequestTopic()
			p.Topic, p.TopicID = ref.Name, ref.ID
			for i := range ref.Partitions {
				q := kmsg.NewProduceRequestTopicPartition()
				q.Partition, q.Records = int32(i), large[:i<<20+100]
				p.Partitions = append(p.Partitions, q)
			}
			r.Topics = append(r.Topics, p)
		}
		r.Topics[1].Partitions[0].Records = large
		resp := c.ask(r, version).(*kmsg.ProduceResponse)
		n := 0
		for i, top := range resp.Topics {
			if version < 13 && top.Topic != r.Topics[i].Topic || version >= 13 && top.TopicID != r.Topics[i].TopicID {
				t.Errorf("v%d: topic %q", version, top.Topic)
			}
			for j, p := range top.Partitions {
				if n++; p.ErrorCode != 10 || p.Partition != int32(j) || p.BaseOffset != -1 {
					t.Errorf("v%d: %+v", version, p)
				}
			}
		}
		check.Equalf(t, n, 3, "v%d: partitions", version)
	}
	if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("a request after them: %+v", p)
	}
	check.Equalf(t, strings.Count(out.String(), "level=WARN"), 1, "lines: %s", out.String())
	host, _, _ := net.SplitHostPort(c.LocalAddr().String())
	check.Containsf(t, out.String(), "client=raw remote="+host+":", "the line")
	sebtest.Eventually(t, "all memory is released", func() bool { return b.Budget().Class(budget.Produce).Used() == 0 })

	cl := client(t, s, kgo.ProducerBatchMaxBytes(5<<20), kgo.MaxBufferedBytes(10<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: large}).FirstErr()
	check.ErrorContains(t, err, "MESSAGE_TOO_LARGE")
}

// TestTooLargeBatch: a batch that its topic does not allow is refused also while no memory is free, in
// every version. The requests of another connection, which fit, wait for memory.
func TestTooLargeBatch(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.Budget = budget.New(64 << 20) })
	s := serve(t, b, kafka.Options{})
	ref := topic(t, b, "t", broker.TopicSpec{Partitions: 2, Settings: map[string]string{"max-batch-bytes": "100000"}})
	produce := b.Budget().Class(budget.Produce)
	memory := must.Get(produce.Reserve(produce.Limit() - 32<<10))(t)
	large, fits := batch(t, nil, strings.Repeat("x", 100_000)), batch(t, nil, strings.Repeat("x", 90_000))
	waiting, done := dial(t, s), make(chan int16)
	go func() { done <- produced(waiting.ask(produceRequest(ref, -1, fits), 9)).ErrorCode }()
	sebtest.Eventually(t, "the request waits", func() bool { return produce.Usage().Waiting == 1 })
	c := dial(t, s)
	for version := int16(3); version <= 13; version++ {
		if p := produced(c.ask(produceRequest(ref, -1, large), version)); p.ErrorCode != 10 || p.BaseOffset != -1 {
			t.Errorf("v%d: %+v", version, p)
		}
	}
	memory.Release()
	check.Equalf(t, <-done, 0, "the request that fits")
	unknown := ref
	unknown.Name = "u"
	check.Equalf(t, produced(c.ask(produceRequest(unknown, -1, large), 9)).ErrorCode, 3, "an unknown topic")
	two := produceRequest(ref, -1, large)
	two.Topics[0].Partitions = append(two.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1, Records: fits})
	parts := c.ask(two, 9).(*kmsg.ProduceResponse).Topics[0].Partitions
	if parts[0].ErrorCode != 10 || parts[1].ErrorCode != 0 {
		t.Errorf("a request with two partitions: %+v", parts)
	}
}

// TestTooLargeRequest: without an answer that a client understands, a request above the limit ends the
// connection. A client that repeats it does not fill the log.
func TestTooLargeRequest(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.Budget = budget.New(16 << 20) })
	var out sebtest.Log
	s := serve(t, b, kafka.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	ref := topic(t, b, "t", broker.TopicSpec{})
	large := make([]byte, 3<<20)
	unanswered := produceRequest(ref, 0, nil)
	unanswered.Topics[0].Partitions[0].Records = large
	broken := dial(t, s).encode(unanswered, 9)
	for i := range broken[30:] {
		broken[30+i] = 0xff
	}
	for name, send := range map[string]func(c *raw) []byte{
		"metadata": func(c *raw) []byte {
			r := kmsg.NewPtrMetadataRequest()
			for range 5000 {
				r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(strings.Repeat("x", 249))})
			}
			return c.encode(r, 9)
		},
		"acks=0":    func(c *raw) []byte { return c.encode(unanswered, 9) },
		"malformed": func(*raw) []byte { return broken },
	} {
		for range 3 {
			c := dial(t, s)
			_, _ = c.Write(send(c)) // it may fail when the broker closes
			if n, _ := io.Copy(io.Discard, c.Conn); n != 0 {
				t.Errorf("%s: %d bytes", name, n)
			}
		}
	}
	lines := strings.Count(out.String(), "level=WARN")
	if want := strings.Count(out.String(), "client=raw"); lines == 0 || lines > 2 || want != lines {
		t.Errorf("%d lines, %d with the client: %s", lines, want, out.String())
	}
	sebtest.Eventually(t, "all memory is released", func() bool { return b.Budget().Class(budget.Produce).Used() == 0 })
}

// TestOldVersionsAreLogged: the log names a client whose versions are too old, because such clients
// do not understand the answer.
func TestOldVersionsAreLogged(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), nil)
	var out sebtest.Log
	s := serve(t, b, kafka.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	ref := topic(t, b, "t", broker.TopicSpec{})
	for range 3 {
		c := dial(t, s)
		if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 2)); p.ErrorCode != 43 {
			t.Errorf("Produce v2: %+v", p)
		}
		c.send(fetchRequest(ref, 0), 3)
		c.ended()
	}
	for _, want := range []string{"api=Produce version=2 min=3 max=13 client=raw", "api=Fetch version=3 min=4 max=18 client=raw"} {
		check.Equalf(t, strings.Count(out.String(), want), 1, "lines with %q: %s", want, out.String())
	}
}
