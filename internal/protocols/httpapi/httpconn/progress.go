package httpconn

import (
	"net/http"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/encoding"
)

const (
	// StepBytes of a request's body must arrive within a ProgressTimeout.
	StepBytes = 64 << 10
	// pieceBytes of an answer are written to the connection at a time.
	pieceBytes = 256 << 10
)

// ProgressTimeout bounds the transfer of each 64 KiB of a body, in both directions.
type ProgressTimeout time.Duration

// ExtendRead sets the deadline for the next StepBytes of the request's body.
func (p ProgressTimeout) ExtendRead(w http.ResponseWriter) {
	// Fails only without a real connection, in tests.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Duration(p)))
}

// ClearRead removes the deadline of ExtendRead. Call it after the body is read: net/http then
// watches the connection, and takes an expired deadline for its end.
func ClearRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// ExtendWrite sets the deadline for the next piece of the answer: two timeouts, because before the
// first piece net/http may read the rest of the request's body, which has a timeout of its own. The
// deadline is rounded up to an eighth of a timeout, so that a busy connection seldom gets a new one.
func (p ProgressTimeout) ExtendWrite(w http.ResponseWriter) {
	step := max(time.Duration(p)/8, 1)
	after := time.Since(began) + 2*time.Duration(p) + step
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(after - after%step))
}

var began = time.Now()

// Send writes b in pieces, so that a client that reads nothing is detected within a timeout.
func (p ProgressTimeout) Send(w http.ResponseWriter, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		p.ExtendWrite(w)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// SendAll sends all segments.
func (p ProgressTimeout) SendAll(w http.ResponseWriter, g *encoding.Segments) error {
	for _, b := range g.List {
		if err := p.Send(w, b); err != nil {
			return err
		}
	}
	return nil
}

// SendSection sends a section of a file with sendfile.
func (p ProgressTimeout) SendSection(w http.ResponseWriter, sec *objstore.Section) error {
	for pos := int64(0); pos < sec.Len; pos += pieceBytes {
		piece := objstore.Section{File: sec.File, Off: sec.Off + pos, Len: min(pieceBytes, sec.Len-pos)}
		p.ExtendWrite(w)
		if _, err := piece.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}
