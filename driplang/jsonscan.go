package driplang

import (
	"bytes"
	"encoding/json"
	"strings"
)

// jsonValue is an undecoded value of a JSON document. Its zero value is null.
type jsonValue struct {
	kind literalKind
	raw  []byte // of a string with its quotes
}

// findValue returns the value at a path of members; null if there is none. The last of several
// members with the same name counts, as in most JSON parsers. findValue does not allocate, except
// for names with escapes, and does not recurse. For invalid JSON the result is arbitrary but
// deterministic.
func findValue(data []byte, path []string) jsonValue {
	s := jsonScanner{data: data}
	v := s.value()
	for _, member := range path {
		if len(v) == 0 || v[0] != '{' {
			return jsonValue{}
		}
		s := jsonScanner{data: v, pos: 1}
		v = nil
		for {
			key := s.value()
			if len(key) < 2 || key[0] != '"' || !s.take(':') {
				break
			}
			v2 := s.value()
			if len(v2) == 0 {
				break
			}
			if sameName(key, member) {
				v = v2
			}
			if !s.take(',') {
				break
			}
		}
	}
	return jsonValue{kind: kindOf(v), raw: v}
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

// sameName reports whether a quoted JSON string is name.
func sameName(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	var s string
	return json.Unmarshal(quoted, &s) == nil && s == name
}

// string returns the text of a value of kind String.
func (v jsonValue) string() (string, bool) {
	if bytes.IndexByte(v.raw, '\\') < 0 {
		return string(v.raw[1 : len(v.raw)-1]), true
	}
	var s string
	err := json.Unmarshal(v.raw, &s)
	return s, err == nil
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
