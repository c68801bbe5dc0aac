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

	"github.com/sebbroker/seb/internal/engine/base/input"
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
	if input.HalfSurrogate(text) {
		return nil, root.errorf("half of a surrogate pair in a string")
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

var jsonFilters = map[string]filterOp{"property": filterIs, "and": filterAnd, "or": filterOr, "not": filterNot}

// filter reads the filter of an event: {"property":"amount","is":">","value":100}, or and, or, not
// of filters.
func (r *jsonReader) filter(at *pointer, depth int) (*filter, *Error) {
	if depth > maxFilterDepth {
		return nil, position{pointer: at}.errorf("the filter is nested more than %d deep", maxFilterDepth)
	}
	f, operator := &filter{}, ""
	beside := map[string]bool{}
	err := r.object(at, "a filter", func(key string, at *pointer) *Error {
		op, ok := jsonFilters[key]
		if !ok {
			beside[key] = true
			return r.filterBeside(f, key, at)
		}
		if operator != "" {
			return position{pointer: at}.errorf("a filter has one operator, found %q and %q", operator, key)
		}
		f.op, operator = op, key
		return r.filterOperand(f, at, depth)
	})
	here := position{pointer: at}
	switch {
	case err != nil:
		return nil, err
	case operator == "":
		return nil, here.errorf("expected one of property, and, or or not")
	case f.op != filterIs && len(beside) > 0:
		return nil, here.errorf("%q allows no other member", operator)
	case f.op == filterIs && !beside["is"]:
		return nil, here.errorf(`"property" needs "is"`)
	case f.op == filterIs && !beside["value"]:
		return nil, here.errorf(`"property" needs "value"`)
	case f.op == filterIs:
		return f, here.checkOrder(f.cmp, f.want)
	}
	return f, nil
}

func (r *jsonReader) filterOperand(f *filter, at *pointer, depth int) *Error {
	kid := func(at *pointer) *Error {
		k, err := r.filter(at, depth+1)
		f.kids = append(f.kids, k)
		return err
	}
	switch f.op {
	case filterAnd, filterOr:
		return r.list(at, kid)
	case filterNot:
		return kid(at)
	}
	text, err := r.string(at)
	if err == nil {
		f.path, err = parsePath(text, position{pointer: at})
	}
	return err
}

// parsePath parses a text that is only a path.
func parsePath(text string, at position) ([]string, *Error) {
	p := parser{lexer: lexer{text: text, line: 1, col: 1}}
	err := p.take()
	var path []string
	if err == nil {
		path, err = p.path()
	}
	if err == nil && p.cur.kind != tokEnd {
		err = p.cur.at.errorf("expected the end of the path, found %v", p.cur)
	}
	if err != nil {
		err = at.errorf("%s", err.Message)
	}
	return path, err
}

func (r *jsonReader) filterBeside(f *filter, key string, at *pointer) *Error {
	here := position{pointer: at}
	switch key {
	case "is":
		word, err := r.string(at)
		return orElse(err, func() (err *Error) { f.cmp, err = here.compare(word); return err })
	case "value":
		v, err := r.token()
		if err != nil {
			return err
		}
		f.want, err = here.literalOf(v)
		return err
	}
	return here.errorf("unknown member, expected one of property, is, value, and, or or not")
}

func (p position) literalOf(v json.Token) (literal, *Error) {
	switch v := v.(type) {
	case string:
		return literal{kind: kindString, text: v}, nil
	case json.Number:
		n, ok := parseNumber(string(v))
		if !ok {
			return n, p.errorf("the exponent of %s has more than 18 digits", clip(string(v)))
		}
		return n, nil
	case bool:
		return boolLiteral(v), nil
	case nil:
		return literal{kind: kindNull}, nil
	}
	return literal{}, p.errorf("expected a number, string, true, false or null, found %s", kindName(v))
}

func writeFilter(b *strings.Builder, f *filter) {
	switch f.op {
	case filterIs:
		b.WriteString(`{"property":` + quote(FormatPath(f.path)))
		b.WriteString(`,"is":` + quote(f.cmp.String()) + `,"value":` + f.want.String() + `}`)
	case filterNot:
		b.WriteString(`{"not":`)
		writeFilter(b, f.kids[0])
		b.WriteByte('}')
	default:
		word := strings.ToLower(strings.TrimSpace(filterWords[f.op]))
		b.WriteString(`{"` + word + `":[`)
		for i, k := range f.kids {
			if i > 0 {
				b.WriteByte(',')
			}
			writeFilter(b, k)
		}
		b.WriteString("]}")
	}
}
