package client

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// sentBody is a request's body that knows whether the transport has taken all of it. As long as the last byte was not
// taken the broker can not have acted on the request: it reads a body to its announced end first. After detach nobody
// touches the data any more, however late the transport's goroutine comes back for it.
type sentBody struct {
	data []byte

	mu       sync.Mutex // guards detached, whole
	detached bool
	whole    bool
}

// attach makes s the body of req.
func (s *sentBody) attach(req *http.Request) {
	if len(s.data) == 0 {
		// There is no last byte to wait for: from here on the request may be on its way.
		s.whole = true
		return
	}
	req.ContentLength = int64(len(s.data))
	req.Body = &bodyReader{s: s}
	req.GetBody = func() (io.ReadCloser, error) { return &bodyReader{s: s}, nil }
}

// detach ends every access to the data and reports whether all of it may have left.
func (s *sentBody) detach() (whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	return s.whole
}

// bodyReader is one pass over a sentBody; the transport starts another when it finds a pooled connection dead before it
// has written anything to it.
type bodyReader struct {
	s   *sentBody
	pos int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.detached {
		return 0, errDetached
	}
	if r.pos == len(r.s.data) {
		return 0, io.EOF
	}
	n := copy(p, r.s.data[r.pos:])
	r.pos += n
	if r.pos == len(r.s.data) {
		r.s.whole = true
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }

var errDetached = errors.New("request is over")
