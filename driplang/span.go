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
	return e.root.spans(nil, "")
}

func (t *term) spans(list []Span, pointer string) []Span {
	list = append(list, Span{Pointer: pointer, From: int(t.from), To: int(t.to)})
	for i, k := range t.kids {
		at := pointer + "/" + strings.ToLower(opWords[t.op])
		if t.op == opAnd || t.op == opOr || t.op == opThen {
			at += "/" + itoa(i)
		}
		list = k.spans(list, at)
	}
	return list
}
