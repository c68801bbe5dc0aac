package driplang

import "strings"

// Span is the place of an operator or event in the text that [Parse] read: text[From:To], in bytes,
// without parentheses around it. Parsed in the same surroundings, this part is an equal expression.
type Span struct {
	Pointer  string // JSON Pointer of the operator or event in the JSON form; "" is the whole
	From, To int
}

// Spans returns the spans of all operators and events of e, each before its operands. The event of
// a count has none. Spans returns nil for an expression that was read from JSON.
func (e Expr) Spans() []Span {
	if e.root == nil || e.root.to == 0 {
		return nil
	}
	var list []Span
	e.root.visit("", func(t *term, pointer string) {
		list = append(list, Span{Pointer: pointer, From: int(t.from), To: int(t.to)})
	})
	return list
}

// visit calls f for a term with a pointer and for all terms in it, each before its operands.
func (t *term) visit(pointer string, f func(t *term, pointer string)) {
	f(t, pointer)
	for i, k := range t.kids {
		at := pointer + "/" + strings.ToLower(opWords[t.op])
		if t.op.list() {
			at += "/" + itoa(i)
		}
		k.visit(at, f)
	}
}
