package filter

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// Kind is a type of JSON value.
type Kind uint8

// Null is also used for missing and malformed values.
const (
	Null Kind = iota
	True
	False
	Number
	String
	other // objects and arrays: equal to nothing
)

// Literal is a constant in a filter. 64-bit integers are compared exactly, other numbers as IEEE
// doubles.
type Literal struct {
	Kind    Kind
	Text    string // String
	integer bool
	i       int64
	f       float64
}

// Bool returns true or false.
func Bool(v bool) Literal {
	if v {
		return Literal{Kind: True}
	}
	return Literal{Kind: False}
}

// ParseNumber parses a JSON number. ok is false if it is invalid or exceeds a double.
func ParseNumber(text string) (v Literal, ok bool) {
	if !isNumber(text) {
		return Literal{}, false
	}
	if !strings.ContainsAny(text, ".eE") { // avoid the allocation of an error
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Literal{Kind: Number, integer: true, i: i, f: float64(i)}, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Literal{}, false
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return Literal{Kind: Number, integer: true, i: int64(f), f: f}, true
	}
	return Literal{Kind: Number, f: f}, true
}

// Order compares two numbers.
func (v Literal) Order(w Literal) int {
	if v.integer && w.integer {
		return cmp.Compare(v.i, w.i)
	}
	return cmp.Compare(v.f, w.f)
}

// String returns v as JSON.
func (v Literal) String() string {
	switch v.Kind {
	case String:
		return Quote(v.Text)
	case True:
		return "true"
	case False:
		return "false"
	case Number:
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
