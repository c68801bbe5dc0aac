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

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// Body reads the body of a produce request and reserves its memory. It reserves memory before it
// reads, and never reads more than it reserved. Set the exported fields before Open. A Body belongs
// to the goroutine of its request.
type Body struct {
	W       http.ResponseWriter
	R       *http.Request
	Timeout ProgressTimeout
	Max     int64        // largest size in bytes
	Memory  budget.Arena // the caller releases it

	slot  *ConnSlot
	ahead []byte // read by Peek and not yet by Read
	read  int64  // bytes read
	step  int64  // value of read at which the read deadline is extended
	ended bool
	later bool // the timing of the body starts with the next Read
}

const (
	// slackMin is reserved in addition to the body, for a reader's buffer and small values; for a small
	// body smallSlack and the batches of its records.
	slackMin   = 16 << 10
	smallSlack = 12 << 10
	// growMin is the first buffer of a body of unknown length.
	growMin = 16 << 10
)

// Declared checks the declared length.
func (in *Body) Declared() error {
	switch declared := in.R.ContentLength; {
	case declared > in.Max:
		return problem.OverLimit("body", in.Max, declared)
	case declared == 0:
		return problem.BadField("body", "empty; send an empty record as JSON or with a size of 0")
	}
	in.step, in.slot = StepBytes, SlotOf(in.R.Context())
	return nil
}

// Open checks the declared length and reserves memory for the body. It reads nothing.
func (in *Body) Open() error { return in.OpenFor(in.R.ContentLength) }

// OpenFor is Open, but reserves memory for n bytes of the body. The caller reserves memory for the
// rest before it reads that.
func (in *Body) OpenFor(n int64) error {
	if err := in.Declared(); err != nil {
		return err
	}
	if err := in.Memory.Need(in.estimate(n)); err != nil {
		return err
	}
	if !in.ended {
		in.beginRead()
	}
	return nil
}

// estimate returns the memory that most bodies of n bytes take with their batches, so that none of
// their buffers has to wait for more.
func (in *Body) estimate(n int64) int64 {
	if in.R.ContentLength > 0 && in.R.ContentLength <= smallBody {
		return 2*n + smallSlack
	}
	n = max(n, growMin) + slackMin
	if n+n/8 <= in.Memory.Class.Limit() {
		n += n / 8
	}
	return n
}

// Peek reads the beginning of a body into b before memory is reserved for it. Call it after Declared.
// The next Read returns the bytes again.
func (in *Body) Peek(b []byte) error {
	in.Timeout.ExtendRead(in.W)
	in.beginRead()
	defer in.slot.EndRead()
	n, err := io.ReadFull(in, b)
	in.ahead = b[:n]
	return err
}

// beginRead starts the timing of the body, unless the body has already arrived completely.
func (in *Body) beginRead() {
	if !in.slot.BodyReceived() {
		in.slot.BeginRead()
	}
}

// WaitForMemory makes the body wait up to limit for memory before it fails with budget.ErrOver. The
// limit is needed because the wait does not read the connection, and so does not notice a client
// that has disconnected.
func (in *Body) WaitForMemory(limit time.Duration, drain *DrainGroup) {
	in.Memory.Wait = func(n int64) (*budget.Reservation, error) {
		ctx, cancel := context.WithTimeout(in.R.Context(), limit)
		defer cancel()
		ctx, done := drain.Until(ctx)
		defer done()
		in.slot.EndRead() // a client is not slow while the broker waits for memory
		if !in.later {
			defer in.beginRead()
		}
		r, err := in.Memory.Class.ReserveWait(ctx, n)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", budget.ErrOver, err)
		}
		if !in.slot.BodyReceived() {
			in.Timeout.ExtendRead(in.W)
		}
		return r, err
	}
}

// Read implements io.Reader. It enforces the progress timeout and the largest size.
func (in *Body) Read(p []byte) (int, error) {
	if in.later {
		in.later = false
		in.beginRead()
	}
	if len(in.ahead) > 0 {
		n := copy(p, in.ahead)
		in.ahead = in.ahead[n:]
		return n, nil
	}
	n, err := in.R.Body.Read(p)
	err = bodyFault(err)
	if in.read += int64(n); in.read > in.Max {
		return n, problem.OverLimit("body", in.Max, in.read)
	}
	if in.slot.BodyReceived() {
		return n, err
	}
	in.slot.AddRead(n)
	if err == nil && in.read >= in.step {
		in.step = in.read + StepBytes
		in.Timeout.ExtendRead(in.W)
	}
	if err == io.EOF && !in.ended {
		in.ended = true
		in.slot.EndRead()
		ClearRead(in.W)
	}
	return n, err
}

// ReadAll reads the whole body into one buffer of Memory.
func (in *Body) ReadAll() ([]byte, error) {
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

// End checks that the body ends after its declared length.
func (in *Body) End() error {
	var none [1]byte
	if _, err := in.Read(none[:]); err != io.EOF {
		return ReadFault(err)
	}
	return nil
}

// smallBody is the largest body that is read through a small buffer.
const smallBody = 8 << 10

var (
	smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, encoding.HeadMax) }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, StepBytes) }}
)

// readers returns the pool of buffered readers for the size of the body.
func (in *Body) readers() *sync.Pool {
	if n := in.R.ContentLength; n >= 0 && n <= smallBody {
		return &smallReaders
	}
	return &largeReaders
}

// Buffered returns a buffered reader of the body. Return it with GiveBack.
func (in *Body) Buffered() (*bufio.Reader, error) {
	br := in.readers().Get().(*bufio.Reader)
	if err := in.Memory.Hold(int64(br.Size())); err != nil {
		in.readers().Put(br)
		return nil, err
	}
	br.Reset(in)
	return br, nil
}

// GiveBack returns the reader of Buffered to its pool. Call it once; the reader is invalid
// afterwards.
func (in *Body) GiveBack(br *bufio.Reader) {
	_ = in.Memory.Hold(-int64(br.Size())) // releasing memory cannot fail
	br.Reset(nil)
	in.readers().Put(br)
}
