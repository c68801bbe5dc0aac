package httpconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/problem"
)

// Body is the body of a request that brings records and the memory it takes: reserved before it is read, never more than
// that. The exported fields are set before Open. It belongs to the request's goroutine.
type Body struct {
	W      http.ResponseWriter
	R      *http.Request
	Pace   Pace
	Max    int64        // bytes of body
	Memory budget.Arena // Release is the caller's to call

	place *Place
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

// Open checks the declared length and reserves memory for the body; nothing of it is read before.
func (in *Body) Open() error {
	declared := in.R.ContentLength
	if declared > in.Max {
		return problem.OverLimit("body", in.Max, declared)
	}
	if declared == 0 {
		return problem.BadField("body", "empty; to write an empty record say so, in JSON or with a size of 0")
	}
	in.step, in.place = StepBytes, PlaceOf(in.R.Context())
	n := max(declared, growMin)
	if n += slackMin; n+n/8 <= in.Memory.Class.Limit() {
		n += n / 8 // most bodies fit into that as batches, so that nothing has to grow
	}
	if err := in.Memory.Need(n); err != nil {
		return err
	}
	in.reading()
	return nil
}

// reading tells that the body is read from now on, if that can take time.
func (in *Body) reading() {
	if !in.place.Whole() {
		in.place.Reading()
	}
}

// Patient makes the body wait for memory, up to limit, instead of being refused: budget.ErrOver comes only then. While it
// waits nobody reads the connection, so its end goes unnoticed, hence the limit.
func (in *Body) Patient(limit time.Duration, stops *Stops) {
	in.Memory.Wait = func(n int64) (*budget.Reservation, error) {
		ctx, cancel := context.WithTimeout(in.R.Context(), limit)
		defer cancel()
		ctx, done := stops.Until(ctx)
		defer done()
		in.place.Read() // whoever waits for us is not slow
		defer in.reading()
		r, err := in.Memory.Class.ReserveWait(ctx, n)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", budget.ErrOver, err)
		}
		if !in.place.Whole() {
			in.Pace.ReadStep(in.W)
		}
		return r, err
	}
}

// Read reads the body at no less than the minimum rate and no further than the limit.
func (in *Body) Read(p []byte) (int, error) {
	n, err := in.R.Body.Read(p)
	err = bodyFault(err)
	if in.read += int64(n); in.read > in.Max {
		return n, problem.OverLimit("body", in.Max, in.read)
	}
	if in.place.Whole() {
		return n, err
	}
	in.place.Got(n)
	if err == nil && in.read >= in.step {
		in.step = in.read + StepBytes
		in.Pace.ReadStep(in.W)
	}
	if err == io.EOF && !in.ended {
		in.ended = true
		in.place.Read()
		ReadDone(in.W)
	}
	return n, err
}

// Whole reads all of the body into one buffer of Memory.
func (in *Body) Whole() ([]byte, error) {
	n := growMin
	if in.R.ContentLength > 0 {
		n = int(in.R.ContentLength)
	}
	buf, err := in.Memory.Get(n)
	if err != nil {
		return nil, err
	}
	at := 0
	for {
		if at == len(buf) {
			if in.R.ContentLength > 0 {
				return buf, in.End()
			}
			if buf, err = in.Memory.Grow(buf, at, 2*len(buf)); err != nil {
				return nil, err
			}
		}
		n, err := in.Read(buf[at:])
		if at += n; err == io.EOF {
			break
		}
		if err != nil {
			return nil, ReadFault(err)
		}
	}
	if at == 0 {
		return nil, problem.BadField("body", "empty")
	}
	return buf[:at], nil
}

// End reads the end of a body whose declared bytes are all there.
func (in *Body) End() error {
	var none [1]byte
	if _, err := in.Read(none[:]); err != io.EOF {
		return ReadFault(err)
	}
	return nil
}

// Readers between the connection and a multipart parser: the small ones for bodies that are small themselves.
const smallBody = 8 << 10

var (
	smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, encoding.HeadMax) }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, StepBytes) }}
)

// readers is where the reader of the body comes from.
func (in *Body) readers() *sync.Pool {
	if n := in.R.ContentLength; n >= 0 && n <= smallBody {
		return &smallReaders
	}
	return &largeReaders
}

// Buffered returns a reader of the body, which GiveBack takes.
func (in *Body) Buffered() (*bufio.Reader, error) {
	br := in.readers().Get().(*bufio.Reader)
	if err := in.Memory.Hold(int64(br.Size())); err != nil {
		in.readers().Put(br)
		return nil, err
	}
	br.Reset(in)
	return br, nil
}

// GiveBack takes the reader of Buffered, which is not to be used any more. Call it once.
func (in *Body) GiveBack(br *bufio.Reader) {
	_ = in.Memory.Hold(-int64(br.Size())) // less is always there
	br.Reset(nil)
	in.readers().Put(br)
}
