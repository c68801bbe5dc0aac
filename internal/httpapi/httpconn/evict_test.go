package httpconn

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// TestTheLongestIdleIsEvicted: of connections without a request the one that has been idle for longest ends first, and one
// with an authorized request only after KeepIdle.
func TestTheLongestIdleIsEvicted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		c := Connections{Stops: NewStops(), Open: new(metrics.Gauge), Held: new(metrics.Counter), Evicted: new(metrics.Counter), Refused: new(metrics.Counter)}
		c.Server(ServerOptions{Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), Max: 3, KeepIdle: time.Hour})
		var conns []net.Conn
		for range 3 {
			server, client := net.Pipe()
			t.Cleanup(func() { server.Close(); client.Close() })
			place := PlaceOf(c.context(t.Context(), server))
			if trusted {
				place.Trust()
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
				if !c.places[conn].pressed.IsZero() {
					pressed = append(pressed, i)
				}
			}
			return pressed
		}
		if got := evict(time.Minute); trusted && len(got) != 0 || !trusted && (len(got) != 1 || got[0] != 1) {
			t.Errorf("trusted %v: after a minute %v were ended", trusted, got)
		}
		if got := evict(2 * time.Hour); trusted && (len(got) != 1 || got[0] != 1) {
			t.Errorf("trusted: after two hours %v were ended, want 1", got)
		}
	}
}
