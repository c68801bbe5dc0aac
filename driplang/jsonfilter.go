package driplang

import (
	"encoding/json"
	"strings"
)

var jsonFilters = map[string]filterOp{"property": filterIs, "and": filterAnd, "or": filterOr, "not": filterNot}

// filter reads the filter of an event: {"property":"amount","is":">","value":100}, or and, or, not
// of filters.
func (r *jsonReader) filter(at *pointer, depth int) (*filter, *Error) {
	if depth > maxFilterDepth {
		return nil, position{pointer: at}.errorf("the filter is nested more than %d deep", maxFilterDepth)
	}
	f, operator := &filter{}, ""
	beside := map[string]bool{}
	err := r.object(at, "a filter", func(key string, at *pointer) *Error {
		op, ok := jsonFilters[key]
		if !ok {
			beside[key] = true
			return r.filterBeside(f, key, at)
		}
		if operator != "" {
			return position{pointer: at}.errorf("a filter has one operator, found %q and %q", operator, key)
		}
		f.op, operator = op, key
		return r.filterOperand(f, at, depth)
	})
	here := position{pointer: at}
	switch {
	case err != nil:
		return nil, err
	case operator == "":
		return nil, here.errorf("expected one of property, and, or or not")
	case f.op != filterIs && len(beside) > 0:
		return nil, here.errorf("%q allows no other member", operator)
	case f.op == filterIs && !beside["is"]:
		return nil, here.errorf(`"property" needs "is"`)
	case f.op == filterIs && !beside["value"]:
		return nil, here.errorf(`"property" needs "value"`)
	case f.op == filterIs:
		return f, here.checkOrder(f.cmp, f.want)
	}
	return f, nil
}

func (r *jsonReader) filterOperand(f *filter, at *pointer, depth int) *Error {
	kid := func(at *pointer) *Error {
		k, err := r.filter(at, depth+1)
		f.kids = append(f.kids, k)
		return err
	}
	switch f.op {
	case filterAnd, filterOr:
		return r.list(at, kid)
	case filterNot:
		return kid(at)
	}
	text, err := r.string(at)
	if err == nil {
		f.path, err = parsePath(text, position{pointer: at})
	}
	return err
}

// parsePath parses a text that is only a path.
func parsePath(text string, at position) ([]string, *Error) {
	p := parser{lexer: lexer{text: text, line: 1, col: 1}}
	err := p.take()
	var path []string
	if err == nil {
		path, err = p.path()
	}
	if err == nil && p.cur.kind != tokEnd {
		err = p.cur.at.errorf("expected the end of the path, found %v", p.cur)
	}
	if err != nil {
		err = at.errorf("%s", err.Message)
	}
	return path, err
}

func (r *jsonReader) filterBeside(f *filter, key string, at *pointer) *Error {
	here := position{pointer: at}
	switch key {
	case "is":
		word, err := r.string(at)
		return orElse(err, func() (err *Error) { f.cmp, err = here.compare(word); return err })
	case "value":
		v, err := r.token()
		if err != nil {
			return err
		}
		f.want, err = here.literalOf(v)
		return err
	}
	return here.errorf("unknown member, expected one of property, is, value, and, or or not")
}

func (p position) literalOf(v json.Token) (literal, *Error) {
	switch v := v.(type) {
	case string:
		return literal{kind: kindString, text: v}, nil
	case json.Number:
		n, ok := parseNumber(string(v))
		if !ok {
			return n, p.errorf("%s is too large", clip(string(v)))
		}
		return n, nil
	case bool:
		return boolLiteral(v), nil
	case nil:
		return literal{kind: kindNull}, nil
	}
	return literal{}, p.errorf("expected a number, string, true, false or null, found %s", kindName(v))
}

func writeFilter(b *strings.Builder, f *filter) {
	switch f.op {
	case filterIs:
		b.WriteString(`{"property":` + quote(FormatPath(f.path)))
		b.WriteString(`,"is":` + quote(f.cmp.String()) + `,"value":` + f.want.String() + `}`)
	case filterNot:
		b.WriteString(`{"not":`)
		writeFilter(b, f.kids[0])
		b.WriteByte('}')
	default:
		word := strings.ToLower(strings.TrimSpace(filterWords[f.op]))
		b.WriteString(`{"` + word + `":[`)
		for i, k := range f.kids {
			if i > 0 {
				b.WriteByte(',')
			}
			writeFilter(b, k)
		}
		b.WriteString("]}")
	}
}
