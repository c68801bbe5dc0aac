package forward

import (
	"errors"
	"io"
	"sync"
)

// keptMax bounds the first bytes of a body that are kept. A body that is not longer can be sent
// again. The head of a longer one is sent alone first (Expect: 100-continue), so that a broker can
// refuse it before the body has left.
const keptMax = 64 << 10

// body is the body of a request that may be sent several times, one after the other.
type body struct {
	in io.Reader // of the client

	reading sync.Mutex // held while in is read

	mu   sync.Mutex // guards the fields below; taken after reading
	kept []byte     // the first bytes; its capacity is fixed
	lost bool       // bytes beyond kept were read
	err  error      // of in
	turn int        // number of the attempt that may read
}

var errOver = errors.New("the attempt is over")

// attempt begins to read the body from its start; readers of earlier attempts fail from now on. ok is
// false if the start is not available any more.
func (b *body) attempt() (r *attempt, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return &attempt{b: b, turn: b.turn}, !b.lost
}

// whole reads the body to its end and returns it. It fits into the kept bytes.
func (b *body) whole() ([]byte, error) {
	r, ok := b.attempt()
	if !ok {
		return nil, errOver
	}
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept, nil
}

// available reports whether the body can be read from its start.
func (b *body) available() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost
}

// release gives up the kept bytes. Readers fail from now on.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.lost = nil, true
	b.turn++
}

// clientErr returns why the client's body ended early, or nil.
func (b *body) clientErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// attempt reads a body for one attempt.
type attempt struct {
	b    *body
	turn int

	at   int  // bytes of kept that were read; guarded by b.mu
	sent bool // bytes were read; guarded by b.mu
}

// begun reports whether the attempt has read any byte.
func (r *attempt) begun() bool {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.sent
}

// again lets the attempt read from the start, because nothing of it was written.
func (r *attempt) again() (*attempt, error) {
	next, ok := r.b.attempt()
	if !ok {
		return nil, errOver
	}
	return next, nil
}

// Read implements io.Reader.
func (r *attempt) Read(p []byte) (int, error) {
	if n, done, err := r.fromKept(p); done {
		return n, err
	}
	r.b.reading.Lock()
	defer r.b.reading.Unlock()
	// Another attempt may have read meanwhile.
	if n, done, err := r.fromKept(p); done {
		return n, err
	}
	return r.fromClient(p)
}

// fromKept reads kept bytes. done is false if the client's are next.
func (r *attempt) fromKept(p []byte) (n int, done bool, err error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.turn != b.turn:
		return 0, true, errOver
	case r.at < len(b.kept):
		n = copy(p, b.kept[r.at:])
		r.at += n
		r.sent = true
		return n, true, nil
	case b.err != nil:
		return 0, true, b.err
	case len(b.kept) == cap(b.kept):
		b.lost = true // before the read, because it may still be in progress when another attempt asks
	}
	return 0, false, nil
}

// fromClient reads from the client, and keeps what fits. The caller holds b.reading.
func (r *attempt) fromClient(p []byte) (int, error) {
	b := r.b
	b.mu.Lock()
	room := cap(b.kept) - len(b.kept)
	b.mu.Unlock()
	if room > 0 && len(p) > room {
		p = p[:room]
	}
	n, err := b.in.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	switch {
	case room > 0 && b.kept != nil:
		b.kept = append(b.kept, p[:n]...)
	case room == 0 && n == 0:
		b.lost = b.kept == nil
	}
	if r.turn != b.turn {
		return 0, errOver
	}
	r.at += n
	r.sent = r.sent || n > 0
	return n, err
}

// Close implements io.Closer.
func (r *attempt) Close() error { return nil }
