package encoding

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// jsonText scans JSON (RFC 8259) in a buffer that it may modify. It unescapes strings in place, so
// they need no allocation. It is stricter than encoding/json: invalid UTF-8 and half a surrogate
// pair are errors, because replacing them would silently change data.
type jsonText struct {
	b []byte
	i int
}

// jsonError describes what is wrong with a text. The caller that knows the field turns it into a
// problem.
type jsonError string

func (e jsonError) Error() string { return string(e) }

func (j *jsonText) skip() {
	for j.i < len(j.b) {
		switch j.b[j.i] {
		case ' ', '\t', '\r', '\n':
			j.i++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (j *jsonText) peek() byte {
	j.skip()
	if j.i < len(j.b) {
		return j.b[j.i]
	}
	return 0
}

// take consumes c if it is the next token.
func (j *jsonText) take(c byte) bool {
	if j.peek() != c {
		return false
	}
	j.i++
	return true
}

func (j *jsonText) expect(c byte) error {
	if !j.take(c) {
		return j.unexpected(fmt.Sprintf("%q", c))
	}
	return nil
}

func (j *jsonText) unexpected(want string) error {
	if j.i >= len(j.b) {
		return jsonError("JSON ends where " + want + " must follow")
	}
	return jsonError(fmt.Sprintf("JSON: want %s at byte %d, found %q", want, j.i, j.b[j.i]))
}

// null consumes the literal null if it is next.
func (j *jsonText) null() bool {
	if j.skip(); j.i+4 <= len(j.b) && string(j.b[j.i:j.i+4]) == "null" {
		j.i += 4
		return true
	}
	return false
}

// integer reads a number without fraction and exponent.
func (j *jsonText) integer() (int64, error) {
	negative := j.take('-')
	start, n := j.i, int64(0)
	for ; j.i < len(j.b) && j.b[j.i] >= '0' && j.b[j.i] <= '9'; j.i++ {
		if n > (1<<63-1-9)/10 {
			return 0, jsonError("number is out of range")
		}
		n = n*10 + int64(j.b[j.i]-'0')
	}
	if j.i == start || j.b[start] == '0' && j.i > start+1 {
		return 0, j.unexpected("a whole number")
	}
	if j.i < len(j.b) && (j.b[j.i] == '.' || j.b[j.i]|0x20 == 'e') {
		return 0, jsonError("want a whole number")
	}
	if negative {
		n = -n
	}
	return n, nil
}

// text reads a string. The result aliases the buffer and is never nil.
func (j *jsonText) text() ([]byte, error) {
	if err := j.expect('"'); err != nil {
		return nil, err
	}
	start := j.i
	ascii := true
	for j.i < len(j.b) {
		switch c := j.b[j.i]; {
		case c == '"':
			s := j.b[start:j.i:j.i]
			j.i++
			return s, validUTF8(s, ascii)
		case c == '\\':
			return j.unescape(start)
		case c < 0x20:
			return nil, j.unexpected("no control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		j.i++
	}
	return nil, j.unexpected("the end of a string")
}

func validUTF8(s []byte, ascii bool) error {
	if !ascii && !utf8.Valid(s) {
		return jsonError("not valid UTF-8; give bytes in base64")
	}
	return nil
}

// unescape continues a string from its first backslash and moves the rest to the left: an escape is
// never shorter than its value.
func (j *jsonText) unescape(start int) ([]byte, error) {
	to := j.i
	for j.i < len(j.b) {
		c := j.b[j.i]
		j.i++
		switch {
		case c == '"':
			s := j.b[start:to:to]
			return s, validUTF8(s, false)
		case c < 0x20:
			j.i--
			return nil, j.unexpected("no control character in a string")
		case c != '\\':
			j.b[to] = c
			to++
		default:
			r, err := j.escape()
			if err != nil {
				return nil, err
			}
			to += utf8.EncodeRune(j.b[to:j.i], r)
		}
	}
	return nil, j.unexpected("the end of a string")
}

// escape reads an escape after its backslash.
func (j *jsonText) escape() (rune, error) {
	if j.i >= len(j.b) {
		return 0, j.unexpected("an escape")
	}
	c := j.b[j.i]
	j.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return j.unicode()
	}
	j.i--
	return 0, j.unexpected("an escape")
}

func (j *jsonText) unicode() (rune, error) {
	r, err := j.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if j.i+2 <= len(j.b) && j.b[j.i] == '\\' && j.b[j.i+1] == 'u' {
		j.i += 2
		low, err := j.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, jsonError("half of a surrogate pair in a string")
}

func (j *jsonText) hex4() (rune, error) {
	if j.i+4 > len(j.b) {
		j.i = len(j.b)
		return 0, j.unexpected("four hex digits")
	}
	var r rune
	for range 4 {
		c := j.b[j.i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, j.unexpected("four hex digits")
		}
		r = r<<4 | rune(c)
		j.i++
	}
	return r, nil
}

// members reads an object and calls each for every member, positioned before its value.
func (j *jsonText) members(each func(name []byte) *api.Problem) *api.Problem {
	if err := j.expect('{'); err != nil {
		return problem.BadField("body", "%v", err)
	}
	if j.take('}') {
		return nil
	}
	for {
		name, err := j.text()
		if err == nil {
			err = j.expect(':')
		}
		if err != nil {
			return problem.BadField("body", "%v", err)
		}
		if p := each(name); p != nil {
			return p
		}
		if j.take('}') {
			return nil
		}
		if err := j.expect(','); err != nil {
			return problem.BadField("body", "%v", err)
		}
	}
}
