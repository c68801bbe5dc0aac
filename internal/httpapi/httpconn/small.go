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
	if r.ContentLength > limit {
		return nil, problem.OverLimit("body", limit, r.ContentLength)
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

// BodyBound returns an upper bound of a body's length: the declared length or the limit.
func BodyBound(declared, limit int64) int64 {
	if declared < 0 {
		return limit
	}
	return min(declared, limit)
}

// JSON decodes a body of at most limit bytes into v. Unknown members are errors.
func JSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := Small(w, r, limit)
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode decodes a body of one JSON value into v. Unknown members are errors. Errors name the
// member.
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

var (
	rawMessage  = reflect.TypeFor[json.RawMessage]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// noNulls refuses null in a JSON text that was decoded into a value of type t, except for pointers
// and raw messages: encoding/json ignores null for other types, as if the member were absent. name
// is the member that holds text.
func noNulls(text json.RawMessage, t reflect.Type, name string) error {
	null := string(text) == "null"
	switch {
	case t == rawMessage || null && t.Kind() == reflect.Pointer:
		return nil
	case null:
		return problem.BadField(cmp.Or(name, "body"), "must not be null; leave it out")
	case reflect.PointerTo(t).Implements(unmarshaler): // a text, such as a time
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return noNulls(text, t.Elem(), name)
	case reflect.Slice:
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return err
		}
		for _, e := range elements {
			if err := noNulls(e, t.Elem(), name); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		for _, f := range reflect.VisibleFields(t) {
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if given, ok := members[member]; ok && !f.Anonymous {
				if err := noNulls(given, f.Type, member); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
