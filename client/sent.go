package client

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// sentBody is a request body that records whether the transport has read all of it. Until the last
// byte is read the broker cannot have acted on the request, because it reads a body of announced
// length to the end first. After detach no goroutine accesses the data, even if the transport reads
// late.
type sentBody struct {
	data []byte

	mu       sync.Mutex // guards detached and whole
	detached bool
	whole    bool
}

// attach makes s the body of req.
func (s *sentBody) attach(req *http.Request) {
	if len(s.data) == 0 {
		// The body is empty, so the request may be on its way from now on.
		s.whole = true
		return
	}
	req.ContentLength = int64(len(s.data))
	req.Body = &bodyReader{s: s}
	req.GetBody = func() (io.ReadCloser, error) { return &bodyReader{s: s}, nil }
}

// detach ends all access to the data and reports whether all of it may have been sent.
func (s *sentBody) detach() (whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	return s.whole
}

// bodyReader reads a sentBody once. The transport opens another one if a pooled connection was
// closed before it wrote to it.
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

var errDetached = errors.New("request has ended")
