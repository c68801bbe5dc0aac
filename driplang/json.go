package driplang

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// MarshalJSON is e in canonical JSON form; parsing it gives e again. [Schema] describes the form.
func (e Expr) MarshalJSON() ([]byte, error) {
	if e.root == nil {
		return []byte("null"), nil
	}
	var b strings.Builder
	writeTerm(&b, e.root)
	return []byte(b.String()), nil
}

// UnmarshalJSON is [ParseJSON], for use in larger documents.
func (e *Expr) UnmarshalJSON(text []byte) error {
	parsed, err := ParseJSON(text)
	if err == nil {
		*e = parsed
	}
	return err
}

// ParseJSON reads an expression in JSON form: an object with one key for each operator, see [Schema]. A fault is an
// [*Error] with a JSON Pointer, or with line and column if text is not JSON.
func ParseJSON(text []byte) (Expr, error) {
	r, err := newReader(text)
	if err != nil {
		return Expr{}, err
	}
	root, err := r.term(&pointer{}, 1)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return Expr{}, err
	}
	return finish(root)
}

// jsonReader takes a JSON document token by token, so that nothing is kept that is not wanted, and the depth is
// checked on the way down.
type jsonReader struct {
	text []byte
	dec  *json.Decoder
}

func newReader(text []byte) (*jsonReader, *Error) {
	root := place{}
	if len(text) > MaxJSON {
		return nil, root.fault("the expression has %d bytes, the limit is %d", len(text), MaxJSON)
	}
	if !utf8.Valid(text) {
		return nil, root.fault("the text is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &jsonReader{text: text, dec: dec}, nil
}

func (r *jsonReader) token() (json.Token, *Error) {
	t, err := r.dec.Token()
	if err == nil {
		return t, nil
	}
	offset, message := min(int(r.dec.InputOffset()), len(r.text)), strings.TrimPrefix(err.Error(), "json: ")
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, message = len(r.text), "unexpected end of the JSON document"
	}
	for offset < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[offset]) >= 0 { // up to what is wrong
		offset++
	}
	before := r.text[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	col := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return nil, &Error{Line: line, Col: col, Message: message}
}

func (r *jsonReader) end() *Error {
	if r.dec.More() {
		_, err := r.token()
		if err == nil {
			err = place{}.fault("more after the end of the expression")
		}
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return place{}.fault("more after the end of the expression")
	}
	return nil
}

// object takes an object and calls member for every key, which takes its value. Keys come once.
func (r *jsonReader) object(at *pointer, what string, member func(key string, at *pointer) *Error) *Error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return place{pointer: at}.fault("expected %s, an object, found %s", what, kindName(t))
	}
	seen := make(map[string]bool)
	for r.dec.More() {
		t, err := r.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		here := &pointer{at, clip(key)}
		if seen[key] {
			return place{pointer: here}.fault("the member comes twice")
		}
		seen[key] = true
		if err := member(key, here); err != nil {
			return err
		}
	}
	_, err = r.token()
	return err
}

// list takes an array of two or more.
func (r *jsonReader) list(at *pointer, element func(at *pointer) *Error) *Error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return place{pointer: at}.fault("expected an array, found %s", kindName(t))
	}
	n := 0
	for ; r.dec.More(); n++ {
		if err := element(&pointer{at, itoa(n)}); err != nil {
			return err
		}
	}
	if _, err := r.token(); err != nil {
		return err
	}
	if n < 2 {
		return place{pointer: at}.fault("expected two operands or more, found %d", n)
	}
	return nil
}

func (r *jsonReader) string(at *pointer) (string, *Error) {
	t, err := r.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", place{pointer: at}.fault("expected a string, found %s", kindName(t))
	}
	return s, nil
}

func kindName(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return "null"
}
