package query

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokName
	tokText   // a string, unescaped
	tokNumber // value is set
	tokSign
)

// token is a lexical element. Of a string, text is its value; of other tokens, the source.
type token struct {
	kind  tokenKind
	text  string
	value Value
	at    int // first byte
}

func (t *token) is(text string) bool {
	return (t.kind == tokSign || t.kind == tokName) && t.text == text
}

func (t *token) String() string {
	const most = 40
	text := t.text
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "..."
	}
	switch t.kind {
	case tokEnd:
		return "the end"
	case tokText:
		return strconv.Quote(text)
	}
	return "'" + text + "'"
}

// Error is an error in the text of a query.
type Error struct {
	Character int // position from 1; 0: the whole query
	Message   string
}

func (e *Error) Error() string {
	if e.Character == 0 {
		return e.Message
	}
	return fmt.Sprintf("character %d: %s", e.Character, e.Message)
}

// lexer splits a text into tokens.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) errorf(at int, format string, args ...any) *Error {
	return &Error{Character: utf8.RuneCountInString(l.text[:at]) + 1, Message: fmt.Sprintf(format, args...)}
}

// signs are the operators and parentheses, longer ones first.
var signs = []string{"!=", "<=", ">=", "=~", "~=", "=", "<", ">", "(", ")"}

const (
	spaces = " \t\r\n,"
	// outside are the ASCII characters that no name contains.
	outside = spaces + "^`'\"#~@/%()[]{}=<>!"
)

func inName(r rune) bool {
	return r > ' ' && r != 0x7f && r != utf8.RuneError && !strings.ContainsRune(outside, r)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// next returns the next token.
func (l *lexer) next() (token, *Error) {
	for l.pos < len(l.text) && strings.IndexByte(spaces, l.text[l.pos]) >= 0 {
		l.pos++
	}
	t := token{at: l.pos}
	rest := l.text[l.pos:]
	if rest == "" {
		return t, nil
	}
	for _, sign := range signs {
		if strings.HasPrefix(rest, sign) {
			t.kind, t.text = tokSign, sign
			l.pos += len(sign)
			return t, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == '"':
		t.kind = tokText
		var err *Error
		t.text, err = l.quoted()
		return t, err
	case !isDigit(r) && (r == ':' || !inName(r)):
		if r == utf8.RuneError {
			return t, l.errorf(t.at, "the text is not valid UTF-8")
		}
		if !strconv.IsPrint(r) {
			return t, l.errorf(t.at, "unexpected character %U", r)
		}
		return t, l.errorf(t.at, "unexpected character '%c'", r)
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !inName(r) })
	if end < 0 {
		end = len(rest)
	}
	t.kind, t.text = tokName, rest[:end]
	l.pos += end
	digits := strings.TrimPrefix(t.text, "-")
	if digits != "" && isDigit(rune(digits[0])) || digits == "Infinity" || digits == "NaN" {
		var ok bool
		if t.value, ok = number(t.text); !ok {
			return t, l.errorf(t.at, "invalid number %v", &t)
		}
		t.kind = tokNumber
	}
	return t, nil
}

// numbers is the syntax of a number, without leading zeros in its last two groups. Integers may have
// a suffix of Clojure.
var numbers = regexp.MustCompile(`^(-?)0*(?:([0-9]+)[lLnN]|([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))$`)

// number parses a number of a query.
func number(text string) (v Value, ok bool) {
	switch text {
	case "Infinity":
		return Value{Kind: Float, Float: math.Inf(1)}, true
	case "-Infinity":
		return Value{Kind: Float, Float: math.Inf(-1)}, true
	case "NaN", "-NaN":
		return Value{Kind: Float, Float: math.NaN()}, true
	}
	m := numbers.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	return Number([]byte(m[1] + m[2] + m[3]))
}

// escapes are the characters after a backslash that stand for one other character.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// quoted reads a string.
func (l *lexer) quoted() (string, *Error) {
	from := l.pos
	l.pos++
	var b strings.Builder
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		switch {
		case c == '"':
			l.pos++
			if !utf8.ValidString(b.String()) {
				return "", l.errorf(from, "the string is not valid UTF-8")
			}
			return b.String(), nil
		case c != '\\':
			b.WriteByte(c)
			l.pos++
			continue
		case l.pos+1 < len(l.text) && l.text[l.pos+1] == 'u':
			r, size := unicode(l.text[l.pos:])
			if size == 0 {
				return "", l.errorf(l.pos, `invalid escape: \u needs four hexadecimal digits, and a surrogate its pair`)
			}
			b.WriteRune(r)
			l.pos += size
			continue
		case l.pos+1 == len(l.text):
			return "", l.errorf(from, "the string has no closing quote")
		}
		escaped, ok := escapes[l.text[l.pos+1]]
		if !ok {
			r, _ := utf8.DecodeRuneInString(l.text[l.pos+1:])
			return "", l.errorf(l.pos, `unknown escape \%c in a string; write a backslash as \\`, r)
		}
		b.WriteByte(escaped)
		l.pos += 2
	}
	return "", l.errorf(from, "the string has no closing quote")
}

// unicode decodes an escape such as \u00e9, or two that are a surrogate pair; size 0 if invalid.
func unicode(text string) (r rune, size int) {
	const length = len(`\u00e9`)
	unit := func(text string) rune {
		if len(text) < length || text[:2] != `\u` {
			return -1
		}
		n, err := strconv.ParseUint(text[2:length], 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	r = unit(text)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, length
	}
	if pair := utf16.DecodeRune(r, unit(text[length:])); pair != utf8.RuneError {
		return pair, 2 * length
	}
	return 0, 0
}
