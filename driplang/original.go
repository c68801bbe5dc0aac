package driplang

import (
	"slices"
	"strconv"
)

// originalOps are the operators of the older form. It never had within, which is parsed like after.
var originalOps = map[string]op{
	"event_name": opEvent, "not": opNot, "and": opAnd, "or": opOr, "then": opThen, "after": opAfter, "within": opWithin,
}

// ParseOriginal parses the JSON of the original program, {"operator": "then", "a": {...}, "b":
// {...}}. Its durations ("d") are strings of nanoseconds. They are rounded to milliseconds, up for
// after and down for within, which is exact for times in milliseconds. An AFTER of zero is omitted,
// because it has no effect. Expressions that Parse refuses are refused here too, such as an AFTER
// without a starting point; the original program evaluated them to false.
func ParseOriginal(text []byte) (Expr, error) {
	r, err := newReader(text)
	if err != nil {
		return Expr{}, err
	}
	root, err := r.original(&pointer{}, 1)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return Expr{}, err
	}
	return finish(root)
}

// originalTerm is an object of the older form. a is a string if the operator is event_name. The
// operator may be after it.
type originalTerm struct {
	operator string
	name     string
	isName   bool
	a, b     *term
	d        string
	has      map[string]bool
}

func (r *jsonReader) original(at *pointer, depth int) (*term, *Error) {
	if depth > MaxDepth {
		return nil, position{pointer: at}.errorf("operators are nested more than %d deep", MaxDepth)
	}
	o := originalTerm{has: map[string]bool{}}
	err := r.object(at, "an expression", func(key string, at *pointer) (err *Error) {
		o.has[key] = true
		switch key {
		case "operator":
			o.operator, err = r.string(at)
		case "a":
			if o.isName = r.stringNext(); o.isName {
				o.name, err = r.string(at)
			} else {
				o.a, err = r.original(at, depth+1)
			}
		case "b":
			o.b, err = r.original(at, depth+1)
		case "d":
			o.d, err = r.string(at)
		default:
			err = position{pointer: at}.errorf("unknown member, expected operator, a, b or d")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return o.term(position{pointer: at})
}

// stringNext reports whether the value after a key is a string.
func (r *jsonReader) stringNext() bool {
	for _, c := range r.text[r.dec.InputOffset():] {
		switch c {
		case ' ', '\t', '\r', '\n', ':':
		default:
			return c == '"'
		}
	}
	return false
}

func (o *originalTerm) term(at position) (*term, *Error) {
	t := &term{op: originalOps[o.operator], at: at}
	if t.op == 0 {
		return nil, at.errorf("unknown operator %q, expected event_name, not, and, or, then, after or within", clip(o.operator))
	}
	needs := []string{"operator", "a"}
	switch t.op {
	case opAnd, opOr, opThen:
		needs = append(needs, "b")
	case opAfter, opWithin:
		needs = append(needs, "d")
	}
	for _, key := range []string{"operator", "a", "b", "d"} {
		switch need := slices.Contains(needs, key); {
		case need && !o.has[key]:
			return nil, at.errorf("missing %q of operator %q", key, o.operator)
		case !need && o.has[key]:
			return nil, at.errorf("%q is not allowed for operator %q", key, o.operator)
		}
	}
	if o.isName != (t.op == opEvent) {
		return nil, at.errorf(`"a" of operator %q has the wrong type`, o.operator)
	}
	switch t.op {
	case opEvent:
		t.event.name = o.name
		return t, at.checkName(o.name)
	case opAnd, opOr, opThen:
		t.kids = []*term{o.a, o.b}
		return t, nil
	case opAfter, opWithin:
		return o.window(t)
	}
	t.kids = []*term{o.a}
	return t, nil
}

func (o *originalTerm) window(t *term) (*term, *Error) {
	const perMilli = 1_000_000
	t.kids = []*term{o.a}
	nanos, err := strconv.ParseInt(o.d, 10, 64)
	switch {
	case err != nil || nanos < 0:
		return nil, t.at.errorf(`"d" must be nanoseconds as a string of digits, found %q`, clip(o.d))
	case nanos == 0 && t.op == opAfter:
		return o.a, nil
	}
	t.millis = nanos / perMilli
	if t.op == opAfter && nanos%perMilli > 0 {
		t.millis++
	}
	switch {
	case t.millis == 0:
		return nil, t.at.errorf("a duration must be a millisecond or longer")
	case t.millis > MaxMillis:
		return nil, t.at.errorf("the duration is longer than 10 years")
	}
	return t, nil
}
