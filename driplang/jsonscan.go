package driplang

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonValue is an undecoded value of a JSON document. Its zero value is null.
type jsonValue struct {
	kind literalKind
	raw  []byte // of a string with its quotes
}

func kindOf(raw []byte) literalKind {
	if len(raw) == 0 {
		return kindNull
	}
	switch raw[0] {
	case '"':
		return kindString
	case 't':
		return kindTrue
	case 'f':
		return kindFalse
	case 'n':
		return kindNull
	case '{', '[':
		return kindOther
	}
	return kindNumber
}

// order compares the text of a string with another one, by bytes. It stops at the first difference
// and does not allocate. ok is false if an escape before it is invalid.
func (v jsonValue) order(other string) (order int, ok bool) {
	text := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return compareText(text, other), true
	}
	var piece [utf8.UTFMax]byte
	for len(text) > 0 {
		r, size := unquoteRune(text)
		if size == 0 {
			return 0, false
		}
		text = text[size:]
		have := utf8.AppendRune(piece[:0], r)
		want := other[:min(len(have), len(other))]
		if order := compareText(have, want); order != 0 {
			return order, true
		}
		other = other[len(want):]
	}
	if other != "" {
		return -1, true
	}
	return 0, true
}

// compareText compares by bytes, like strings.Compare, but without a copy of a byte slice.
func compareText[T string | []byte](a T, b string) int {
	switch {
	case string(a) == b:
		return 0
	case string(a) < b:
		return -1
	}
	return 1
}

// escapes are the characters after a backslash that mean one other character.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unquoteRune returns the first character of the inside of a JSON string, and the length of its
// text; 0 if it is invalid. Like encoding/json, it returns utf8.RuneError for invalid UTF-8 and for
// half of a surrogate pair.
func unquoteRune(text []byte) (r rune, size int) {
	switch c := text[0]; {
	case c < ' ' || c == '"':
		return 0, 0
	case c != '\\':
		return utf8.DecodeRune(text)
	case len(text) < 2:
		return 0, 0
	case text[1] != 'u':
		if r = rune(escapes[text[1]]); r == 0 {
			return 0, 0
		}
		return r, 2
	}
	if r = escapedUnit(text); r < 0 {
		return 0, 0
	}
	if pair := utf16.DecodeRune(r, escapedUnit(text[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	if utf16.IsSurrogate(r) {
		r = utf8.RuneError
	}
	return r, 6
}

// escapedUnit returns the value of an escape such as \u00e9 at the start of text; -1 if there is none.
func escapedUnit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit := rune(0)
	for _, c := range text[2:6] {
		digit := strings.IndexByte("0123456789abcdef", c|' ')
		if digit < 0 || c < '0' {
			return -1
		}
		unit = unit<<4 | rune(digit)
	}
	return unit
}

// jsonScanner finds the ends of values in a JSON document.
type jsonScanner struct {
	data []byte
	pos  int
}

func (s *jsonScanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *jsonScanner) take(c byte) bool {
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// value reads the next value; empty if there is none.
func (s *jsonScanner) value() []byte {
	s.space()
	from, depth := s.pos, 0
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '"':
			if !s.skipString() {
				return nil
			}
		case '{', '[':
			depth++
			s.pos++
			continue
		case '}', ']':
			if depth == 0 {
				return nil
			}
			depth--
			s.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return nil
			}
			s.pos++
			continue
		default:
			s.skipWord()
		}
		if depth == 0 {
			return s.data[from:s.pos]
		}
	}
	return nil
}

// skipString skips a string; its opening quote is at pos.
func (s *jsonScanner) skipString() bool {
	for i := s.pos + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			s.pos = i + 1
			return true
		}
	}
	return false
}

func (s *jsonScanner) skipWord() {
	for s.pos < len(s.data) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), s.data[s.pos]) < 0 {
		s.pos++
	}
}

// quote returns s as a JSON string with the minimum of escapes.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // cannot fail: a string into a buffer
	return strings.TrimSuffix(b.String(), "\n")
}
