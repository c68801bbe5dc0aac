package driplang

import (
	"github.com/sebbroker/seb/driplang/internal/form"
)

// scope describes the surroundings of a term.
type scope struct {
	anchored bool  // there is an instant to measure from
	since    int64 // greatest AFTER from the same anchor
	sinceAt  position
	span     int64 // smallest WITHIN around the term, from any anchor; 0 is none
}

type normalizer struct {
	form.Builder
	kinds map[string]int
	list  []form.Kind
}

// normalize checks the meaning of an expression and returns its normal form.
func normalize(root *term) (*form.Expression, *Error) {
	n := &normalizer{kinds: make(map[string]int)}
	f, err := n.term(root, scope{})
	if err != nil {
		return nil, err
	}
	f = n.Expand(f)
	if n.Full() {
		return nil, root.at.errorf("the expression is too large: it has more than %d parts after absences on the left of a THEN are "+
			"copied to each event that may follow", form.MaxNodes)
	}
	return &form.Expression{Root: f, Kinds: n.list}, nil
}

func (n *normalizer) term(t *term, s scope) (*form.Form, *Error) {
	switch t.op {
	case opEvent:
		return n.leaf(t, 1, 0), nil
	case opCount:
		return n.count(t), nil
	case opNot:
		f, err := n.term(t.kids[0], s)
		if err != nil {
			return nil, err
		}
		not := *n.Negate(f)
		if not.Op != form.Leaf { // the NOT applies to the event
			not.From = t
		}
		return &not, nil
	case opThen:
		return n.chain(t.kids, s, t)
	case opWithin, opAfter:
		return n.window(t, s)
	}
	f := form.Form{Op: form.And, From: t}
	if t.op == opOr {
		f.Op = form.Or
	}
	for _, k := range t.kids {
		kid, err := n.term(k, s)
		if err != nil {
			return nil, err
		}
		f.Kids = append(f.Kids, kid)
	}
	return n.Make(f), nil
}

// leaf requires at least need events of the kind of a term.
func (n *normalizer) leaf(t *term, need int, within int64) *form.Form {
	name := key(t.event)
	i, ok := n.kinds[name]
	if !ok {
		i = len(n.list)
		n.kinds[name] = i
		k := form.Kind{Name: t.event.name}
		if t.event.where != nil {
			k.Where = newDataFilter(t.event.where)
		}
		n.list = append(n.list, k)
	}
	return n.Make(form.Form{Op: form.Leaf, Kind: i, Need: need, Within: within, From: t.counted(need)})
}

// counted returns the term that a leaf counts. For a count it omits the comparison, which may be
// negated.
func (t *term) counted(need int) *term {
	if t.op != opCount {
		return t
	}
	if need == 1 {
		return &term{op: opEvent, at: t.at, event: t.event}
	}
	return &term{op: opCount, at: t.at, event: t.event, is: atLeast, n: need}
}

// count reduces every comparison to "at least n".
func (n *normalizer) count(t *term) *form.Form {
	switch t.is {
	case atLeast:
		return n.leaf(t, t.n, 0)
	case greater:
		return n.leaf(t, t.n+1, 0)
	case less:
		return n.Negate(n.leaf(t, t.n, 0))
	case atMost:
		return n.Negate(n.leaf(t, t.n+1, 0))
	}
	f := n.Negate(n.leaf(t, t.n+1, 0))
	if t.n > 0 {
		f = n.Make(form.Form{Op: form.And, Kids: []*form.Form{n.leaf(t, t.n, 0), f}, From: t})
	}
	if t.is == unequal {
		f = n.Negate(f)
	}
	return f
}

// chain normalizes a list joined by THEN, which is right-associative.
func (n *normalizer) chain(list []*term, s scope, from *term) (*form.Form, *Error) {
	left, err := n.term(list[0], s)
	if err != nil || len(list) == 1 {
		return left, err
	}
	if s.anchored || !form.MaybeGuard(left) {
		s = scope{anchored: true, span: s.span}
	}
	right, err := n.chain(list[1:], s, from)
	if err != nil {
		return nil, err
	}
	return n.Chain(left, right, from), nil
}

// window normalizes WITHIN or AFTER.
func (n *normalizer) window(t *term, s scope) (*form.Form, *Error) {
	const (
		noStart = `%s has no starting point: it measures from the left side of a THEN, e.g. "A THEN (B %s 2 days)"`
		empty   = "the window is empty: AFTER is longer than WITHIN"
	)
	if !s.anchored {
		if f := n.sliding(t); f != nil {
			return f, nil
		}
		return nil, t.at.errorf(noStart, opWords[t.op], opWords[t.op])
	}
	var w form.Window
	if t.op == opAfter {
		if s.span > 0 && t.millis > s.span {
			return nil, t.at.errorf(empty)
		}
		if w.After = t.millis; t.millis > s.since {
			s.since, s.sinceAt = t.millis, t.at
		}
	} else {
		if s.since > t.millis {
			return nil, s.sinceAt.errorf(empty)
		}
		if w.Within = t.millis; s.span == 0 || t.millis < s.span {
			s.span = t.millis
		}
	}
	f, err := n.term(t.kids[0], s)
	if err != nil {
		return nil, err
	}
	return n.Restrict(f, w), nil
}

// sliding normalizes a count within a time without a left side. The time starts at any of the
// counted events, so that count(x) >= 3 WITHIN 7d is x THEN (count(x) >= 2 WITHIN 7d). It returns
// nil if t is not such a count.
func (n *normalizer) sliding(t *term) *form.Form {
	c := t.kids[0]
	if t.op != opWithin || c.op != opCount || c.is != atLeast && c.is != greater {
		return nil
	}
	need := c.n
	if c.is == greater {
		need++
	}
	if need < 2 {
		return nil
	}
	return n.Chain(n.leaf(c, 1, 0), n.leaf(c, need-1, t.millis), t)
}
