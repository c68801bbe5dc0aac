package httpconn

import (
	"net/http"
	"time"

	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/objstore"
)

const (
	// StepBytes is how much of a request's body must come within a Pace.
	StepBytes = 64 << 10
	// pieceBytes is how much of an answer is given to the connection at a time.
	pieceBytes = 256 << 10
)

// Pace is how long the first, and then every further, 64 KiB of a body may take, either way.
type Pace time.Duration

// ReadStep gives the client time for the next step of its body.
func (p Pace) ReadStep(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Duration(p))) // not supported: no real connection
}

// ReadDone takes the deadline of ReadStep away once the body has been read: from here on net/http watches the connection,
// and a deadline would look like its end.
func ReadDone(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// WriteStep gives the client time to take the next piece: twice a step, since before the first net/http may read what is
// left of the request's body, which has a step of its own.
func (p Pace) WriteStep(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * time.Duration(p)))
}

// Send writes b in pieces, so that a client that takes nothing is noticed soon, however much there is for it.
func (p Pace) Send(w http.ResponseWriter, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		p.WriteStep(w)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// SendAll is Send for all segments.
func (p Pace) SendAll(w http.ResponseWriter, g *encoding.Segments) error {
	for _, b := range g.List {
		if err := p.Send(w, b); err != nil {
			return err
		}
	}
	return nil
}

// SendSection is Send for a section of a file, by sendfile.
func (p Pace) SendSection(w http.ResponseWriter, sec *objstore.Section) error {
	for pos := int64(0); pos < sec.Len; pos += pieceBytes {
		piece := objstore.Section{File: sec.File, Off: sec.Off + pos, Len: min(pieceBytes, sec.Len-pos)}
		p.WriteStep(w)
		if _, err := piece.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}
