package httpapi

import (
	"log/slog"
	"net"
	"net/http"
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

// Server returns a server of a with its timeouts and limits set, to be given a listener. Its Shutdown calls a.Stop;
// call Shutdown, or a.Stop, before its Close, which waits for a connection that is held over the limit.
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

// limitConnections serves no more than Options.Connections at once. net/http calls it with a new connection before it
// accepts the next, so the first over the limit is held here, and those behind it wait in the kernel: to clients that
// know only success any answer would be one. Connections are not wrapped for it, as sendfile needs them bare. Stop lets
// go of the one that is held, unserved.
func (a *API) limitConnections() func(net.Conn, http.ConnState) {
	places := make(chan struct{}, a.o.Connections)
	return func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			a.metrics.connections.Inc()
			select {
			case places <- struct{}{}:
				return
			default:
			}
			a.metrics.held.Inc()
			a.held.Add(1)
			defer a.held.Add(-1)
			select {
			case places <- struct{}{}:
			case <-a.ended:
				_ = c.Close() // the server's first read fails and ends the connection
			}
		case http.StateClosed, http.StateHijacked:
			a.metrics.connections.Dec()
			select {
			case <-places:
			default: // one that was let go of without a place ends as the last
			}
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
