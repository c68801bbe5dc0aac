package driplang

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// jsonOps are the members that name an operator, with the members that they need or allow.
var jsonOps = map[string]struct {
	op            op
	needs, allows []string
}{
	"event":  {op: opEvent, allows: []string{"where"}},
	"count":  {op: opCount, needs: []string{"is", "n"}},
	"not":    {op: opNot},
	"and":    {op: opAnd},
	"or":     {op: opOr},
	"then":   {op: opThen},
	"within": {op: opWithin, needs: []string{"for"}},
	"after":  {op: opAfter, needs: []string{"by"}},
}

// operators lists jsonOps for messages.
const operators = "event, count, not, and, or, then, within or after"

// jsonTerm is a term whose members are being read.
type jsonTerm struct {
	*term
	at     *pointer
	depth  int
	name   string          // of the operator
	beside map[string]bool // other members
}

func (r *jsonReader) term(at *pointer, depth int) (*term, *Error) {
	if depth > MaxDepth {
		return nil, position{pointer: at}.errorf("operators are nested more than %d deep", MaxDepth)
	}
	t := &jsonTerm{term: &term{at: position{pointer: at}}, at: at, depth: depth, beside: map[string]bool{}}
	err := r.object(at, "an expression", func(key string, at *pointer) *Error { return r.member(t, key, at) })
	if err != nil {
		return nil, err
	}
	here := position{pointer: at}
	if t.name == "" {
		return nil, here.errorf("expected one of %s", operators)
	}
	form := jsonOps[t.name]
	for _, need := range form.needs {
		if !t.beside[need] {
			return nil, here.errorf("%q needs %q", t.name, need)
		}
	}
	for _, key := range []string{"where", "is", "n", "for", "by"} {
		if t.beside[key] && !slices.Contains(form.needs, key) && !slices.Contains(form.allows, key) {
			return nil, position{pointer: &pointer{at, key}}.errorf("%q is not allowed with %q", key, t.name)
		}
	}
	if t.op == opCount {
		return t.term, here.checkCount(t.is, t.n)
	}
	return t.term, nil
}

func (r *jsonReader) member(t *jsonTerm, key string, at *pointer) *Error {
	form, ok := jsonOps[key]
	if !ok {
		t.beside[key] = true
		return r.besides(t, key, at)
	}
	if t.name != "" {
		return position{pointer: at}.errorf("an expression has one operator, found %q and %q", t.name, key)
	}
	t.name, t.op = key, form.op
	switch t.op {
	case opEvent:
		var err *Error
		if t.event.name, err = r.string(at); err == nil {
			err = position{pointer: at}.checkName(t.event.name)
		}
		return err
	case opCount:
		kind, err := r.term(at, t.depth)
		if err == nil && kind.op != opEvent {
			err = position{pointer: at}.errorf("only events can be counted")
		}
		if err == nil {
			t.event = kind.event
		}
		return err
	case opAnd, opOr, opThen:
		return r.list(at, func(at *pointer) *Error { return r.kid(t, at) })
	}
	return r.kid(t, at)
}

func (r *jsonReader) kid(t *jsonTerm, at *pointer) *Error {
	kid, err := r.term(at, t.depth+1)
	t.kids = append(t.kids, kid)
	return err
}

// besides reads the other members of an operator.
func (r *jsonReader) besides(t *jsonTerm, key string, at *pointer) *Error {
	here := position{pointer: at}
	switch key {
	case "where":
		var err *Error
		t.event.where, err = r.filter(at, 1)
		return err
	case "is":
		word, err := r.string(at)
		return orElse(err, func() (err *Error) { t.is, err = here.compare(word); return err })
	case "for", "by":
		text, err := r.string(at)
		return orElse(err, func() (err *Error) { t.millis, err = parseDuration(text, here); return err })
	case "n":
		v, err := r.token()
		if err != nil {
			return err
		}
		n, ok := v.(json.Number)
		t.n, err = parseCount(token{kind: tokNumber, text: string(n), at: here})
		if !ok {
			err = here.errorf("expected a number, found %s", kindName(v))
		}
		return err
	case "operator":
		return here.errorf("this is the older form with operator, a, b and d; convert it with ParseOriginal")
	}
	return here.errorf("unknown member, expected one of %s", operators)
}

func orElse(err *Error, next func() *Error) *Error {
	if err != nil {
		return err
	}
	return next()
}

func (p position) compare(word string) (compare, *Error) {
	c, ok := parseCompare(word)
	if !ok {
		return 0, p.errorf("expected =, !=, <, <=, > or >=, found %q", clip(word))
	}
	return c, nil
}

func writeTerm(b *strings.Builder, t *term) {
	switch t.op {
	case opEvent:
		writeEvent(b, t.event)
	case opCount:
		b.WriteString(`{"count":`)
		writeEvent(b, t.event)
		b.WriteString(`,"is":` + quote(t.is.String()) + `,"n":` + itoa(t.n) + `}`)
	case opAnd, opOr, opThen:
		b.WriteString(`{"` + strings.ToLower(opWords[t.op]) + `":[`)
		for i, k := range t.kids {
			if i > 0 {
				b.WriteByte(',')
			}
			writeTerm(b, k)
		}
		b.WriteString("]}")
	default:
		b.WriteString(`{"` + strings.ToLower(opWords[t.op]) + `":`)
		writeTerm(b, t.kids[0])
		switch t.op {
		case opWithin:
			b.WriteString(`,"for":"` + formatMillis(t.millis) + `"`)
		case opAfter:
			b.WriteString(`,"by":"` + formatMillis(t.millis) + `"`)
		}
		b.WriteByte('}')
	}
}

func writeEvent(b *strings.Builder, k eventKind) {
	b.WriteString(`{"event":` + quote(k.name))
	if k.where != nil {
		b.WriteString(`,"where":`)
		writeFilter(b, k.where)
	}
	b.WriteByte('}')
}
