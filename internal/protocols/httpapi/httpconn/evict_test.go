package httpconn

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/connlimit"
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
