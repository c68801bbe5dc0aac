package query

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
)

// Limits of a regular expression. Its time per byte of a text grows with its instructions, and a
// class of Unicode such as \p{L} takes kilobytes.
const (
	maxInstructions = 1000
	maxUnicode      = 32 // classes of Unicode
)

// expression compiles a regular expression that is found anywhere in a text. at is the position of
// its string.
func (p *parser) expression(at int, pattern string) (func(text []byte) bool, *Error) {
	if feature := javaOnly(pattern); feature != "" {
		return nil, p.errorf(at, "the regular expression has %s, which RE2 does not support", feature)
	}
	if n := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`); n > maxUnicode {
		return nil, p.errorf(at, "the regular expression is too large: %d classes of Unicode, the limit is %d", n, maxUnicode)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	var detail *syntax.Error
	switch {
	case errors.As(err, &detail):
		return nil, p.errorf(at, "the regular expression has an error: %s: `%s`", detail.Code, detail.Expr)
	case err != nil:
		return nil, p.errorf(at, "the regular expression has an error: %v", err)
	}
	if size(tree) > maxInstructions {
		return nil, p.errorf(at, "the regular expression is too large: the limit is %d instructions", maxInstructions)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, p.errorf(at, "the regular expression has an error: %v", err)
	}
	return re.Match, nil
}

// size estimates the instructions of an expression whose repetitions are expanded. It is saturated
// above the limit.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min+1, re.Max), maxInstructions+1)
	}
	return n
}

// groups are forms of groups that only Java has.
var groups = []struct{ start, name string }{
	{"(?=", "a lookahead (?=…)"},
	{"(?!", "a negative lookahead (?!…)"},
	{"(?<=", "a lookbehind (?<=…)"},
	{"(?<!", "a negative lookbehind (?<!…)"},
	{"(?>", "an atomic group (?>…)"},
}

// letters are escapes that only Java has.
const letters = "cehGHkNRuVXZ"

// javaOnly names the first construct of Java's regular expressions that RE2 does not have, or reads
// with another meaning; "" if there is none.
func javaOnly(pattern string) string {
	class, after := false, false // within a class; after a quantifier
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		c := rest[0]
		quantifier := false
		switch {
		case c == '\\' && len(rest) > 1:
			if strings.HasPrefix(rest, `\Q`) {
				end := strings.Index(rest, `\E`)
				if end < 0 {
					return ""
				}
				i += end + 1
				break
			}
			i++
			if n := rest[1]; !class && n >= '1' && n <= '9' {
				return "a reference to a group \\" + string(n)
			} else if strings.IndexByte(letters, n) >= 0 {
				return "the escape \\" + string(n)
			} else if strings.HasPrefix(rest, `\p{java`) || strings.HasPrefix(rest, `\p{Is`) || strings.HasPrefix(rest, `\p{In`) {
				return "the class " + rest[:min(len(rest), strings.IndexByte(rest+"}", '}')+1)]
			}
		case class && strings.HasPrefix(rest, "&&"):
			return "an intersection of classes &&"
		case class && c == '[' && !strings.HasPrefix(rest, "[:"):
			return "a class within a class"
		case class && c == '[':
			if end := strings.Index(rest, ":]"); end > 0 {
				i += end + 1
			}
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' { // a literal
				i++
			}
		case c == '+' && after:
			return "a possessive quantifier"
		case c == '*' || c == '+' || c == '?' || c == '}' && closesCount(pattern[:i]):
			quantifier = true
		case c == '(':
			for _, g := range groups {
				if strings.HasPrefix(rest, g.start) {
					return g.name
				}
			}
		}
		after = quantifier
	}
	return ""
}

// closesCount reports whether a text ends with the start of a count of repetitions, such as {2,.
func closesCount(text string) bool {
	before := strings.TrimRight(text, "0123456789,")
	return len(before) < len(text) && strings.HasSuffix(before, "{")
}

// Match reports whether an event satisfies the query. Only regular expressions may allocate.
func (q *Query) Match(e Event) bool { return q.root.holds(e) }

func (n *node) holds(e Event) bool {
	switch n.op {
	case opOr:
		for _, kid := range n.kids {
			if kid.holds(e) {
				return true
			}
		}
		return false
	case opAnd:
		for _, kid := range n.kids {
			if !kid.holds(e) {
				return false
			}
		}
		return true
	case opNot:
		return !n.kids[0].holds(e)
	case opTagged:
		return e.Tagged(n.right.field)
	}
	left := n.left.of(e)
	switch n.op {
	case opIs:
		return left.Kind != Nil && left.Kind != False
	case opMatch:
		return left.Kind == Text && n.matches(left.Text)
	}
	right := n.right.of(e)
	switch n.op {
	case opEqual:
		return left.equals(&right)
	case opUnequal:
		return !left.equals(&right)
	}
	if !left.isNumber() {
		return false
	}
	order, ok := left.order(&right)
	switch n.op {
	case opLess:
		return ok && order < 0
	case opAtMost:
		return ok && order <= 0
	case opGreater:
		return ok && order > 0
	default:
		return ok && order >= 0
	}
}

// of returns the value of an operand for an event.
func (o *operand) of(e Event) Value {
	if o.field != "" {
		return e.Field(o.field)
	}
	return o.value
}

// wildcard returns the function that matches a whole text with a pattern in which % stands for any
// characters. Its time is linear in the text for each piece of the pattern.
func wildcard(pattern string) func(text []byte) bool {
	var pieces [][]byte
	for piece := range strings.SplitSeq(pattern, "%") {
		pieces = append(pieces, []byte(piece))
	}
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return func(text []byte) bool { return bytes.Equal(text, first) }
	}
	middle := pieces[1 : len(pieces)-1]
	return func(text []byte) bool {
		if len(text) < len(first)+len(last) || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, last) {
			return false
		}
		text = text[len(first) : len(text)-len(last)]
		for _, piece := range middle {
			i := bytes.Index(text, piece)
			if i < 0 {
				return false
			}
			text = text[i+len(piece):]
		}
		return true
	}
}

// Kind is a type of values.
type Kind uint8

// The types. List stands for values without comparisons: lists and objects.
const (
	Nil Kind = iota
	False
	True
	Integer
	Float
	Text
	List
)

// Value is a value of a field or a constant of a query. The zero value is nil.
type Value struct {
	Kind  Kind
	Int   int64   // of Integer
	Float float64 // of Float, rounded
	Text  []byte  // of Text; of a Float the JSON number, if it is from one
}

// Event is an event that a query is evaluated over.
type Event interface {
	// Field returns the value of a field, nil if the event has none. It is valid during Match.
	Field(name string) Value
	// Tagged reports whether the event has a tag.
	Tagged(tag string) bool
}

// Number returns the value of a JSON number, or ok false. The value refers to the text.
func Number(text []byte) (v Value, ok bool) {
	if !bytes.ContainsAny(text, ".eE") { // else the error of ParseInt allocates
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return Value{Kind: Integer, Int: i}, true
		}
	}
	if _, ok := decimal.Parse(text); !ok {
		return Value{}, false
	}
	f, _ := strconv.ParseFloat(string(text), 64) // out of range: infinite, or 0
	return Value{Kind: Float, Float: f, Text: text}, true
}

func (v *Value) isNumber() bool { return v.Kind == Integer || v.Kind == Float }

func (v *Value) equals(w *Value) bool {
	switch {
	case v.isNumber() && w.isNumber():
		order, ok := v.order(w)
		return ok && order == 0
	case v.Kind != w.Kind || v.Kind == List:
		return false
	case v.Kind == Text:
		return bytes.Equal(v.Text, w.Text)
	}
	return true
}

// order compares two numbers by their exact values; ok is false if one is NaN.
func (v *Value) order(w *Value) (order int, ok bool) {
	if v.Kind == Integer && w.Kind == Integer {
		return cmp.Compare(v.Int, w.Int), true
	}
	var left, right [maxDouble]byte
	a, finiteA := v.decimal(left[:0])
	b, finiteB := w.decimal(right[:0])
	if finiteA && finiteB {
		return a.Compare(b), true
	}
	return cmp.Compare(v.limit(), w.limit()), v.Float == v.Float && w.Float == w.Float
}

// maxDouble is the length of the text of a double or an integer.
const maxDouble = 32

// decimal returns the decimal value of a number, for a double the shortest one; ok is false if it is
// not finite. The text of a number that is from no JSON is appended to space.
func (v *Value) decimal(space []byte) (n decimal.Number, ok bool) {
	text := v.Text
	switch {
	case v.Kind == Integer:
		text = strconv.AppendInt(space, v.Int, 10)
	case len(text) == 0:
		text = strconv.AppendFloat(space, v.Float, 'g', -1, 64)
	}
	return decimal.Parse(text)
}

// limit returns -1 or 1 for an infinite number that is from no JSON, and 0 for others.
func (v *Value) limit() int {
	switch {
	case v.Kind != Float || len(v.Text) > 0 || !math.IsInf(v.Float, 0):
		return 0
	case v.Float < 0:
		return -1
	}
	return 1
}
