package kafka_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// pipes is a listener for connections in memory, because a fuzz target opens more connections than
// there are ports.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.ended); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// piped is a server whose connections are pipes.
type piped struct {
	*pipes
	b *broker.Broker
}

func servePipes(f *testing.F) *piped {
	f.Helper()
	s := &piped{&pipes{make(chan net.Conn), make(chan struct{})}, openBroker(f, objstore.NewMemory(), nil)}
	groups := coordinator.Open(context.Background(), coordinator.Options{Broker: s.b, InitialDelay: -1, SessionMin: time.Millisecond, Logger: quiet})
	f.Cleanup(groups.Close)
	k := must.Get(kafka.New(s.b, kafka.Options{
		Auth: authority(f, s.b), Groups: groups, Cluster: cluster.NewBoard(cluster.Registration{}), Advertised: "127.0.0.1:9092", Logger: quiet,
	}))(f)
	done := make(chan error, 1)
	ctx := context.Background()
	go func() { done <- k.Serve(ctx, s.pipes) }()
	f.Cleanup(func() { check.NoError(f, errors.Join(k.Close(context.Background()), <-done)) })
	return s
}

// dial connects a client. At the end of the test it is closed, and no memory may be reserved.
func (s *piped) dial(t *testing.T) *raw {
	t.Helper()
	here, there := net.Pipe()
	s.conns <- there
	_ = here.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() {
		_ = here.Close()
		sebtest.Eventually(t, "no memory is reserved", func() bool {
			return s.b.Budget().Class(budget.Fetch).Used()+s.b.Budget().Class(budget.Produce).Used() == 0
		})
	})
	return &raw{t: t, Conn: here}
}

// moment is how long a test waits for an answer that need not come.
const moment = 200 * time.Millisecond

// answered sends the bytes of a request and returns the answer after its correlation ID. It returns
// nil if the connection ended, or no answer began within wait, as for a long poll.
func (c *raw) answered(request []byte, wait time.Duration) []byte {
	c.t.Helper()
	go func() { _, _ = c.Write(request) }() // the server may stop reading
	_ = c.SetReadDeadline(time.Now().Add(wait))
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	must.NoErrorf(c.t, check.Err(io.ReadFull(c, b)), "truncated answer")
	if !bytes.Equal(b[:4], request[8:12]) {
		c.t.Fatalf("correlation ID %x, want %x", b[:4], request[8:12])
	}
	return b[4:]
}

// enveloped is a request with a key, a version and any body.
func enveloped(key, version int16, flexible bool, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4, 32+len(body)), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 77, 0, 1, 'f')
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// FuzzServer: a request with any body, authenticated or not, gets an answer that a client can
// decode or ends the connection. The next client is served.
func FuzzServer(f *testing.F) {
	s := servePipes(f)
	must.Get(s.b.CreateTopic(f.Context(), "t", broker.TopicSpec{Partitions: 2}))(f)
	apis := append(offered(f, s), kmsg.ApiVersionsResponseApiKey{ApiKey: int16(kmsg.Envelope)})
	for i, a := range apis {
		for version := a.MinVersion; version <= a.MaxVersion; version++ {
			r := kmsg.RequestForKey(a.ApiKey)
			r.SetVersion(version)
			f.Add(uint8(i), uint8(version-a.MinVersion), true, r.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, which, v uint8, trusted bool, body []byte) {
		if len(body) > 256<<10 {
			return
		}
		a := apis[int(which)%len(apis)]
		version := a.MinVersion + int16(v)%(a.MaxVersion-a.MinVersion+1)
		r := kmsg.RequestForKey(a.ApiKey)
		r.SetVersion(version)
		c := s.dial(t)
		if trusted {
			c.login(apiKey)
		}
		got := c.answered(enveloped(a.ApiKey, version, r.IsFlexible(), body), moment)
		if got != nil {
			resp := r.ResponseKind()
			resp.SetVersion(version)
			if resp.IsFlexible() && a.ApiKey != int16(kmsg.ApiVersions) {
				got = got[1:]
			}
			if err := resp.ReadFrom(got); err != nil && a.ApiKey != int16(kmsg.ApiVersions) {
				t.Fatalf("%T v%d: %v: %x", r, version, err, got)
			}
			open := a.ApiKey == int16(kmsg.ApiVersions) || a.ApiKey == int16(kmsg.SASLHandshake) || a.ApiKey == int16(kmsg.SASLAuthenticate)
			if !trusted && !open {
				t.Fatalf("%T before authentication was answered", r)
			}
		}
		s.dial(t).login(apiKey)
	})
}

// offered lists the API keys that the server announces.
func offered(f *testing.F, s *piped) []kmsg.ApiVersionsResponseApiKey {
	f.Helper()
	here, there := net.Pipe()
	defer here.Close()
	s.conns <- there
	c := &raw{t: f, Conn: here}
	got := make(chan []kmsg.ApiVersionsResponseApiKey, 1)
	go func() { got <- c.ask(kmsg.NewPtrApiVersionsRequest(), 3).(*kmsg.ApiVersionsResponse).ApiKeys }()
	select {
	case apis := <-got:
		return apis
	case <-time.After(time.Minute):
		f.Fatal("no answer")
		return nil
	}
}

// FuzzRecordBatch: any bytes as records of a Produce are refused with a code or stored. Stored
// batches are returned complete and readable, with the same bytes except the fields that the log
// sets.
func FuzzRecordBatch(f *testing.F) {
	s := servePipes(f)
	must.Get(s.b.CreateTopic(f.Context(), "t", broker.TopicSpec{Partitions: 1}))(f)
	for codec := record.Compression(0); codec <= record.Zstd; codec++ {
		for _, n := range []int{1, 3} {
			recs := make([]record.Record, n)
			for i := range recs {
				recs[i] = record.Record{Timestamp: int64(i), Key: []byte("k"), Value: []byte("value"), Headers: []record.Header{{Key: "h", Value: []byte("v")}}}
			}
			b, _ := recordtest.Encode(recs, record.EncodeOptions{Compression: codec})
			f.Add(b, int16(-1))
			f.Add(append(b, b...), int16(1))
			f.Add(b[:len(b)-1], int16(0))
		}
	}
	f.Fuzz(func(t *testing.T, batch []byte, acks int16) {
		if len(batch) > 256<<10 {
			return
		}
		c := s.dial(t)
		c.login(apiKey)
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = acks, 10_000
		top, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		top.Topic, p.Records = "t", batch
		top.Partitions = append(top.Partitions, p)
		req.Topics = append(req.Topics, top)
		b := c.encode(req, 9)
		wait := time.Minute
		if acks == 0 {
			wait = moment
		}
		got := c.answered(b, wait)
		if acks == 0 {
			if got != nil {
				t.Fatalf("acks=0: answer %x, want none", got)
			}
			return
		}
		var resp kmsg.ProduceResponse
		resp.SetVersion(9)
		if got == nil || resp.ReadFrom(got[1:]) != nil {
			t.Fatalf("answer %x", got)
		}
		q := resp.Topics[0].Partitions[0]
		if q.ErrorCode != 0 {
			must.Equalf(t, q.BaseOffset, -1, "code %d with offset", q.ErrorCode)
			return
		}
		stored(t, s, q.BaseOffset, batch)
	})
}

// stored reads an accepted batch.
func stored(t *testing.T, s *piped, from int64, batch []byte) {
	t.Helper()
	got, err := s.b.Fetch(t.Context(), []broker.Want{{Topic: "t", Offset: from, MaxBytes: 1}}, 1, 0)
	if err != nil || got.Parts[0].Err != nil || len(got.Parts[0].Chunks) == 0 {
		t.Fatalf("batch accepted at offset %d cannot be read: %+v %v", from, got, err)
	}
	defer got.Release()
	var back []byte
	for _, p := range got.Parts[0].Chunks[0].Parts {
		back = append(back, p...)
	}
	const places = 21 // first fields: base offset, length, epoch, magic, checksum
	first, _ := must.Get2(record.Split(back))(t)
	if n := min(len(first), len(batch)); n <= places || !bytes.Equal(first[places:n], batch[places:n]) {
		t.Fatalf("stored %x of %x", first, batch)
	}
	var rd record.Reader
	rd.Reset(first, from)
	for rd.Next() {
	}
	if err := rd.Err(); err != nil {
		t.Fatalf("accepted batch cannot be read: %v: %x", err, batch)
	}
}

// FuzzSASL: no messages authenticate a client without the key. If known is set, the second SCRAM
// message has the server's nonce, so that the server checks its proof.
func FuzzSASL(f *testing.F) {
	s := servePipes(f)
	f.Add(uint8(0), []byte("\x00u\x00"+apiKey), []byte{}, false)
	f.Add(uint8(1), []byte("n,,n=u,r=abc"), []byte("c=biws,r=abc,p=AAAA"), false)
	f.Add(uint8(2), []byte("n,,n=u,r=abc"), []byte("c=biws,r=abc,p="), true)
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte, known bool) {
		if len(first)+len(second) > 32<<10 {
			return
		}
		mechanism := []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}[which%3]
		c := s.dial(t)
		hand := kmsg.NewPtrSASLHandshakeRequest()
		hand.Mechanism = mechanism
		must.Equal(t, c.ask(hand, 1).(*kmsg.SASLHandshakeResponse).ErrorCode, 0)
		believed := false
		messages := [][]byte{first, second}
		for i := 0; i < len(messages) && !believed; i++ {
			r := kmsg.NewPtrSASLAuthenticateRequest()
			r.SASLAuthBytes = messages[i]
			got := c.answered(c.encode(r, 2), moment)
			if got == nil {
				return
			}
			var resp kmsg.SASLAuthenticateResponse
			resp.SetVersion(2)
			must.NoError(t, resp.ReadFrom(got[1:]))
			if strings.Contains(string(resp.SASLAuthBytes), apiKey) || resp.ErrorMessage != nil && strings.Contains(*resp.ErrorMessage, apiKey) {
				t.Fatalf("the answer contains the API key: %+v", resp)
			}
			if resp.ErrorCode != 0 {
				break
			}
			if i == 0 && known {
				messages[1] = proof(resp.SASLAuthBytes, second)
			}
			believed = mechanism == "PLAIN"
		}
		if answer := c.answered(enveloped(int16(kmsg.Metadata), 1, false, []byte{0, 0, 0, 0}), moment); answer != nil {
			parts := bytes.SplitN(first, []byte{0}, 3)
			if mechanism != "PLAIN" || len(parts) != 3 || string(parts[2]) != apiKey {
				t.Fatalf("%s, %q, %q: authenticated without the key", mechanism, first, second)
			}
		}
	})
}

// proof builds the second SCRAM message with the server's nonce, so that the proof in rest is
// checked.
func proof(server, rest []byte) []byte {
	nonce, _, _ := bytes.Cut(server, []byte(","))
	return append(append([]byte("c=biws,"), nonce...), append([]byte(",p="), rest...)...)
}
