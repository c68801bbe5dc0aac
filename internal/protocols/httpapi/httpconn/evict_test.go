package httpconn

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestEvictLongestIdle checks the order of eviction: the connection that is idle longest ends
// first, and a connection with an authorized request only after KeepIdle.
func TestEvictLongestIdle(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		c := Connections{Drain: NewDrainGroup(), Queued: new(metrics.Counter), Evicted: new(metrics.Counter)}
		c.Slots = connlimit.New(connlimit.Options{}).Listen(connlimit.ListenerOptions{Name: "http", Bytes: IdleBytes, Evict: c.Evict})
		c.Server(ServerOptions{Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), KeepIdle: time.Hour})
		var conns []net.Conn
		for range 3 {
			server, client := net.Pipe()
			t.Cleanup(func() { server.Close(); client.Close() })
			slot := SlotOf(c.context(t.Context(), server))
			if trusted {
				slot.MarkAuthenticated()
			}
			c.state(server, http.StateNew)
			c.state(server, http.StateActive)
			conns = append(conns, server)
		}
		for _, i := range []int{1, 0, 2} {
			c.state(conns[i], http.StateIdle)
		}
		evict := func(after time.Duration) (pressed []int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.evictLocked(time.Now().Add(after))
			for i, conn := range conns {
				if !c.slots[conn].evicted.IsZero() {
					pressed = append(pressed, i)
				}
			}
			return pressed
		}
		if got := evict(time.Minute); trusted && len(got) != 0 || !trusted && (len(got) != 1 || got[0] != 1) {
			t.Errorf("authenticated %v: %v closed after a minute", trusted, got)
		}
		if got := evict(2 * time.Hour); trusted && (len(got) != 1 || got[0] != 1) {
			t.Errorf("authenticated: %v closed after two hours, want 1", got)
		}
	}
}

// TestEvictFinishing: a connection whose answer does not leave, or whose body does not end, is closed
// for another one, but not soon if it only waits for a processor.
func TestEvictFinishing(t *testing.T) {
	for name, c := range map[string]struct {
		body, read int64
		answer     int // bytes
		closed     time.Duration
	}{
		"no body":               {0, 0, 10, unreadMax},
		"whole body":            {10, 10, 10, unreadMax},
		"answer does not leave": {10, 10, 64 << 20, finishingMax},
		"body does not end":     {10, 9, 10, finishingMax},
		"chunked body":          {-1, 9, 10, finishingMax},
	} {
		t.Run(name, func(t *testing.T) {
			conns := Connections{Drain: NewDrainGroup(), Queued: new(metrics.Counter), Evicted: new(metrics.Counter)}
			conns.Slots = connlimit.New(connlimit.Options{}).Listen(connlimit.ListenerOptions{Name: "http", Bytes: IdleBytes, Evict: conns.Evict})
			conns.Server(ServerOptions{Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), KeepIdle: time.Hour})
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			client := must.Get(net.Dial("tcp", l.Addr().String()))(t)
			defer client.Close()
			server := must.Get(l.Accept())(t)
			slot := SlotOf(conns.context(t.Context(), server))
			conns.state(server, http.StateNew)
			conns.state(server, http.StateActive)
			slot.body = c.body
			slot.AddRead(int(c.read))
			slot.Finish()
			go func() { _, _ = server.Write(make([]byte, c.answer)) }() // until the connection is closed
			large := c.answer > 10
			sebtest.Eventually(t, "the kernel has the answer", func() bool { return unread(client) && unsent(server) == large })
			if conns.Evict(slot.since.Add(c.closed - time.Millisecond)) {
				t.Errorf("closed before %s", c.closed)
			}
			if !conns.Evict(slot.since.Add(c.closed)) {
				t.Errorf("not closed after %s", c.closed)
			}
		})
	}
}
