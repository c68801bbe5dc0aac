package riemann

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
	"github.com/sebbroker/seb/test/sebtest"
)

// datagrams makes a server take datagrams, and returns a client's socket.
func (s *server) datagrams() *net.UDPConn {
	s.t.Helper()
	c := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(s.t)
	done := make(chan error, 1)
	go func() { done <- s.r.ServeDatagrams(context.Background(), c) }()
	s.t.Cleanup(func() {
		s.r.Drain()
		check.NoError(s.t, <-done)
	})
	out := must.Get(net.DialUDP("udp", nil, c.LocalAddr().(*net.UDPAddr)))(s.t)
	s.t.Cleanup(func() { _ = out.Close() })
	return out
}

func datagramTo(t *testing.T, c *net.UDPConn, b []byte) {
	t.Helper()
	must.Get(c.Write(b))(t)
}

// TestDatagrams: each valid datagram up to the limit is stored, and others are counted.
func TestDatagrams(t *testing.T) {
	s := start(t)
	c := s.datagrams()
	largest := named("h", "s", str(fieldDescription, strings.Repeat("x", DatagramMax-12)))
	must.Equalf(t, len(largest), DatagramMax, "bytes")
	for _, b := range [][]byte{
		numbered(1), largest, append(largest, 0), {0x32, 9}, bytes.Repeat([]byte{0x0b}, DatagramMax), {}, asking("true"), riemanntest.Message(50),
	} {
		datagramTo(t, c, b)
	}
	sebtest.Eventually(t, "the events are stored", func() bool { return s.counter("seb_riemann_events_total") == 52 })
	if n, dropped := s.counter("seb_riemann_datagrams_total"), s.counter("seb_riemann_datagrams_dropped_total"); n != 8 || dropped != 3 {
		t.Errorf("%d datagrams, %d dropped; want 8, 3", n, dropped)
	}
	check.Equalf(t, len(s.values(DefaultTopic)), 52, "records")
}

// TestDatagramsWithoutRights: datagrams act with the token of the listener.
func TestDatagramsWithoutRights(t *testing.T) {
	s := start(t, func(c *setup) { c.o.Token = "create" })
	c := s.datagrams()
	datagramTo(t, c, numbered(1))
	sebtest.Eventually(t, "the datagram is dropped", func() bool { return s.counter("seb_riemann_datagrams_dropped_total") == 1 })
	s.permit(access.Write, DefaultTopic)
	s.permit(access.Create, DefaultTopic)
	datagramTo(t, c, numbered(1))
	sebtest.Eventually(t, "the event is stored", func() bool { return s.counter("seb_riemann_events_total") == 1 })
}

// TestFloodOfDatagrams: every datagram is stored or counted as dropped, those in flight use a part of
// the memory, and none is read beyond it. Clients with a connection are served meanwhile.
func TestFloodOfDatagrams(t *testing.T) {
	store := &gated{}
	s := start(t, func(c *setup) { store.Store, c.store = c.store, store })
	p := s.dial()
	if a := p.ask(numbered(0)); !a.ok {
		t.Fatalf("%+v", a)
	}
	c, sent := s.datagrams(), uint64(0)
	gate := make(chan struct{})
	store.gate.Store(&gate)
	for range 20_000 {
		datagramTo(t, c, named("h", "s", str(fieldDescription, strings.Repeat("x", 500))))
		sent++
	}
	class := s.b.Budget().Class(budget.Produce)
	last := uint64(0)
	sebtest.Eventually(t, "no more datagrams are read", func() bool {
		before := last
		last = s.counter("seb_riemann_datagrams_total")
		return last > 0 && last == before
	})
	if used := class.Used(); used > class.Limit()/datagramShare || last > sent/2 {
		t.Errorf("datagrams use %d bytes of %d, and %d were read", used, class.Limit(), last)
	}
	store.gate.Store(nil)
	close(gate)
	if a := p.ask(numbered(0)); !a.ok {
		t.Errorf("%+v", a)
	}
	// The kernel tells how many it has dropped with the next datagram that it accepts.
	polls := 0
	sebtest.Eventually(t, "every datagram is counted", func() bool {
		if polls++; polls%20 == 1 {
			datagramTo(t, c, numbered(1))
			sent++
		}
		return s.counter("seb_riemann_events_total")-2+s.counter("seb_riemann_datagrams_dropped_total") == sent
	})
	if s.counter("seb_riemann_datagrams_dropped_total") == 0 {
		t.Error("no datagram was dropped")
	}
	if n := uint64(len(s.values(DefaultTopic))); n != s.counter("seb_riemann_events_total") {
		t.Errorf("%d records, %d counted", n, s.counter("seb_riemann_events_total"))
	}
}

// TestRateOfDatagrams: of a flood to an idle broker no more is stored than the rate permits. The
// kernel drops the rest.
func TestRateOfDatagrams(t *testing.T) {
	s := start(t)
	c, p := s.datagrams(), newPace()
	msg := named("h", "s", str(fieldDescription, strings.Repeat("x", 4000)))
	m := must.Get(walk(msg))(t)
	sent, begin := uint64(0), time.Now()
	for end := 8 * p.rate; int64(sent)*int64(m.bytes) < end; sent++ {
		datagramTo(t, c, msg)
	}
	polls := 0
	sebtest.Eventually(t, "every datagram is counted", func() bool {
		if polls++; polls%20 == 1 {
			datagramTo(t, c, msg)
			sent++
		}
		return s.counter("seb_riemann_events_total")+s.counter("seb_riemann_datagrams_dropped_total") == sent
	})
	stored, most := int64(s.counter("seb_riemann_events_total"))*int64(m.bytes), p.rate*int64(time.Since(begin)+paceBurst)/int64(time.Second)+2*groupCost
	if stored > most {
		t.Errorf("%d bytes of %d are stored in %v, want at most %d", stored, int64(sent)*int64(m.bytes), time.Since(begin), most)
	}
}
