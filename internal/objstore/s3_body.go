package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

var errDetached = errors.New("the body has been given back to its owner")

// partsReader reads the parts of a Body in order. The transport may still hold it when the request is long over, so the
// parts are taken away from it before Put returns.
type partsReader struct {
	mu       sync.Mutex // guards all fields; held while bytes are copied
	parts    [][]byte
	size     int64
	at       int64 // position
	part     int   // the part that has the next byte, or an empty one before it
	offset   int   // in that part
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

// detach makes sure that no byte of the parts is read any more.
func (r *partsReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts, r.detached = nil, true
}

var errStalled = errors.New("the store stopped answering")

// watchdog cancels a request when a step of it takes too long.
type watchdog struct {
	patience time.Duration
	timer    *time.Timer
	cancel   context.CancelCauseFunc
}

// watch returns a context that ends with errStalled if the first step is not done within patience.
func watch(ctx context.Context, patience time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{patience: patience, cancel: cancel}
	w.timer = time.AfterFunc(patience, func() { cancel(errStalled) })
	return ctx, w
}

func (w *watchdog) begin() { w.timer.Reset(w.patience) }
func (w *watchdog) done()  { w.timer.Stop() }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// objectBody is the body of a GET. Waiting for the store is bounded by the watchdog; a slow reader is not.
type objectBody struct {
	ctx    context.Context // of the request, which lives as long as its body
	body   io.ReadCloser
	left   int64 // bytes still to come; -1 if the store did not say
	dog    *watchdog
	closed bool
}

// Read implements io.Reader. Fewer bytes than the store promised are ErrNoVerdict.
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
		// Reading on to the end, which is here already, lets the connection be used again.
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
