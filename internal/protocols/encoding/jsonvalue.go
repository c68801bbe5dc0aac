package encoding

import (
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// value checks and skips any value. depth is the nesting of objects and arrays, including this
// value. The text is already known to be UTF-8. Escapes are checked for syntax only: readers of the
// text handle half a surrogate pair.
func (t *eventText) value(depth int) *api.Problem {
	if depth > EventDepthMax {
		return problem.BadField("body", "objects and arrays are nested more than %d deep", EventDepthMax)
	}
	var err error
	switch c := t.token(); {
	case c == '{' || c == '[':
		return t.nested(c, depth)
	case c == '"':
		err = t.checkString()
	case c == '-' || c >= '0' && c <= '9':
		err = t.number()
	default:
		err = t.literal()
	}
	if err != nil {
		return problem.BadField("body", "%v", err)
	}
	return nil
}

// token is like peek and records white space.
func (t *eventText) token() byte {
	at := t.i
	c := t.peek()
	t.spaced = t.spaced || t.i > at
	return c
}

// nested skips an object or an array.
func (t *eventText) nested(open byte, depth int) *api.Problem {
	shut := open + 2 // of { and [ in ASCII
	t.i++
	if t.token() == shut {
		t.i++
		return nil
	}
	for {
		if open == '{' {
			if p := t.checkName(); p != nil {
				return p
			}
		}
		if p := t.value(depth + 1); p != nil {
			return p
		}
		switch t.token() {
		case ',':
			t.i++
		case shut:
			t.i++
			return nil
		default:
			return problem.BadField("body", "%v", t.unexpected("',' or '"+string(shut)+"'"))
		}
	}
}

// checkName skips a member's name and the colon after it.
func (t *eventText) checkName() *api.Problem {
	if t.token() != '"' {
		return problem.BadField("body", "%v", t.unexpected("the name of a member"))
	}
	if err := t.checkString(); err != nil {
		return problem.BadField("body", "%v", err)
	}
	if t.token() != ':' {
		return problem.BadField("body", "%v", t.unexpected("':'"))
	}
	t.i++
	return nil
}

func (t *eventText) checkString() error {
	for t.i++; t.i < len(t.b); t.i++ {
		switch c := t.b[t.i]; {
		case c == '"':
			t.i++
			return nil
		case c < 0x20:
			return t.unexpected("no control character in a string")
		case c == '\\':
			if err := t.checkEscape(); err != nil {
				return err
			}
		}
	}
	return t.unexpected("the end of a string")
}

// checkEscape skips an escape except for its last byte.
func (t *eventText) checkEscape() error {
	if t.i++; t.i >= len(t.b) {
		return t.unexpected("an escape")
	}
	switch t.b[t.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		t.i++
		_, err := t.hex4()
		t.i--
		return err
	}
	return t.unexpected("an escape")
}

// number skips a number (RFC 8259, section 6).
func (t *eventText) number() error {
	t.take('-')
	switch {
	case t.i < len(t.b) && t.b[t.i] == '0':
		t.i++
	case t.digits() == 0:
		return t.unexpected("a digit")
	}
	if t.i < len(t.b) && t.b[t.i] == '.' {
		if t.i++; t.digits() == 0 {
			return t.unexpected("a digit")
		}
	}
	if t.i < len(t.b) && t.b[t.i]|0x20 == 'e' {
		if t.i++; t.i < len(t.b) && (t.b[t.i] == '+' || t.b[t.i] == '-') {
			t.i++
		}
		if t.digits() == 0 {
			return t.unexpected("a digit")
		}
	}
	return nil
}

func (t *eventText) digits() (n int) {
	for ; t.i < len(t.b) && t.b[t.i] >= '0' && t.b[t.i] <= '9'; t.i++ {
		n++
	}
	return n
}

// literal skips true, false or null.
func (t *eventText) literal() error {
	for _, word := range [...]string{"true", "false", "null"} {
		if t.i+len(word) <= len(t.b) && string(t.b[t.i:t.i+len(word)]) == word {
			t.i += len(word)
			return nil
		}
	}
	return t.unexpected("a value")
}
