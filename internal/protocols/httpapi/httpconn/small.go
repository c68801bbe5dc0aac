package httpconn

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// ReadFault returns the answer to an error of reading a body.
func ReadFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.BadField("body", "ends before its declared length")
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	return fmt.Errorf("read body: %w", err)
}

// Small reads a whole body of at most limit bytes.
func Small(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if _, err := Bound(r.ContentLength, limit); err != nil {
		return nil, err
	}
	slot := SlotOf(r.Context())
	slot.BeginRead()
	body, err := io.ReadAll(io.LimitReader(&counted{r.Body, slot}, limit+1))
	if err != nil {
		return nil, ReadFault(err)
	}
	slot.EndRead()
	ClearRead(w)
	if int64(len(body)) > limit {
		return nil, problem.OverLimit("body", limit, int64(len(body)))
	}
	return body, nil
}

const (
	// postMax is the length up to which net/http reads a body before it sends the answer.
	postMax = 256 << 10
	// dropMax bounds the bytes of a refused body that are read.
	dropMax = 64 << 20
)

// Overtake lets the answer to a request be sent before its body is read. Call it before the answer is
// written. drop reads the body then, because many clients send all of it before they read the answer:
// if the connection were closed at once, they would see an error of the network, and send it again.
func (p ProgressTimeout) Overtake(w http.ResponseWriter, r *http.Request) (drop func()) {
	c := http.NewResponseController(w)
	if r.ContentLength >= 0 && r.ContentLength <= postMax || r.Header.Get("Expect") != "" || w.Header().Get("Connection") != "" || c.EnableFullDuplex() != nil {
		return func() {}
	}
	w.Header().Set("Connection", "close") // else the next request may arrive before drop ends
	return func() {
		slot := SlotOf(r.Context())
		slot.BeginRead()
		defer slot.EndRead()
		body, err := &counted{r.Body, slot}, c.Flush()
		for n := 0; n < dropMax && err == nil; n += StepBytes {
			p.ExtendRead(w)
			_, err = io.CopyN(io.Discard, body, StepBytes)
		}
		ClearRead(w)
	}
}

// counted reports the bytes it reads to the connection's slot.
type counted struct {
	r    io.Reader
	slot *ConnSlot
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.slot.AddRead(n)
	return n, bodyFault(err)
}

// bodyFault separates errors of the client from errors of the connection. net/http has no error
// type for malformed chunks.
func bodyFault(err error) error {
	if err == nil || err == io.EOF {
		return err // first, because every read comes here
	}
	var broken net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.As(err, &broken), errors.Is(err, net.ErrClosed):
		return problem.BadField("body", "the connection was interrupted")
	}
	return problem.BadField("body", "invalid transfer coding: %v", err)
}

// Bound returns an upper bound of a body's length: the declared length or the limit. A larger declared
// length is a problem.
func Bound(declared, limit int64) (int64, error) {
	switch {
	case declared > limit:
		return 0, problem.OverLimit("body", limit, declared)
	case declared < 0:
		return limit, nil
	}
	return declared, nil
}

// JSON decodes a body of at most limit bytes into v. Unknown members are errors.
func JSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := Small(w, r, limit)
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode decodes a body as input.JSON does. Its problems name the member, and its path in the detail.
func Decode(body []byte, v any) error {
	err := input.JSON(body, v, input.NoNull)
	f, ok := errors.AsType[*input.Fault](err)
	if !ok {
		return err
	}
	p := problem.BadField(cmp.Or(f.Name, "body"), "%s", f.Reason)
	p.Detail = cmp.Or(f.Path, "body") + ": " + f.Reason
	return p
}
