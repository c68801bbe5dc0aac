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
	"github.com/sebbroker/seb/internal/forms"
)

// intake is the body of a produce request and the memory it takes: reserved before it is read, never more than that.
// It belongs to the request's goroutine.
type intake struct {
	a      *API
	w      http.ResponseWriter
	r      *http.Request
	max    int64 // bytes of body
	memory forms.Memory

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
		return api.OverLimit("body", in.max, declared)
	}
	if declared == 0 {
		return api.BadField("body", "empty; to write an empty record say so, in JSON or with a size of 0")
	}
	in.step = stepBytes
	n := max(declared, growMin)
	if n += slackMin; n+n/8 <= in.a.produce.Limit() {
		n += n / 8 // most bodies fit into that as batches, so that nothing has to grow
	}
	return in.memory.Need(n)
}

// patient makes the intake wait for memory instead of being refused; see patientProduce. While it waits nobody reads the
// connection, so its end goes unnoticed, hence the limit.
func (in *intake) patient() {
	in.memory.Wait = func(n int64) (*budget.Reservation, error) {
		ctx, cancel := context.WithTimeout(in.r.Context(), in.a.o.BudgetWait)
		defer cancel()
		ctx, done := in.a.untilStop(ctx)
		defer done()
		r, err := in.a.produce.ReserveWait(ctx, n)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", budget.ErrOver, err)
		}
		in.a.readStep(in.w)
		return r, err
	}
}

// Read reads the body at no less than the minimum rate and no further than the limit.
func (in *intake) Read(p []byte) (int, error) {
	n, err := in.r.Body.Read(p)
	if in.read += int64(n); in.read > in.max {
		return n, api.OverLimit("body", in.max, in.read)
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
	buf, err := in.memory.Get(n)
	if err != nil {
		return nil, err
	}
	at := 0
	for {
		if at == len(buf) {
			if in.r.ContentLength > 0 {
				return buf, in.end()
			}
			if buf, err = in.memory.Grow(buf, at, 2*len(buf)); err != nil {
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
		return nil, api.BadField("body", "empty")
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

// readFault is the answer to a body that could not be read.
func readFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return api.BadField("body", "ends before its declared length")
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
	smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, forms.HeadMax) }}
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
	if err := in.memory.Hold(size); err != nil {
		pool.Put(br)
		return nil, nil, err
	}
	br.Reset(in)
	return br, func() {
		_ = in.memory.Hold(-size) // less is always there
		br.Reset(bytes.NewReader(nil))
		pool.Put(br)
	}, nil
}
