package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/budget"
)

// intake is the body of a produce request and the memory it takes: reserved before it is read, never more than that.
// It belongs to the request's goroutine; what is handed to the broker goes back through the functions of hand.
type intake struct {
	a   *API
	w   http.ResponseWriter
	r   *http.Request
	max int64 // bytes of body
	// patient requests wait for memory instead of being refused; see legacyProduce.
	patient bool

	res   *budget.Reservation
	slack int64    // reserved and in no buffer
	fixed int64    // of readers in use
	bufs  [][]byte // buffers not handed to the broker

	read  int64 // bytes of body read
	step  int64 // where the next step of the read deadline is due
	ended bool
}

const (
	// slackMin is reserved beside a body, for a reader's buffer and small things.
	slackMin = 16 << 10
	// growMin is the first buffer of a body of unknown length.
	growMin = 16 << 10
)

// open checks the declared length and reserves memory for the body; nothing of it is read before.
func (in *intake) open() error {
	declared := in.r.ContentLength
	if declared > in.max {
		return tooLarge("body", in.max, declared)
	}
	if declared == 0 {
		return badField("body", "empty; to write an empty record say so, in JSON or with a size of 0")
	}
	in.step = stepBytes
	n := max(declared, growMin)
	if n += slackMin; n+n/8 <= in.a.produce.Limit() {
		n += n / 8 // most bodies fit into that as batches, so that nothing has to grow
	}
	return in.reserve(n)
}

// reserve takes n bytes. The request must hold nothing.
func (in *intake) reserve(n int64) (err error) {
	if !in.patient {
		in.res, err = in.a.produce.Reserve(n)
	} else {
		// While nobody reads the connection its end goes unnoticed, hence the limit.
		ctx, cancel := context.WithTimeout(in.r.Context(), in.a.o.BudgetWait)
		defer cancel()
		ctx, done := in.a.untilStop(ctx)
		defer done()
		if in.res, err = in.a.produce.ReserveWait(ctx, n); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", budget.ErrOver, err)
		}
		in.a.readStep(in.w)
	}
	in.slack = n
	return err
}

// need makes sure that n bytes are reserved and not in use.
func (in *intake) need(n int64) error {
	if n <= in.slack {
		return nil
	}
	err := in.res.Grow(n - in.slack)
	if err == nil {
		in.slack = n
		return nil
	}
	if !in.patient || len(in.bufs) > 0 || errors.Is(err, budget.ErrTooLarge) {
		return err
	}
	// Nothing of size is held yet: let go, so that nobody waits for us, and queue.
	in.res.Release()
	if err := in.reserve(n + in.fixed); err != nil {
		return err
	}
	in.slack = n
	return nil
}

// get returns a buffer of length n.
func (in *intake) get(n int) ([]byte, error) {
	size := int64(budget.SizeFor(n))
	if err := in.need(size); err != nil {
		return nil, err
	}
	in.slack -= size
	b := in.a.buffers.Get(n)
	in.bufs = append(in.bufs, b)
	return b, nil
}

// put gives a buffer of get back before the end.
func (in *intake) put(b []byte) {
	if in.drop(b) {
		in.slack += int64(cap(b))
		in.a.buffers.Put(b)
	}
}

// hand takes a buffer out of the intake and returns what gives it back, to be called once, by whom it was handed to.
func (in *intake) hand(b []byte) func() {
	if !in.drop(b) {
		panic("httpapi: handed a buffer that is not the request's")
	}
	res, buffers := in.res, in.a.buffers
	return func() {
		buffers.Put(b)
		res.Shrink(int64(cap(b)))
	}
}

func (in *intake) drop(b []byte) bool {
	for i := range in.bufs {
		if &in.bufs[i][:1][0] == &b[:1][0] {
			in.bufs = append(in.bufs[:i], in.bufs[i+1:]...)
			return true
		}
	}
	return false
}

// close gives everything back that was not handed on. It may be called more than once.
func (in *intake) close() {
	for _, b := range in.bufs {
		in.slack += int64(cap(b))
		in.a.buffers.Put(b)
	}
	in.bufs = nil
	in.res.Shrink(in.slack)
	in.slack = 0
}

// Read reads the body at no less than the minimum rate and no further than the limit.
func (in *intake) Read(p []byte) (int, error) {
	n, err := in.r.Body.Read(p)
	if in.read += int64(n); in.read > in.max {
		return n, tooLarge("body", in.max, in.read)
	}
	if err == nil && in.read >= in.step {
		in.step = in.read + stepBytes
		in.a.readStep(in.w)
	}
	if err == io.EOF && !in.ended {
		in.ended = true
		readDone(in.w)
	}
	return n, err
}

// whole reads all of the body into one buffer.
func (in *intake) whole() ([]byte, error) {
	n := growMin
	if in.r.ContentLength > 0 {
		n = int(in.r.ContentLength)
	}
	buf, err := in.get(n)
	if err != nil {
		return nil, err
	}
	at := 0
	for {
		if at == len(buf) {
			if in.r.ContentLength > 0 {
				return buf, in.end()
			}
			if buf, err = in.grow(buf, at, 2*len(buf)); err != nil {
				return nil, err
			}
		}
		n, err := in.Read(buf[at:])
		if at += n; err == io.EOF {
			break
		}
		if err != nil {
			return nil, readFault(err)
		}
	}
	if at == 0 {
		return nil, badField("body", "empty")
	}
	return buf[:at], nil
}

// end reads the end of a body whose declared bytes are all there.
func (in *intake) end() error {
	var none [1]byte
	if _, err := in.Read(none[:]); err != io.EOF {
		return readFault(err)
	}
	return nil
}

// grow moves the first n bytes of a buffer into a larger one.
func (in *intake) grow(buf []byte, n, size int) ([]byte, error) {
	larger, err := in.get(size)
	if err != nil {
		return nil, err
	}
	copy(larger, buf[:n])
	in.put(buf)
	return larger, nil
}

// readFault is the answer to a body that could not be read.
func readFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badField("body", "ends before its declared length")
	}
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return fmt.Errorf("read body: %w", err)
}

// Readers between the connection and a multipart parser: the small ones for bodies that are small themselves.
const smallBody = 8 << 10

var (
	smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, multipartHeadMax) }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, stepBytes) }}
)

// buffered returns a reader of the body and what gives it back.
func (in *intake) buffered() (*bufio.Reader, func(), error) {
	pool := &largeReaders
	if n := in.r.ContentLength; n >= 0 && n <= smallBody {
		pool = &smallReaders
	}
	br := pool.Get().(*bufio.Reader)
	size := int64(br.Size())
	if err := in.need(size); err != nil {
		pool.Put(br)
		return nil, nil, err
	}
	in.slack -= size
	in.fixed += size
	br.Reset(in)
	return br, func() {
		in.slack += size
		in.fixed -= size
		br.Reset(bytes.NewReader(nil))
		pool.Put(br)
	}, nil
}
