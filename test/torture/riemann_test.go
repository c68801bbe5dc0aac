package torture

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	riemannKey     = apiKey + "riemann"
	riemannClients = 3
	riemannEvents  = 4  // of a message
	riemannFlights = 32 // unanswered messages of a connection
	riemannAcks    = 50 // acknowledgements of a broker before it may end by itself
	riemannShort   = 16 // every so many messages have an event that soon expires
)

// riemannPoints are the failpoints between a message and its acknowledgement, in a bucket with a
// journal.
var riemannPoints = []string{
	"put.data.before", "journal.written", "journal.synced", "journal.looked", "journal.decided", "put.data.after", "commit.before-answer", "commit.after-answer",
}

// TestRiemannKills kills brokers at each failpoint while Riemann clients send messages without waiting
// for answers. Every event that was acknowledged is in the topic, none is there twice, and the events
// of a client have its order. The index has the newest event of each host and service, and those whose
// time to live was short have one expired record each.
func TestRiemannKills(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	address := must.Get(testenv.FreeAddress())(t)
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	clients := make([]*riemannClient, riemannClients)
	for i := range clients {
		clients[i] = &riemannClient{id: i, address: address, acked: map[int64]bool{}}
		sending.Go(func() { clients[i].run(ctx) })
	}
	acks := func() (n int64) {
		for _, c := range clients {
			n += c.acks.Load()
		}
		return n
	}
	dir := t.TempDir()
	for _, point := range riemannPoints {
		before := acks()
		b := riemannServe(t, dir, address, fmt.Sprintf("SEB_FAILPOINTS=%s=kill:%d", point, 5+rng.IntN(30)))
		<-b.Done()
		if code, by := b.Exit(); code >= 0 {
			t.Errorf("%s: code %d %v: %s", point, code, by, b.Log())
		}
		t.Logf("%s: %d messages acknowledged", point, acks()-before)
	}
	b := riemannServe(t, dir, address)
	before := acks()
	sebtest.Eventually(t, "messages are acknowledged without a failpoint", func() bool { return acks() > before+riemannAcks })
	stop()
	sending.Wait()
	riemannCheck(t, filepath.Join(dir, "data"), b, clients)
}

// riemannServe starts a broker.
func riemannServe(t *testing.T, dir, address string, env ...string) *testenv.Broker {
	t.Helper()
	b := must.Get(testenv.Serve(testenv.Program(t, failing...), append(environment(riemannKey), env...), "--bucket", filepath.Join(dir, "bucket"),
		"--data-dir", filepath.Join(dir, "data"), "--http-port", "0", "--kafka-listen=", "--riemann-listen", address, "--batch-wait-time", "1ms"))(t)
	t.Cleanup(b.Kill)
	return b
}

// riemannCheck compares the topic with the acknowledgements.
func riemannCheck(t *testing.T, dataDir string, b *testenv.Broker, clients []*riemannClient) {
	t.Helper()
	url := must.Get(b.Address(dataDir))(t)
	c := must.Get(client.New(url, client.Options{APIKey: riemannKey}))(t)
	defer c.Close()
	var topic *riemannTopic
	var indexed map[string]int64
	// Messages were under way when the clients ended, and events with a short time to live expire.
	sebtest.Eventually(t, "no event comes while topic and index are read, and none is to expire", func() bool {
		before := riemannEnd(t, c)
		topic, indexed = riemannRead(t, c), riemannIndex(t, c)
		x, err := c.RiemannIndex(t.Context(), `service =~ "short-%"`)
		return err == nil && len(x.Events) == 0 && riemannEnd(t, c) == before
	})
	stored, newest, short, expired := topic.stored, topic.newest, topic.short, topic.expired
	for _, id := range short {
		check.Equalf(t, expired[id], 1, "records %s", id)
	}
	if len(short) == 0 || len(expired) != len(short) {
		t.Errorf("%d events have expired, want %d", len(expired), len(short))
	}
	t.Logf("%d events have expired", len(expired))
	if !maps.Equal(indexed, newest) {
		t.Errorf("the newest events of the index are %v, want %v", indexed, newest)
	}
	for _, c := range clients {
		if len(c.acked) == 0 {
			t.Errorf("client %d: no acknowledgements", c.id)
		}
		for n := range c.acked {
			if !stored[fmt.Sprint(c.id)][n] {
				t.Errorf("client %d: event %d was acknowledged and is lost", c.id, n)
			}
		}
	}
}

// riemannTopic is the content of the topic.
type riemannTopic struct {
	stored  map[string]map[int64]bool
	newest  map[string]int64
	short   []string       // IDs of the expired records of events in the topic
	expired map[string]int // records by ID
}

// riemannEnd returns the end of the topic.
func riemannEnd(t *testing.T, c *client.Client) int64 {
	t.Helper()
	topic := must.Get(c.Topic(t.Context(), "riemann"))(t)
	return topic.Partitions[0].Next
}

// riemannRead reads the topic. The events of a client have its order.
func riemannRead(t *testing.T, c *client.Client) *riemannTopic {
	t.Helper()
	x := &riemannTopic{stored: map[string]map[int64]bool{}, newest: map[string]int64{}, expired: map[string]int{}}
	for r, err := range c.Records(t.Context(), "riemann", client.ReadOptions{}) {
		must.NoError(t, err)
		var e struct {
			Event, ID string
			Entity    string `json:"entity_id"`
			Data      struct {
				Metric int64
				State  string
			}
		}
		must.NoError(t, json.Unmarshal(r.Value, &e))
		switch {
		case e.Data.State == "expired":
			x.expired[e.ID]++
			continue
		case e.Event != "beat":
			x.short = append(x.short, fmt.Sprintf("riemann-expired-%d", r.Offset))
			continue
		case x.stored[e.Entity] == nil:
			x.stored[e.Entity] = map[int64]bool{}
		}
		if n := e.Data.Metric; n <= x.newest[e.Entity] {
			t.Errorf("client %s: event %d after %d", e.Entity, n, x.newest[e.Entity])
		}
		x.stored[e.Entity][e.Data.Metric], x.newest[e.Entity] = true, e.Data.Metric
	}
	return x
}

// riemannIndex returns the newest event of each client in the index.
func riemannIndex(t *testing.T, c *client.Client) map[string]int64 {
	t.Helper()
	x := must.Get(c.RiemannIndex(t.Context(), `service = "beat"`))(t)
	indexed := map[string]int64{}
	for _, text := range x.Events {
		var e struct {
			Host   string
			Metric int64
		}
		must.NoError(t, json.Unmarshal(text, &e))
		indexed[e.Host] = e.Metric
	}
	return indexed
}

// riemannClient sends numbered events.
type riemannClient struct {
	id      int
	address string
	next    int64
	acked   map[int64]bool // read when run has returned
	acks    atomic.Int64   // of messages
}

// run sends events on one connection after the other, until ctx ends. A lost connection leaves the
// outcome of its unanswered messages unknown; they are not sent again.
func (c *riemannClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address); err == nil {
			c.send(ctx, conn)
			continue
		}
		sleep(ctx, 5*time.Millisecond)
	}
}

// send sends messages until the connection or ctx ends.
func (c *riemannClient) send(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	flights := make(chan int64, riemannFlights) // first events of the unanswered messages
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.receive(conn, flights)
		_ = conn.Close()
	}()
	for alive := true; alive; {
		first := c.next + 1
		var msg []byte
		for range riemannEvents {
			c.next++
			e := c.event("beat", 86400)
			e = protowire.AppendVarint(protowire.AppendTag(e, 13, protowire.VarintType), protowire.EncodeZigZag(c.next))
			msg = protowire.AppendBytes(protowire.AppendTag(msg, 6, protowire.BytesType), e)
		}
		if c.next/riemannEvents%riemannShort == 0 {
			msg = protowire.AppendBytes(protowire.AppendTag(msg, 6, protowire.BytesType), c.event(fmt.Sprintf("short-%d", first), 0.05))
		}
		select {
		case flights <- first:
			_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...))
			alive = err == nil
		case <-ended:
			alive = false
		}
	}
	close(flights)
	<-ended
}

// event returns an event of the client as host, without a metric.
func (c *riemannClient) event(service string, ttl float32) (e []byte) {
	e = protowire.AppendString(protowire.AppendTag(e, 4, protowire.BytesType), fmt.Sprint(c.id))
	e = protowire.AppendString(protowire.AppendTag(e, 3, protowire.BytesType), service)
	return protowire.AppendFixed32(protowire.AppendTag(e, 8, protowire.Fixed32Type), math.Float32bits(ttl))
}

// receive reads answers until the connection ends.
func (c *riemannClient) receive(conn net.Conn, flights <-chan int64) {
	r := bufio.NewReader(conn)
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		answer := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, answer); err != nil {
			return
		}
		first := <-flights
		if string(answer) != "\x10\x01" {
			continue // refused, for example while the broker stops
		}
		for n := first; n < first+riemannEvents; n++ {
			c.acked[n] = true
		}
		c.acks.Add(1)
	}
}
