// Package decimal compares JSON numbers by their exact values, without a conversion to a double.
package decimal

import (
	"bytes"
	"cmp"
	"fmt"
)

// Number is the value of a JSON number of any length. The zero value is 0. It refers to the text
// that it was parsed from.
type Number struct {
	negative bool
	digits   []byte // from the first to the last one that is not 0, with a point if it is between them; empty: 0
	exponent int64  // of the first digit
}

// maxExponent is the number of digits of an exponent, and limit the first one with more of them.
const (
	maxExponent = 18
	limit       = 1_000_000_000_000_000_000
)

// Parse returns the value of a JSON number. ok is false if text is not a JSON number, or if the
// value is not 0 and an exponent has more than 18 digits: the exponent in the text, or that of the
// first digit. It does not allocate, and its time is linear in the length of the text.
func Parse(text []byte) (n Number, ok bool) {
	rest, negative := bytes.CutPrefix(text, []byte("-"))
	whole := digits(rest)
	if whole == 0 || whole > 1 && rest[0] == '0' {
		return Number{}, false
	}
	size := whole
	if size < len(rest) && rest[size] == '.' {
		fraction := digits(rest[size+1:])
		if fraction == 0 {
			return Number{}, false
		}
		size += 1 + fraction
	}
	exponent, valid, small := parseExponent(rest[size:])
	if !valid {
		return Number{}, false
	}
	significant := bytes.TrimLeft(rest[:size], "0.")
	if len(significant) == 0 {
		return Number{}, true
	}
	first := size - len(significant) // the place of the first digit
	if first < whole {
		exponent += int64(whole - 1 - first)
	} else {
		exponent -= int64(first - whole)
	}
	significant = bytes.TrimRight(significant, "0.") // no point is left at the end
	return Number{negative, significant, exponent}, small && -limit < exponent && exponent < limit
}

// digits returns the number of digits that text begins with.
func digits(text []byte) int {
	for i, c := range text {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(text)
}

// parseExponent parses what follows the digits of a number. small is false if it has too many
// digits.
func parseExponent(text []byte) (exponent int64, valid, small bool) {
	if len(text) == 0 {
		return 0, true, true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false, false
	}
	text = text[1:]
	negative := bytes.HasPrefix(text, []byte("-"))
	if negative || bytes.HasPrefix(text, []byte("+")) {
		text = text[1:]
	}
	if len(text) == 0 || digits(text) < len(text) {
		return 0, false, false
	}
	if text = bytes.TrimLeft(text, "0"); len(text) > maxExponent {
		return 0, true, false
	}
	for _, c := range text {
		exponent = exponent*10 + int64(c-'0')
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true, true
}

// IsZero reports whether n is 0.
func (n Number) IsZero() bool { return len(n.digits) == 0 }

// Compare returns -1, 0 or 1 if n is less than, equal to or greater than m. It does not allocate.
func (n Number) Compare(m Number) int {
	if order := cmp.Compare(n.sign(), m.sign()); order != 0 {
		return order
	}
	order := cmp.Compare(n.exponent, m.exponent)
	if order == 0 {
		order = compareDigits(n.digits, m.digits)
	}
	return order * n.sign()
}

func (n Number) sign() int {
	switch {
	case n.IsZero():
		return 0
	case n.negative:
		return -1
	}
	return 1
}

// compareDigits compares digits of the same first place.
func compareDigits(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == '.':
			a = a[1:]
		case b[0] == '.':
			b = b[1:]
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Compare(len(a), len(b)) // the last digit is not 0
}

// Append appends n as a JSON number. Equal numbers have the same text: all digits of a whole number
// with at most 20 zeros at its end, a fraction with at most 4 zeros at its start, or else the
// notation 1.5e+99.
func (n Number) Append(text []byte) []byte {
	if n.IsZero() {
		return append(text, '0')
	}
	if n.negative {
		text = append(text, '-')
	}
	all := bytes.ReplaceAll(n.digits, []byte("."), nil)
	const zerosMax = 20
	size := int64(len(all))
	switch e := n.exponent; {
	case e < -4 || e >= size+zerosMax:
		text = append(text, all[0])
		if size > 1 {
			text = append(append(text, '.'), all[1:]...)
		}
		return fmt.Appendf(text, "e%+d", e)
	case e < 0:
		text = append(text, "0.000"[:1-e]...)
		return append(text, all...)
	case e >= size-1:
		return append(append(text, all...), "00000000000000000000"[:e-size+1]...)
	default:
		text = append(text, all[:e+1]...)
		return append(append(text, '.'), all[e+1:]...)
	}
}
