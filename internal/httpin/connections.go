package httpin

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// headerBytesMax bounds a request's headers.
const headerBytesMax = 16 << 10

// Connections limits how many connections are served at once. All fields are required.
type Connections struct {
	Stops *Stops
	Open  *metrics.Counter // gauge of open connections, the one that is held included
	Held  *metrics.Counter // of connections that had to wait for another's end

	held atomic.Int32 // those that wait now
}

// ServerOptions are what Connections.Server needs. All fields are required.
type ServerOptions struct {
	Handler http.Handler
	Logger  *slog.Logger // gets what net/http says, as debug messages
	Max     int          // connections served at once
	// HeaderTimeout is for a request's headers, IdleTimeout for the next request on a connection.
	HeaderTimeout, IdleTimeout time.Duration
}

// Server returns a server with its timeouts and limits set, to be given a listener. Its Shutdown calls Stops.Stop; call
// Shutdown, or Stop, before its Close, which waits for a connection that is held over the limit.
func (c *Connections) Server(o ServerOptions) *http.Server {
	s := &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnState:         c.limit(o.Max),
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // clients that break off; nothing else comes here
	}
	s.RegisterOnShutdown(c.Stops.Stop)
	return s
}

// Waiting says whether a connection waits for another's end. Answers then close their own.
func (c *Connections) Waiting() bool { return c.held.Load() > 0 }

// limit serves no more than n connections at once. net/http calls it with a new connection before it accepts the next, so
// the first over the limit is held here, and those behind it wait in the kernel: to clients that know only success any
// answer would be one. Connections are not wrapped for it, as sendfile needs them bare. Stop lets go of the one that is
// held, unserved.
func (c *Connections) limit(n int) func(net.Conn, http.ConnState) {
	places := make(chan struct{}, n)
	return func(conn net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			c.Open.Inc()
			select {
			case places <- struct{}{}:
				return
			default:
			}
			c.Held.Inc()
			c.held.Add(1)
			defer c.held.Add(-1)
			select {
			case places <- struct{}{}:
			case <-c.Stops.ended:
				_ = conn.Close() // the server's first read fails and ends the connection
			}
		case http.StateClosed, http.StateHijacked:
			c.Open.Dec()
			select {
			case <-places:
			default: // one that was let go of without a place ends as the last
			}
		}
	}
}
