package riemann

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
	"github.com/sebbroker/seb/test/sebtest"
)

// numbered is a message with an event that has a number.
func numbered(i int) []byte {
	return named(fmt.Sprintf("h%d", i%7), "s", sint(fieldMetricInt, int64(i)))
}

// asking is a message with a query.
func asking(text string) []byte { return sub(fieldQuery, str(fieldString, text)) }

// committed is an Index that answers with the number of events that are committed.
type committed struct{ s *server }

func (c *committed) Query(_ context.Context, text string, limit int) ([]byte, error) {
	if text == "bad" {
		return nil, malformed("no such field")
	}
	return ev(sint(fieldMetricInt, int64(len(c.s.values(DefaultTopic)))), str(fieldDescription, fmt.Sprint(text, limit))), nil
}

// metricOf is the metric of an answer's event.
func metricOf(t testing.TB, a answer) int {
	t.Helper()
	var e event
	if !a.ok || len(a.events) != 1 || e.parse([]byte(a.events[0])) != nil {
		t.Fatalf("%+v", a)
	}
	return int(e.metric.bits)
}

// TestEventsAreStored: acknowledged events are in the topic, in the order of the messages.
func TestEventsAreStored(t *testing.T) {
	s := start(t)
	p := s.dial()
	if a := p.ask(nil); !a.ok || s.values(DefaultTopic) != nil {
		t.Errorf("an empty message: %+v", a)
	}
	if a := p.ask(join(named("web1", "disk", str(fieldState, "ok")), sub(fieldStates, str(fieldHost, "web2")))); !a.ok {
		t.Errorf("%+v", a)
	}
	want := []string{`{"event":"disk","entity_id":"web1","data":{"state":"ok"}}`, `{"event":"unnamed","entity_id":"web2","data":{"service":null}}`}
	check.EqualSlices(t, s.values(DefaultTopic), want)
	_, settings, err := s.b.Resolved(DefaultTopic)
	if err != nil || !settings.KeyIndex || settings.TimestampType != "LogAppendTime" {
		t.Errorf("topic: %+v %v", settings, err)
	}
	if a := p.ask([]byte{0x32, 9}); a.ok || !strings.Contains(a.fault, "parse error") {
		t.Errorf("a malformed message: %+v", a)
	}
	if a := p.ask(numbered(3)); !a.ok {
		t.Errorf("after a malformed message: %+v", a)
	}
	if a := p.ask(asking("true")); a.ok || !strings.Contains(a.fault, "no index") {
		t.Errorf("a query without an index: %+v", a)
	}
	check.Equalf(t, s.counter("seb_riemann_events_total"), 3, "events counted")
}

// TestPipelining: 64 messages with events and queries are answered in order, however their bytes
// arrive. A query sees the events before it and none after it.
func TestPipelining(t *testing.T) {
	for name, received := range map[string]bool{"stored": false, "received": true} {
		t.Run(name, func(t *testing.T) {
			index := &committed{}
			s := start(t, func(c *setup) { c.o.Index, c.o.Received = index, received })
			index.s = s
			p := s.dial()
			var all []byte
			for i := range 64 {
				m := numbered(i)
				switch i % 8 {
				case 3:
					m = asking("q")
				case 5:
					m = join(asking("q"), m)
				case 6:
					m = []byte{0x32, 9}
				}
				all = append(all, riemanntest.WithLength(m)...)
			}
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				for n := 1; len(all) > 0; n = n*2 + 1 {
					n = min(n, len(all))
					_, _ = p.Write(all[:n]) // an error shows as a missing answer
					all = all[n:]
				}
			}()
			stored := 0
			for i := range 64 {
				a := p.receive()
				switch i % 8 {
				case 3:
				case 6:
					if a.ok || a.fault == "" {
						t.Errorf("message %d: %+v", i, a)
					}
					continue
				default:
					stored++
				}
				if i%8 == 3 || i%8 == 5 {
					if n := metricOf(t, a); n < stored {
						t.Errorf("message %d: a query sees %d events of %d", i, n, stored)
					}
				} else if !a.ok {
					t.Errorf("message %d: %+v", i, a)
				}
			}
			<-wrote
			values := s.values(DefaultTopic)
			if len(values) != stored || !slices.IsSortedFunc(values, func(a, b string) int { return numberIn(a) - numberIn(b) }) {
				t.Errorf("%d records, want %d in order: %q", len(values), stored, values)
			}
			if a := p.ask(asking("bad")); a.ok || a.fault != "parse error: no such field" {
				t.Errorf("%+v", a)
			}
			if a := p.ask(asking(strings.Repeat("x", QueryMax+1))); a.ok || !strings.Contains(a.fault, "limit 4096") {
				t.Errorf("%+v", a)
			}
		})
	}
}

// numberIn is the metric of a value.
func numberIn(value string) (n int) {
	_, _ = fmt.Sscanf(value[strings.Index(value, `"metric":`):], `"metric":%d`, &n)
	return n
}

// TestHostileMessages: every message that is too large or not valid gets an answer, and other clients
// are served.
func TestHostileMessages(t *testing.T) {
	s := start(t)
	other := s.dial()
	if a := other.ask(numbered(1)); !a.ok { // a silent connection may lose its slot
		t.Errorf("%+v", a)
	}
	for _, length := range []uint32{1<<20 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		p := s.dial()
		p.send(numbered(1))
		_, _ = p.Write(append(binary.BigEndian.AppendUint32(nil, length), make([]byte, 100)...))
		if a := p.receive(); !a.ok {
			t.Errorf("%+v", a)
		}
		if a := p.receive(); a.ok || a.fault != fmt.Sprintf("message of %d bytes, limit 1048576", length) {
			t.Errorf("a length of %d: %+v", length, a)
		}
		p.ended()
	}
	p := s.dial()
	for name, b := range map[string][]byte{
		"empty events": bytes.Repeat(ev(), 1<<19), "groups": bytes.Repeat([]byte{0x0b}, 1<<20),
		"attributes": ev(bytes.Repeat(attr("k", "v"), 1<<16)), "zeros": make([]byte, 1<<20),
	} {
		if a := p.ask(b); a.ok || !strings.Contains(a.fault, "parse error") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for range 200 {
		_, _ = s.dial().Write([]byte{0, 0, 0})
		_, _ = s.dial().Write([]byte{0, 0, 1, 0, 0x32})
	}
	if a := other.ask(numbered(1)); !a.ok {
		t.Errorf("%+v", a)
	}
}

// TestUnreadAnswers: a client that does not read its answers is closed, and its messages use bounded
// memory meanwhile.
func TestUnreadAnswers(t *testing.T) {
	index := &large{}
	s := start(t, func(c *setup) { c.o.Index, c.o.Step = index, 100*time.Millisecond })
	p := s.dial()
	m := riemanntest.WithLength(asking("q"))
	for n := 0; ; n++ {
		if _, err := p.Write(m); err != nil {
			break // closed
		}
		if n > 1<<20 {
			t.Fatal("a client that reads no answers may send a million messages")
		}
	}
	sebtest.Eventually(t, "the connection is closed", func() bool { return s.r.conns.Connections() == 0 })
	if n := index.asked.Load(); n > 64 {
		t.Errorf("%d queries were answered", n)
	}
	if peak := s.b.Budget().Class(budget.Fetch).Peak(); peak > 2<<20 {
		t.Errorf("the answers used %d bytes", peak)
	}
}

// large is an Index with answers of the largest size.
type large struct{ asked atomic.Int64 }

func (l *large) Query(_ context.Context, _ string, limit int) ([]byte, error) {
	l.asked.Add(1)
	return make([]byte, limit), nil
}

// TestPatience: without memory a message waits, and is refused if that takes too long.
func TestPatience(t *testing.T) {
	s := start(t, func(c *setup) { c.o.Patience = 100 * time.Millisecond })
	p := s.dial()
	if a := p.ask(numbered(0)); !a.ok { // the topic exists
		t.Fatalf("%+v", a)
	}
	memory, err := s.b.Budget().Class(budget.Produce).Reserve(s.b.Budget().Class(budget.Produce).Limit())
	must.NoError(t, err)
	p.send(numbered(1), numbered(2))
	for range 2 {
		if a := p.receive(); a.ok || !strings.Contains(a.fault, "memory") {
			t.Errorf("without memory: %+v", a)
		}
	}
	memory.Shrink(512) // for the message, but not for its records
	if a := p.ask(numbered(3)); a.ok || !strings.Contains(a.fault, "memory") {
		t.Errorf("without memory for the records: %+v", a)
	}
	memory.Release()
	if a := p.ask(numbered(4)); !a.ok {
		t.Errorf("%+v", a)
	}
	check.Equalf(t, s.counter("seb_riemann_messages_refused_total"), 3, "refused")
	s = start(t, func(c *setup) { c.o.Patience = time.Minute })
	p = s.dial()
	class := s.b.Budget().Class(budget.Produce)
	if memory, err = class.Reserve(class.Limit()); err != nil {
		t.Fatal(err)
	}
	p.send(numbered(1))
	sebtest.Eventually(t, "the message waits", func() bool { return class.Usage().Waiting == 1 })
	memory.Release()
	if a := p.receive(); !a.ok {
		t.Errorf("after the wait: %+v", a)
	}
}

// TestPartitionsAndCompression: a topic may have several partitions, by host, and a compression.
func TestPartitionsAndCompression(t *testing.T) {
	s := start(t)
	spec := broker.TopicSpec{Partitions: 3, Settings: map[string]string{"compression": "zstd"}}
	must.Get(s.b.CreateTopic(t.Context(), DefaultTopic, spec))(t)
	p := s.dial()
	var m []byte
	for i := range 2000 {
		m = append(m, numbered(i)...)
	}
	if a := p.ask(m); !a.ok {
		t.Fatalf("%+v", a)
	}
	values := s.values(DefaultTopic)
	check.Equalf(t, len(values), 2000, "records")
	for i := 1; i < len(values); i++ {
		if numberIn(values[i])%7 == numberIn(values[i-1])%7 && numberIn(values[i]) < numberIn(values[i-1]) {
			t.Fatalf("%s after %s", values[i], values[i-1])
		}
	}
}

// TestMaxBatchBytes: an event above the topic's max-batch-bytes is refused with the limit, and many
// small ones are stored in batches up to it.
func TestMaxBatchBytes(t *testing.T) {
	s := start(t)
	spec := broker.TopicSpec{Settings: map[string]string{"max-batch-bytes": "1000"}}
	must.Get(s.b.CreateTopic(t.Context(), DefaultTopic, spec))(t)
	p := s.dial()
	if a := p.ask(named("h", "s", attr("text", strings.Repeat("x", 1000)))); a.ok || !strings.Contains(a.fault, "max-batch-bytes of topic riemann is 1000") {
		t.Errorf("%+v", a)
	}
	var m []byte
	for i := range 100 {
		m = append(m, numbered(i)...)
	}
	if a := p.ask(m); !a.ok {
		t.Fatalf("%+v", a)
	}
	check.Equalf(t, len(s.values(DefaultTopic)), 100, "records")
}

// TestListenerToken: clients act with the token of the listener. Without a right they are refused,
// which is in the audit topic, and when it is revoked they are disconnected.
func TestListenerToken(t *testing.T) {
	index := &committed{}
	s := start(t, func(c *setup) { c.o.Token, c.broker.AuditTopic, c.o.Index = "create", "audit", index })
	index.s = s
	p := s.dial()
	if a := p.ask(numbered(1)); a.ok || !strings.Contains(strings.ToLower(a.fault), "write on topic riemann") {
		t.Errorf("without rules: %+v", a)
	}
	s.permit(access.Write, DefaultTopic)
	if a := p.ask(numbered(1)); a.ok || !strings.Contains(strings.ToLower(a.fault), "create on topic riemann") {
		t.Errorf("without the right to create: %+v", a)
	}
	s.permit(access.Create, DefaultTopic)
	if a := p.ask(numbered(1)); !a.ok {
		t.Errorf("%+v", a)
	}
	if a := p.ask(asking("q")); a.ok || !strings.Contains(strings.ToLower(a.fault), "read on topic riemann") {
		t.Errorf("without the right to read: %+v", a)
	}
	s.permit(access.Read, DefaultTopic)
	if a := p.ask(asking("q")); !a.ok {
		t.Errorf("%+v", a)
	}
	sebtest.Eventually(t, "the denials are audited", func() bool {
		all := strings.Join(s.values("audit"), "\n")
		return strings.Contains(all, `"protocol":"riemann"`) && strings.Contains(all, `"denied"`)
	})
	must.NoError(t, s.auth.RevokeToken(t.Context(), "listener"))
	p.send(numbered(2))
	p.ended()
	if a := s.dial().ask(numbered(2)); a.ok || !strings.Contains(a.fault, auth.ErrRevoked.Error()) {
		t.Errorf("with a revoked token: %+v", a)
	}
	if n := s.counter("seb_riemann_authentication_failures_total"); n == 0 {
		t.Error("the failure is not counted")
	}
	check.Equalf(t, len(s.values(DefaultTopic)), 1, "events stored")
}

// gated is a store whose writes wait for a gate.
type gated struct {
	objstore.Store
	gate atomic.Pointer[chan struct{}]
}

func (g *gated) Put(ctx context.Context, key string, body objstore.Body) error {
	if gate := g.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
		}
	}
	return g.Store.Put(ctx, key, body)
}

// TestAcknowledgement: events are acknowledged when they are stored, or with Received before. Then a
// query still waits for them.
func TestAcknowledgement(t *testing.T) {
	for name, received := range map[string]bool{"stored": false, "received": true} {
		t.Run(name, func(t *testing.T) {
			store, index := &gated{Store: objstore.NewMemory()}, &committed{}
			s := start(t, func(c *setup) { c.store, c.o.Received, c.o.Index = store, received, index })
			index.s = s
			p := s.dial()
			if a := p.ask(numbered(0)); !a.ok {
				t.Fatalf("%+v", a)
			}
			sebtest.Eventually(t, "the first event is stored", func() bool { return len(s.values(DefaultTopic)) == 1 })
			gate := make(chan struct{})
			store.gate.Store(&gate)
			p.send(numbered(1))
			if received {
				if a := p.receive(); !a.ok || len(s.values(DefaultTopic)) != 1 {
					t.Errorf("%+v, %d events stored", a, len(s.values(DefaultTopic)))
				}
			} else {
				_ = p.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if a, err := p.tryReceive(); err == nil {
					t.Errorf("acknowledged before it is stored: %+v", a)
				}
				_ = p.SetReadDeadline(time.Now().Add(time.Minute))
			}
			p.send(asking("q"))
			close(gate)
			if !received {
				if a := p.receive(); !a.ok {
					t.Errorf("%+v", a)
				}
			}
			if n := metricOf(t, p.receive()); n != 2 {
				t.Errorf("a query sees %d events", n)
			}
		})
	}
}

// TestMessagesForManyPartitions: records that the broker keeps for readers do not count as records
// that are not stored yet.
func TestMessagesForManyPartitions(t *testing.T) {
	s := start(t)
	must.NoError(t, s.b.EnsureTopicAs(t.Context(), DefaultTopic, broker.TopicSpec{Partitions: 32, Settings: rules.EventSettings}))
	var msg []byte
	for i := range 2000 {
		msg = append(msg, named(fmt.Sprint("host", i), "s", str(fieldDescription, strings.Repeat("x", 200)))...)
	}
	p := s.dial()
	_ = p.SetDeadline(time.Now().Add(sebtest.Limit))
	for range 10 {
		if a := p.ask(msg); !a.ok {
			t.Fatalf("%+v", a)
		}
	}
	check.Equalf(t, s.r.inFlight.Load(), 0, "bytes of records count as not stored")
}
