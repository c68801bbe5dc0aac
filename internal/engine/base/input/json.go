package input

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
)

// DepthMax bounds the nesting of objects and arrays in JSON. The deepest expression needs about 170.
const DepthMax = 256

// Fault is an invalid text in JSON.
type Fault struct {
	// Path is the invalid member, such as rules[0].operation; "" is the whole text.
	Path string
	// Name is the name of the last member of Path.
	Name   string
	Reason string
	Err    error // of the type that decodes the member; nil: none
}

// Error is "path: reason".
func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Reason
	}
	return f.Path + ": " + f.Reason
}

// Unwrap returns the error of the type that decodes the member.
func (f *Fault) Unwrap() error { return f.Err }

// Nulls is how JSON reads null for a value that is neither a pointer nor raw.
type Nulls uint8

const (
	// NullIsAbsent reads null as if the member were absent.
	NullIsAbsent Nulls = iota
	// NoNull refuses null.
	NoNull
)

// JSON decodes a text into what v points to. The text is one value in UTF-8; a byte order mark before
// it is ignored. JSON refuses what encoding/json decides silently:
//
//   - a member that is given twice, at any depth: the last one would win;
//   - a member that the type does not have, also if only the case of letters differs;
//   - half of a surrogate pair, which would become another character;
//   - more than DepthMax levels.
//
// Times are those of [Time].
//
// A field with the tag `input:"data"` is a client's data: it may have repeated members and halves of
// surrogate pairs, because data is stored as it is. Errors: *Fault.
func JSON(text []byte, v any, nulls Nulls) error {
	text, err := Text(text)
	if err != nil {
		return &Fault{Reason: err.Error()}
	}
	if err := grammar(text); err != nil {
		return err
	}
	w := walk{text: text, nulls: nulls}
	if err := w.value(reflect.TypeOf(v).Elem(), place{}, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(w.canonical(), v); err != nil {
		return &Fault{Reason: strings.TrimPrefix(err.Error(), "json: "), Err: err}
	}
	return nil
}

// grammar checks that a text is one JSON value.
func grammar(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &Fault{Reason: "empty"}
	}
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	reason := err.Error()
	if strings.HasSuffix(reason, "after top-level value") {
		return &Fault{Reason: "more than one JSON value"}
	}
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:max(min(at.Offset, int64(len(text)))-1, 0)]
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		reason = fmt.Sprintf("line %d, column %d: %s", line, column, reason)
	}
	return &Fault{Reason: reason}
}

// walk checks the members of a valid text against a type.
type walk struct {
	text  []byte
	done  int // bytes of the tokens that next has returned, with what is between them
	nulls Nulls
	times []timeText
}

// timeText is a time in the text, and its form that package time reads.
type timeText struct {
	from, to int
	text     []byte
}

// canonical returns the text with its times in the form that package time reads.
func (w *walk) canonical() []byte {
	if len(w.times) == 0 {
		return w.text
	}
	var out []byte
	done := 0
	for _, t := range w.times {
		out = append(append(out, w.text[done:t.from]...), t.text...)
		done = t.to
	}
	return append(out, w.text[done:]...)
}

// place is a member in the text.
type place struct{ path, name string }

func (p place) fault(format string, args ...any) error {
	return &Fault{Path: p.path, Name: p.name, Reason: fmt.Sprintf(format, args...)}
}

// Bounds of the bytes of a path, and of a name in it, so that an error stays short.
const (
	pathShown = 256
	nameShown = 64
)

func (p place) member(name string) place {
	shown := name
	if len(name) > nameShown {
		shown = name[:nameShown] + "..."
	}
	if !plainName(shown) {
		if quoted := strconv.Quote(shown); len(quoted) != len(shown)+2 || shown == "" || strings.ContainsAny(name, ".[] ") {
			shown = quoted
		}
	}
	switch {
	case p.path == "":
		return place{shown, shown}
	case len(p.path) > pathShown:
		return p
	}
	return place{p.path + "." + shown, shown}
}

// plainName reports whether a name is one of the API: letters, digits and underscores.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != ""
}

func (p place) element(i int) place {
	if len(p.path) > pathShown {
		return p
	}
	return place{p.path + "[" + strconv.Itoa(i) + "]", p.name}
}

// more skips what is between tokens, and reports whether a token follows that does not end an object or an array.
func (w *walk) more() bool {
	for strings.IndexByte(" \t\r\n,:", w.text[w.done]) >= 0 {
		w.done++
	}
	return w.text[w.done] != '}' && w.text[w.done] != ']'
}

// next returns the next token. The text is valid, so its first byte is its kind.
func (w *walk) next() []byte {
	w.more()
	from := w.done
	w.done++
	switch w.text[from] {
	case '{', '}', '[', ']':
	case '"':
		for w.text[w.done] != '"' {
			if w.text[w.done] == '\\' {
				w.done++
			}
			w.done++
		}
		w.done++
	default:
		for w.done < len(w.text) && strings.IndexByte(" \t\r\n,]}", w.text[w.done]) < 0 {
			w.done++
		}
	}
	return w.text[from:w.done]
}

// unquote returns the string of a token.
func unquote(token []byte) (text string) {
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1])
	}
	_ = json.Unmarshal(token, &text) // it is a valid string
	return text
}

var (
	timeType        = reflect.TypeFor[time.Time]()
	rawMessage      = reflect.TypeFor[json.RawMessage]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	numberType      = reflect.TypeFor[json.Number]()
)

// value checks the next value, which is decoded into a value of type t; nil is any type.
func (w *walk) value(t reflect.Type, at place, depth int) (err error) {
	token := w.next()
	null := token[0] == 'n'
	for t != nil && t.Kind() == reflect.Pointer && !null {
		t = t.Elem()
	}
	switch {
	case t != nil && (t == rawMessage || t.Kind() == reflect.Interface):
		t = nil
	case null && w.nulls == NoNull && t != nil && t.Kind() != reflect.Pointer:
		return at.fault("must not be null; leave it out")
	}
	if t == timeType && !null {
		return w.time(token, at)
	}
	var own reflect.Type // decodes its text itself
	if t != nil && t.Name() != t.Kind().String() && (reflect.PointerTo(t).Implements(unmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler)) {
		own, t = t, nil
	}
	begin := w.done - len(token)
	switch token[0] {
	case '{':
		err = w.object(t, at, depth+1)
	case '[':
		err = w.array(t, at, depth+1)
	default:
		err = scalar(t, token, at)
	}
	if err == nil && own != nil {
		if err = json.Unmarshal(w.text[begin:w.done], reflect.New(own).Interface()); err != nil {
			err = &Fault{Path: at.path, Name: at.name, Reason: wrongKind(own, token, err), Err: err}
		}
	}
	return err
}

// time reads a time, which was the last token.
func (w *walk) time(token []byte, at place) error {
	if token[0] != '"' {
		return at.fault("%s", wrongKind(reflect.TypeFor[string](), token, nil))
	}
	moment, err := Time(unquote(token))
	if err != nil {
		return at.fault("%v", err)
	}
	w.times = append(w.times, timeText{w.done - len(token), w.done, moment.AppendFormat(nil, `"`+time.RFC3339Nano+`"`)})
	return nil
}

func scalar(t reflect.Type, token []byte, at place) error {
	text := token[0] == '"'
	switch {
	case text && HalfSurrogate(token):
		return at.fault("half of a surrogate pair in a string")
	case t == nil || text && t.Kind() == reflect.String && t != numberType:
		return nil
	}
	if err := json.Unmarshal(token, reflect.New(t).Interface()); err != nil {
		return at.fault("%s", wrongKind(t, token, err))
	}
	return nil
}

func (w *walk) object(t reflect.Type, at place, depth int) (err error) {
	var members map[string]reflect.StructField
	var element reflect.Type
	switch {
	case depth > DepthMax:
		return at.fault("objects and arrays are nested more than %d deep", DepthMax)
	case t == nil:
	case t.Kind() == reflect.Map:
		element = t.Elem()
	case t.Kind() == reflect.Struct:
		members = membersOf(t)
	default:
		return at.fault("%s", wrongKind(t, []byte("{"), nil))
	}
	seen := map[string]bool{}
	for w.more() {
		token := w.next()
		name := unquote(token)
		here := at.member(name)
		switch {
		case HalfSurrogate(token):
			return here.fault("half of a surrogate pair in a name")
		case seen[name]:
			return here.fault("given twice")
		}
		seen[name] = true
		of, data := element, false
		if members != nil {
			f, known := members[name]
			if !known {
				return here.fault("%s", unknown(members, name))
			}
			of, data = f.Type, f.Tag.Get("input") == "data"
		}
		if data {
			err = w.skip(here, depth)
		} else {
			err = w.value(of, here, depth)
		}
		if err != nil {
			return err
		}
	}
	w.next()
	return nil
}

func (w *walk) array(t reflect.Type, at place, depth int) error {
	var element reflect.Type
	switch {
	case depth > DepthMax:
		return at.fault("objects and arrays are nested more than %d deep", DepthMax)
	case t == nil:
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		element = t.Elem()
	default:
		return at.fault("%s", wrongKind(t, []byte("["), nil))
	}
	for i := 0; w.more(); i++ {
		if err := w.value(element, at.element(i), depth); err != nil {
			return err
		}
	}
	w.next()
	return nil
}

// skip passes a value that is data.
func (w *walk) skip(at place, depth int) error {
	for open := 0; ; {
		switch w.next()[0] {
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		if open == 0 {
			return nil
		}
		if depth+open > DepthMax {
			return at.fault("objects and arrays are nested more than %d deep", DepthMax)
		}
	}
}

// members has the results of membersOf by type.
var members sync.Map

// membersOf returns the members of a struct by their names in JSON.
func membersOf(t reflect.Type) map[string]reflect.StructField {
	if known, ok := members.Load(t); ok {
		return known.(map[string]reflect.StructField)
	}
	all := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && (name != "" || !f.Anonymous) {
			if name == "" {
				name = f.Name
			}
			if had, twice := all[name]; !twice || len(f.Index) < len(had.Index) {
				all[name] = f
			}
		}
	}
	members.Store(t, all)
	return all
}

// unknown describes a member that the type does not have.
func unknown(members map[string]reflect.StructField, name string) string {
	for known := range members {
		if strings.EqualFold(known, name) {
			return "unknown member; want " + known
		}
	}
	return "unknown member"
}

// HalfSurrogate reports whether a string in JSON has an escape that is half of a surrogate pair.
// Decoders replace it by U+FFFD.
func HalfSurrogate(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 == len(text) {
			return false
		}
		if text[at+1] != 'u' {
			text = text[at+2:]
			continue
		}
		r := unit(text[at:])
		text = text[min(at+6, len(text)):]
		if !utf16.IsSurrogate(r) {
			continue
		}
		if utf16.DecodeRune(r, unit(text)) == '\ufffd' {
			return true
		}
		text = text[6:]
	}
}

// unit returns the UTF-16 unit of an escape at the start of a text, or 0.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	if err != nil {
		return 0
	}
	return rune(r)
}

// kinds are the names of kinds of values.
var kinds = map[reflect.Kind]string{
	reflect.Struct: "an object", reflect.Map: "an object", reflect.Slice: "an array", reflect.String: "a string", reflect.Bool: "true or false",
	reflect.Int: "a whole number", reflect.Int32: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
}

// wrongKind describes a value that t cannot hold. A value that is no number is not shown, because it
// may be secret.
func wrongKind(t reflect.Type, token []byte, err error) string {
	given := "a JSON null"
	switch token[0] {
	case '{':
		given = "a JSON object"
	case '[':
		given = "a JSON array"
	case '"':
		given = "a JSON string"
	case 't', 'f':
		given = "a JSON boolean"
	case 'n':
	default:
		given = "a JSON number"
		if kinds[t.Kind()] == "a whole number" && len(token) <= nameShown {
			given = string(token)
		}
	}
	if _, mismatch := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !mismatch {
		return strings.TrimPrefix(err.Error(), "json: ") // of a type that decodes its text
	}
	want := kinds[t.Kind()]
	if want == "" {
		want = "another type"
	}
	return fmt.Sprintf("want %s, given %s", want, given)
}

// ReadJSON is JSON for a text that is read, of at most limit bytes.
func ReadJSON(r io.Reader, limit int, v any, nulls Nulls) error {
	text, err := ReadText(r, limit)
	if err != nil {
		return err
	}
	return JSON(text, v, nulls)
}
