package query

import (
	"bytes"
	"strings"
)

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
		return left.truthy()
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
