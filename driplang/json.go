package driplang

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MarshalJSON returns e in canonical JSON form, which parses to e. [Schema] describes the form.
func (e Expr) MarshalJSON() ([]byte, error) {
	if e.root == nil {
		return []byte("null"), nil
	}
	var b strings.Builder
	writeTerm(&b, e.root)
	return []byte(b.String()), nil
}

// UnmarshalJSON is [ParseJSON] for expressions in larger documents.
func (e *Expr) UnmarshalJSON(text []byte) error {
	parsed, err := ParseJSON(text)
	if err == nil {
		*e = parsed
	}
	return err
}

// ParseJSON parses an expression in JSON form: an object with one key per operator, see [Schema].
// An error is an [*Error] with a JSON Pointer, or with line and column if text is not valid JSON.
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

// jsonReader reads a JSON document token by token. It keeps only what it needs, and checks the
// depth while it descends.
type jsonReader struct {
	text []byte
	dec  *json.Decoder
}

func newReader(text []byte) (*jsonReader, *Error) {
	root := position{}
	if len(text) > MaxJSON {
		return nil, root.errorf("the expression has %d bytes, the limit is %d", len(text), MaxJSON)
	}
	if !utf8.Valid(text) {
		return nil, root.errorf("the text is not valid UTF-8")
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
	// advance to the invalid character
	for offset < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[offset]) >= 0 {
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
			err = position{}.errorf("unexpected text after the expression")
		}
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return position{}.errorf("unexpected text after the expression")
	}
	return nil
}

// object reads an object and calls member for every key to read its value. Duplicate keys are an
// error.
func (r *jsonReader) object(at *pointer, what string, member func(key string, at *pointer) *Error) *Error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return position{pointer: at}.errorf("expected %s, an object, found %s", what, kindName(t))
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
			return position{pointer: here}.errorf("duplicate member")
		}
		seen[key] = true
		if err := member(key, here); err != nil {
			return err
		}
	}
	_, err = r.token()
	return err
}

// list reads an array of two or more elements.
func (r *jsonReader) list(at *pointer, element func(at *pointer) *Error) *Error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return position{pointer: at}.errorf("expected an array, found %s", kindName(t))
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
		return position{pointer: at}.errorf("expected two operands or more, found %d", n)
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
		return "", position{pointer: at}.errorf("expected a string, found %s", kindName(t))
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

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of the JSON form. ParseJSON can refuse documents that it
// accepts, such as a WITHIN without a starting point. The caller owns the slice.
func Schema() []byte { return slices.Clone(schema) }
