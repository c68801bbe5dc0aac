package httpapi

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/internal/objstore"
)

const (
	// headerBytesMax bounds a request's headers.
	headerBytesMax = 16 << 10
	// stepBytes is how much of a request's body must come within Options.StepTimeout.
	stepBytes = 64 << 10
)

// cannedBusy is sent to connections over the limit before they are closed.
const cannedBusy = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: " + retryAfter +
	"\r\nContent-Length: 0\r\n\r\n"

// Server returns a server of a with its timeouts and limits set, to be given a listener. Its Shutdown calls a.Stop.
func (a *API) Server() *http.Server {
	s := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: a.o.HeaderTimeout,
		IdleTimeout:       a.o.IdleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnState:         a.limitConnections(),
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), // clients that break off; nothing else comes here
	}
	s.RegisterOnShutdown(a.Stop)
	return s
}

// limitConnections counts connections and turns away those over the limit. Connections are not wrapped for it: sendfile
// needs them bare.
func (a *API) limitConnections() func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			a.metrics.connections.Inc()
			if open.Add(1) > int64(a.o.Connections) {
				a.metrics.refused.Inc()
				_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // a new socket's buffer takes the few bytes at once
				_, _ = c.Write([]byte(cannedBusy))
				_ = c.Close() // the server's first read fails and ends the connection
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
			a.metrics.connections.Dec()
		}
	}
}

// readStep gives the client time for the next step of its body.
func (a *API) readStep(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.o.StepTimeout)) // not supported: no real connection
}

// readDone takes the deadline away: from here on net/http watches the connection, and a deadline would look like its end.
func readDone(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// pieceBytes is how much of an answer is given to the connection at a time.
const pieceBytes = 256 << 10

// writeStep gives the client time to take the next piece: twice a step, since before the first net/http may read what is
// left of the request's body, which has a step of its own.
func (a *API) writeStep(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * a.o.StepTimeout))
}

// send writes b in pieces, so that a client that takes nothing is noticed soon, however much there is for it.
func (a *API) send(w http.ResponseWriter, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		a.writeStep(w)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sendAll is send for all segments.
func (a *API) sendAll(w http.ResponseWriter, g *forms.Segments) error {
	for _, b := range g.List {
		if err := a.send(w, b); err != nil {
			return err
		}
	}
	return nil
}

// sendSection is send for a section of a file, by sendfile.
func (a *API) sendSection(w http.ResponseWriter, sec *objstore.Section) error {
	for pos := int64(0); pos < sec.Len; pos += pieceBytes {
		piece := objstore.Section{File: sec.File, Off: sec.Off + pos, Len: min(pieceBytes, sec.Len-pos)}
		a.writeStep(w)
		if _, err := piece.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}
