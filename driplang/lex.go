package driplang

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokWord
	tokString
	tokNumber
	tokSign // parenthesis, bracket, dot or comparison, as in the text
)

// token is a lexical element of an expression. Of a word, text is the source; of a string, its
// value.
type token struct {
	kind tokenKind
	text string
	at   position
	from int // first byte
}

// is reports whether t is a keyword (any case) or a sign.
func (t token) is(word string) bool {
	switch t.kind {
	case tokWord:
		return strings.EqualFold(t.text, word)
	case tokSign:
		return t.text == word
	}
	return false
}

func (t token) String() string {
	const most = 40
	text := t.text
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "..."
	}
	switch t.kind {
	case tokEnd:
		return "end of expression"
	case tokString:
		return fmt.Sprintf("%q", text)
	}
	return "'" + text + "'"
}

var keywords = map[string]bool{"AND": true, "OR": true, "NOT": true, "THEN": true, "WITHIN": true, "AFTER": true}

func isKeyword(word string) bool {
	return len(word) <= len("WITHIN") && keywords[strings.ToUpper(word)]
}

func startsWord(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func inWord(r rune) bool {
	return startsWord(r) || unicode.IsDigit(r) || strings.ContainsRune(".:/-", r)
}

func printable(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }

// lexer splits a text into tokens, one ahead of the parser.
type lexer struct {
	text      string
	pos       int
	line, col int
}

// peek returns the next character; 0 at the end, utf8.RuneError for invalid UTF-8.
func (l *lexer) peek() rune {
	if l.pos >= len(l.text) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.pos:])
	return r
}

func (l *lexer) advance() {
	r, n := utf8.DecodeRuneInString(l.text[l.pos:])
	l.pos += n
	l.col++
	if r == '\n' {
		l.line, l.col = l.line+1, 1
	}
}

func (l *lexer) here() position { return position{line: l.line, col: l.col} }

// spaces are the characters between tokens.
const spaces = " \t\r\n"

func (l *lexer) skipSpace() {
	for l.pos < len(l.text) && strings.IndexByte(spaces, l.text[l.pos]) >= 0 {
		l.advance()
	}
}

func (l *lexer) takeWhile(ok func(rune) bool) string {
	from := l.pos
	for l.pos < len(l.text) && ok(l.peek()) {
		l.advance()
	}
	return l.text[from:l.pos]
}

func (l *lexer) next() (token, *Error) {
	l.skipSpace()
	t := token{at: l.here(), from: l.pos}
	if l.pos >= len(l.text) {
		return t, nil
	}
	r := l.peek()
	switch {
	case startsWord(r):
		t.kind, t.text = tokWord, l.takeWhile(inWord)
		return t, nil
	case r == '"':
		t.kind = tokString
		var err *Error
		t.text, err = l.quoted()
		return t, err
	case isDigit(r) || r == '-':
		t.kind, t.text = tokNumber, l.number()
		return t, nil
	case strings.ContainsRune("()[].=<>!", r):
		t.kind, t.text = tokSign, l.sign()
		return t, nil
	case r == utf8.RuneError && !strings.HasPrefix(l.text[l.pos:], string(utf8.RuneError)):
		return t, t.at.errorf("the text is not valid UTF-8")
	case !printable(r):
		return t, t.at.errorf("unexpected character %U", r)
	}
	return t, t.at.errorf("unexpected character '%c'", r)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func (l *lexer) sign() string {
	if len(l.text)-l.pos >= 2 {
		switch two := l.text[l.pos : l.pos+2]; two {
		case "<=", ">=", "!=", "==", "<>":
			l.advance()
			l.advance()
			return two
		}
	}
	one := l.text[l.pos : l.pos+1]
	l.advance()
	return one
}

// number reads the characters of a number. The caller parses it.
func (l *lexer) number() string {
	from := l.pos
	if l.peek() == '-' {
		l.advance()
	}
	l.takeWhile(isDigit)
	if l.peek() == '.' {
		l.advance()
		l.takeWhile(isDigit)
	}
	if r := l.peek(); r == 'e' || r == 'E' {
		rest := strings.TrimLeft(l.text[l.pos+1:], "+-")
		if rest != "" && isDigit(rune(rest[0])) {
			l.advance()
			l.takeWhile(func(r rune) bool { return r == '+' || r == '-' || isDigit(r) })
		}
	}
	return l.text[from:l.pos]
}

// quoted reads a JSON string.
func (l *lexer) quoted() (string, *Error) {
	at, from := l.here(), l.pos
	l.advance()
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case '\n':
			return "", at.errorf("the string is not closed on its line")
		case '\\':
			l.advance()
			if l.pos < len(l.text) {
				l.advance()
			}
		case '"':
			l.advance()
			var s string
			raw := l.text[from:l.pos]
			if !utf8.ValidString(raw) {
				return "", at.errorf("the text is not valid UTF-8")
			}
			if err := json.Unmarshal([]byte(raw), &s); err != nil {
				return "", at.errorf("the string has an escape or character that JSON does not allow")
			}
			return s, nil
		default:
			l.advance()
		}
	}
	return "", at.errorf("the string is not closed")
}

// literalKind is a type of JSON value.
type literalKind uint8

// kindNull is also used for missing and malformed values.
const (
	kindNull literalKind = iota
	kindTrue
	kindFalse
	kindNumber
	kindString
	kindOther // objects and arrays: equal to nothing
)

// literal is a constant in a filter.
type literal struct {
	kind   literalKind
	text   string         // of kindString; of kindNumber its canonical form, which is JSON
	number decimal.Number // of kindNumber
}

// boolLiteral returns true or false.
func boolLiteral(v bool) literal {
	if v {
		return literal{kind: kindTrue}
	}
	return literal{kind: kindFalse}
}

// parseNumber parses a JSON number. ok is false if it is none, or if its exponent is out of range.
func parseNumber(text string) (v literal, ok bool) {
	n, ok := decimal.Parse([]byte(text))
	return literal{kind: kindNumber, text: canonicalNumber(text, n), number: n}, ok
}

// canonicalNumber returns the canonical form of a number. An integer of 64 bits keeps its digits. The
// form of a value that a double holds is its shortest one, which stored expressions have.
func canonicalNumber(text string, n decimal.Number) string {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.FormatInt(i, 10)
		}
	}
	f, _ := strconv.ParseFloat(text, 64)
	short := strconv.FormatFloat(f, 'g', -1, 64)
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		short = strconv.FormatInt(int64(f), 10)
	}
	if same, ok := decimal.Parse([]byte(short)); ok && same.Compare(n) == 0 {
		return short
	}
	return string(n.Append(nil))
}

// String returns v as JSON.
func (v literal) String() string {
	switch v.kind {
	case kindString:
		return quote(v.text)
	case kindTrue:
		return "true"
	case kindFalse:
		return "false"
	case kindNumber:
		return v.text
	}
	return "null"
}
