package kafka_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// raw is a client that sends any version of any request.
type raw struct {
	t testing.TB
	net.Conn
	last int32
}

func unauthenticated(t testing.TB, s *served) *raw {
	t.Helper()
	c := must.Get(net.Dial("tcp", s.addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &raw{t: t, Conn: c}
}

func dial(t testing.TB, s *served) *raw {
	t.Helper()
	c := unauthenticated(t, s)
	c.login(apiKey)
	return c
}

func (c *raw) login(password string) int16 {
	c.t.Helper()
	return c.loginAs("user", password).ErrorCode
}

// encode is a request with its length and head.
func (c *raw) encode(r kmsg.Request, version int16) []byte {
	c.last++
	r.SetVersion(version)
	b := make([]byte, 4, 100)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(c.last))
	b = append(b, 0, 3, 'r', 'a', 'w')
	if r.IsFlexible() {
		b = append(b, 0)
	}
	b = r.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *raw) send(r kmsg.Request, version int16) {
	c.t.Helper()
	must.Get(c.Write(c.encode(r, version)))(c.t)
}

// receive reads the answer to the request with a correlation ID.
func (c *raw) receive(r kmsg.Request, version int16, number int32) kmsg.Response {
	c.t.Helper()
	head := make([]byte, 8)
	must.NoErrorf(c.t, check.Err(io.ReadFull(c, head)), "%T v%d", r, version)
	b := make([]byte, binary.BigEndian.Uint32(head)-4)
	must.Get(io.ReadFull(c, b))(c.t)
	must.Equalf(c.t, int32(binary.BigEndian.Uint32(head[4:])), number, "%T v%d: answer to request", r, version)
	resp := r.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() && r.Key() != int16(kmsg.ApiVersions) {
		must.Equalf(c.t, b[0], 0, "%T v%d: tagged fields in the head", r, version)
		b = b[1:]
	}
	must.NoErrorf(c.t, resp.ReadFrom(b), "%T v%d", r, version)
	return resp
}

func (c *raw) ask(r kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	c.send(r, version)
	return c.receive(r, version, c.last)
}

// keys asks for the keys that the server offers.
func (c *raw) keys() map[int16]kmsg.ApiVersionsResponseApiKey {
	c.t.Helper()
	keys := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range c.ask(kmsg.NewPtrApiVersionsRequest(), 3).(*kmsg.ApiVersionsResponse).ApiKeys {
		keys[k.ApiKey] = k
	}
	return keys
}

// ended expects the end of the connection.
func (c *raw) ended() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c.Conn); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%d bytes, %v: want the connection closed", n, err)
	}
}

// topic creates a topic.
func topic(t testing.TB, b *broker.Broker, name string, spec broker.TopicSpec) broker.TopicRef {
	t.Helper()
	must.Get(b.CreateTopic(t.Context(), name, spec))(t)
	ref, _ := b.TopicNamed(name)
	return ref
}

// batch is a batch with a record for each value; timestamps are 1000, 1001, ...
func batch(t testing.TB, p *record.Producer, values ...string) []byte {
	t.Helper()
	recs := make([]record.Record, len(values))
	for i, v := range values {
		recs[i] = record.Record{Timestamp: 1000 + int64(i), Key: []byte("k"), Value: []byte(v)}
	}
	b, _ := recordtest.Encode(recs, record.EncodeOptions{Producer: p})
	return b
}

// produceRequest is a Produce of batches to partition 0 of a topic.
func produceRequest(ref broker.TopicRef, acks int16, batches []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batches
	top := kmsg.NewProduceRequestTopic()
	top.Topic, top.TopicID, top.Partitions = ref.Name, ref.ID, []kmsg.ProduceRequestTopicPartition{p}
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis, r.Topics = acks, 30_000, []kmsg.ProduceRequestTopic{top}
	return r
}

// produced is the answer for the first partition.
func produced(r kmsg.Response) *kmsg.ProduceResponseTopicPartition {
	return &r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// fetchRequest is a Fetch of partition 0 of a topic from an offset.
func fetchRequest(ref broker.TopicRef, offset int64) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = offset, 1<<20, -1
	top := kmsg.NewFetchRequestTopic()
	top.Topic, top.TopicID, top.Partitions = ref.Name, ref.ID, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.MaxBytes, r.Topics = 1<<20, []kmsg.FetchRequestTopic{top}
	return r
}

func fetched(r kmsg.Response) *kmsg.FetchResponseTopicPartition {
	return &r.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

// encodeAs is encode with a given correlation ID, for several goroutines.
func (c *raw) encodeAs(r kmsg.Request, version int16, id int32) []byte {
	one := raw{t: c.t, last: id - 1}
	return one.encode(r, version)
}

// next reads the next answer to a Produce, whatever its correlation ID.
func (c *raw) next(version int16) (kmsg.Response, error) {
	head := make([]byte, 9) // with an empty set of tagged fields
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head)-5)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(version)
	return resp, resp.ReadFrom(b)
}
