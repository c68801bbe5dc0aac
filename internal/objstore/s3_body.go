package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

var errDetached = errors.New("request body was released")

// partsReader reads the parts of a Body in order. The transport may hold it long after the request,
// so Put detaches the parts before it returns.
type partsReader struct {
	mu       sync.Mutex // guards all fields; held while bytes are copied
	parts    [][]byte
	size     int64
	at       int64 // position
	part     int   // index of the part with the next byte, or of an empty one before it
	offset   int   // position in that part
	detached bool
}

func newPartsReader(b Body) *partsReader {
	return &partsReader{parts: b.Parts, size: b.Size}
}

// Read implements io.Reader.
func (r *partsReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		return 0, errDetached
	}
	done := 0
	for done < len(p) && r.part < len(r.parts) {
		n := copy(p[done:], r.parts[r.part][r.offset:])
		done += n
		r.offset += n
		r.at += int64(n)
		if r.offset == len(r.parts[r.part]) {
			r.part++
			r.offset = 0
		}
	}
	if done == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return done, nil
}

// Seek implements io.Seeker.
func (r *partsReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 || offset > r.size {
		return r.at, fmt.Errorf("seek to %d of %d bytes", offset, r.size)
	}
	r.at, r.part, r.offset = offset, 0, 0
	for left := offset; left > 0; r.part++ {
		n := int64(len(r.parts[r.part]))
		if left < n {
			r.offset = int(left)
			break
		}
		left -= n
	}
	return r.at, nil
}

// detach ensures that the parts are not read any more. It waits for a running Read, which holds mu.
func (r *partsReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts, r.detached = nil, true
}

var errStalled = errors.New("object store did not answer in time")

// watchdog cancels a request if a step of it exceeds the timeout.
type watchdog struct {
	timeout time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watch returns a context that ends with errStalled if the first step is not done within timeout.
func watch(ctx context.Context, timeout time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{timeout: timeout, cancel: cancel}
	w.timer = time.AfterFunc(timeout, func() { cancel(errStalled) })
	return ctx, w
}

func (w *watchdog) begin() { w.timer.Reset(w.timeout) }
func (w *watchdog) done()  { w.timer.Stop() }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// objectBody is the body of a GET. The watchdog bounds the wait for the store, but not the time of
// a slow reader.
type objectBody struct {
	ctx    context.Context // of the request; lives as long as the body
	body   io.ReadCloser
	left   int64 // bytes still to come; -1 if the store did not report them
	dog    *watchdog
	closed bool
}

// Read implements io.Reader. Fewer bytes than announced are ErrNoVerdict.
func (b *objectBody) Read(p []byte) (int, error) {
	if b.left == 0 || len(p) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		return 0, nil
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	b.dog.begin()
	n, err := b.body.Read(p)
	b.dog.done()
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case err == nil, b.left == 0:
		return n, nil
	case err == io.EOF && b.left < 0:
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case b.ctx.Err() != nil:
		err = ended(b.ctx)
	}
	return n, fmt.Errorf("read object: %w: %w", ErrNoVerdict, err)
}

// Close implements io.Closer.
func (b *objectBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.left == 0 {
		// Reading to the end, which has already arrived, lets the connection be reused.
		b.dog.begin()
		_, _ = io.CopyN(io.Discard, b.body, 1)
	}
	err := b.body.Close()
	b.dog.stop()
	if err != nil && b.ctx.Err() == nil {
		return fmt.Errorf("close object: %w: %w", ErrNoVerdict, err)
	}
	return nil
}
