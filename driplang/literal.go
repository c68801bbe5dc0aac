package driplang

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

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

// literal is a constant in a filter. 64-bit integers are compared exactly, other numbers as IEEE
// doubles.
type literal struct {
	kind    literalKind
	text    string // of kindString
	integer bool
	i       int64
	f       float64
}

// boolLiteral returns true or false.
func boolLiteral(v bool) literal {
	if v {
		return literal{kind: kindTrue}
	}
	return literal{kind: kindFalse}
}

// parseNumber parses a JSON number. ok is false if it is invalid or exceeds a double.
func parseNumber(text string) (v literal, ok bool) {
	if !isNumber(text) {
		return literal{}, false
	}
	if !strings.ContainsAny(text, ".eE") { // avoid the allocation of an error
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return literal{kind: kindNumber, integer: true, i: i, f: float64(i)}, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return literal{}, false
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return literal{kind: kindNumber, integer: true, i: int64(f), f: f}, true
	}
	return literal{kind: kindNumber, f: f}, true
}

// order compares two numbers.
func (v literal) order(w literal) int {
	if v.integer && w.integer {
		return cmp.Compare(v.i, w.i)
	}
	return cmp.Compare(v.f, w.f)
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
		if v.integer {
			return strconv.FormatInt(v.i, 10)
		}
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	}
	return "null"
}

// isNumber reports whether a number that strconv accepts is valid JSON, whose grammar is narrower.
func isNumber(text string) bool {
	digit := func(i int) bool { return i < len(text) && text[i] >= '0' && text[i] <= '9' }
	text = strings.TrimPrefix(text, "-")
	point := strings.IndexByte(text, '.')
	return len(text) <= maxNumber && digit(0) && !(text[0] == '0' && digit(1)) && (point < 0 || digit(point+1)) &&
		!strings.ContainsAny(text, "xXpP_")
}

// maxNumber bounds the digits of numbers that are compared.
const maxNumber = 400
