package httpconn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
)

// ReadFault is the answer to a body that could not be read.
func ReadFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.BadField("body", "ends before its declared length")
	}
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return fmt.Errorf("read body: %w", err)
}

// Small reads a whole body of at most limit bytes.
func Small(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, problem.OverLimit("body", limit, r.ContentLength)
	}
	place := PlaceOf(r.Context())
	place.Reading()
	body, err := io.ReadAll(io.LimitReader(&counted{r.Body, place}, limit+1))
	if err != nil {
		return nil, ReadFault(err)
	}
	place.Read()
	ReadDone(w)
	if int64(len(body)) > limit {
		return nil, problem.OverLimit("body", limit, int64(len(body)))
	}
	return body, nil
}

// counted tells the connection's place of what is read.
type counted struct {
	r     io.Reader
	place *Place
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.place.Got(n)
	return n, bodyFault(err)
}

// bodyFault tells what is the client's from what is the connection's in an error of reading a body as net/http gives it:
// chunks that are malformed have no error of their own.
func bodyFault(err error) error {
	if err == nil || err == io.EOF {
		return err // before anything is allocated: this is every read
	}
	var broken net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.As(err, &broken), errors.Is(err, net.ErrClosed):
		return problem.BadField("body", "the connection broke off")
	}
	return problem.BadField("body", "its coding is wrong: %v", err)
}

// BodyBound is how large a body can be: what it is said to be, or the limit.
func BodyBound(declared, limit int64) int64 {
	if declared < 0 {
		return limit
	}
	return min(declared, limit)
}

// JSON reads a body of at most limit bytes into v, whose members are all there are.
func JSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := Small(w, r, limit)
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode reads a body that is one JSON value into v, whose members are all there are. Faults name the member.
func Decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
			return problem.BadField(cmp.Or(field, "body"), "%s", problem.WrongKind(wrong))
		}
		if err == io.EOF {
			return problem.BadField("body", "empty")
		}
		return problem.BadField("body", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return problem.BadField("body", "more than one JSON value")
	}
	return noNulls(bytes.TrimSpace(body), reflect.TypeOf(v).Elem(), "")
}
