package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// The framing of a multipart answer. The boundary may occur in the records, but clients that read
// by the sizes, such as the original's, are not affected. A random boundary would protect other
// clients only against chance.
const (
	outBoundary = "seb-7d1f9c52e0a84b3b96c1b2a5"
	outKind     = api.Multipart + "; boundary=" + outBoundary
	outSizes    = "--" + outBoundary + "\r\nContent-Disposition: form-data; name=\"sizes\"\r\n\r\n["
	outRecords  = "]\r\n--" + outBoundary + "\r\nContent-Disposition: form-data; name=\"records\"\r\n\r\n"
	outEnd      = "\r\n--" + outBoundary + "--\r\n"
)

// Multipart answers with values only, as the original does: null and empty values look the same.
func (g *Reading) Multipart(w http.ResponseWriter, r *http.Request) error {
	g.gathers = true
	v, err := g.Values(r.Context())
	if err != nil {
		return err
	}
	if g.Count == 0 {
		g.headOfRecords(w, outKind, int64(len(outEnd)))
		g.s.o.Timeout.ExtendWrite(w)
		w.WriteHeader(http.StatusPartialContent)
		_, err := w.Write([]byte(outEnd))
		return Sent(err)
	}
	if g.unchanged(w, "m") {
		return nil
	}
	g.headOfRecords(w, outKind, int64(len(outSizes)+len(outRecords)+len(outEnd))+v.Sizes.Size+v.Sum)
	w.WriteHeader(http.StatusOK)
	out := gather{pace: g.s.o.Timeout, w: w, buf: g.buf[:0]}
	out.add([]byte(outSizes))
	for _, b := range v.Sizes.List {
		out.add(b)
	}
	out.add([]byte(outRecords))
	for _, b := range v.Refs {
		out.add(b)
	}
	out.add([]byte(outEnd))
	return Sent(out.flush())
}

// gather copies small pieces together, so that the connection gets large writes.
type gather struct {
	pace httpconn.ProgressTimeout
	w    http.ResponseWriter
	buf  []byte
	err  error
}

// directMin is the size from which a piece is not copied.
const directMin = 16 << 10

func (g *gather) add(b []byte) {
	if len(b) > cap(g.buf)-len(g.buf) || len(b) >= directMin {
		_ = g.flush() // the error is kept in err
	}
	if len(b) >= directMin {
		g.write(b)
		return
	}
	g.buf = append(g.buf, b...)
}

func (g *gather) flush() error {
	if len(g.buf) > 0 {
		g.write(g.buf)
		g.buf = g.buf[:0]
	}
	return g.err
}

func (g *gather) write(b []byte) {
	if g.err == nil {
		g.err = g.pace.Send(g.w, b)
	}
}
