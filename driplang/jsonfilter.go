package driplang

import (
	"encoding/json"
	"strings"

	"github.com/sebbroker/seb/driplang/internal/filter"
)

var jsonFilters = map[string]filter.Op{"property": filter.Is, "and": filter.And, "or": filter.Or, "not": filter.Not}

// filter reads the filter of an event: {"property":"amount","is":">","value":100}, or and, or, not
// of filters.
func (r *jsonReader) filter(at *pointer, depth int) (*filter.Filter, *Error) {
	if depth > maxFilterDepth {
		return nil, position{pointer: at}.errorf("the filter is nested more than %d deep", maxFilterDepth)
	}
	f, operator := &filter.Filter{}, ""
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
		f.Op, operator = op, key
		return r.filterOperand(f, at, depth)
	})
	here := position{pointer: at}
	switch {
	case err != nil:
		return nil, err
	case operator == "":
		return nil, here.errorf("expected one of property, and, or or not")
	case f.Op != filter.Is && len(beside) > 0:
		return nil, here.errorf("%q allows no other member", operator)
	case f.Op == filter.Is && !beside["is"]:
		return nil, here.errorf(`"property" needs "is"`)
	case f.Op == filter.Is && !beside["value"]:
		return nil, here.errorf(`"property" needs "value"`)
	case f.Op == filter.Is:
		return f, here.checkOrder(f.Cmp, f.Want)
	}
	return f, nil
}

func (r *jsonReader) filterOperand(f *filter.Filter, at *pointer, depth int) *Error {
	kid := func(at *pointer) *Error {
		k, err := r.filter(at, depth+1)
		f.Kids = append(f.Kids, k)
		return err
	}
	switch f.Op {
	case filter.And, filter.Or:
		return r.list(at, kid)
	case filter.Not:
		return kid(at)
	}
	text, err := r.string(at)
	if err == nil {
		f.Path, err = parsePath(text, position{pointer: at})
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

func (r *jsonReader) filterBeside(f *filter.Filter, key string, at *pointer) *Error {
	here := position{pointer: at}
	switch key {
	case "is":
		word, err := r.string(at)
		return orElse(err, func() (err *Error) { f.Cmp, err = here.compare(word); return err })
	case "value":
		v, err := r.token()
		if err != nil {
			return err
		}
		f.Want, err = here.literalOf(v)
		return err
	}
	return here.errorf("unknown member, expected one of property, is, value, and, or or not")
}

func (p position) literalOf(v json.Token) (filter.Literal, *Error) {
	switch v := v.(type) {
	case string:
		return filter.Literal{Kind: filter.String, Text: v}, nil
	case json.Number:
		n, ok := filter.ParseNumber(string(v))
		if !ok {
			return n, p.errorf("%s is too large", clip(string(v)))
		}
		return n, nil
	case bool:
		return filter.Bool(v), nil
	case nil:
		return filter.Literal{Kind: filter.Null}, nil
	}
	return filter.Literal{}, p.errorf("expected a number, string, true, false or null, found %s", kindName(v))
}

func writeFilter(b *strings.Builder, f *filter.Filter) {
	switch f.Op {
	case filter.Is:
		b.WriteString(`{"property":` + filter.Quote(formatPath(f.Path)))
		b.WriteString(`,"is":` + filter.Quote(f.Cmp.String()) + `,"value":` + f.Want.String() + `}`)
	case filter.Not:
		b.WriteString(`{"not":`)
		writeFilter(b, f.Kids[0])
		b.WriteByte('}')
	default:
		word := strings.ToLower(strings.TrimSpace(filterWords[f.Op]))
		b.WriteString(`{"` + word + `":[`)
		for i, k := range f.Kids {
			if i > 0 {
				b.WriteByte(',')
			}
			writeFilter(b, k)
		}
		b.WriteString("]}")
	}
}
