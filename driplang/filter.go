package driplang

// filterOp is the operation of a filter.
type filterOp uint8

// filterAnd and filterOr have two or more operands, filterNot has one. filterIs compares a property
// with a literal.
const (
	filterAnd filterOp = iota + 1
	filterOr
	filterNot
	filterIs
)

// filter is a condition on an event's data. It is always true or false. A comparison with a missing
// property, or with a value of another type than the literal, does not hold; != is NOT =. Null and
// missing are the same.
type filter struct {
	op   filterOp
	kids []*filter // and, or, not
	path []string  // is: members of objects, outermost first
	cmp  compare   // is
	want literal   // is
	slot int       // is: of the value at path, see compile
	// from and to delimit the filter in the text, like those of a term.
	from, to uint16
}

// each calls f for all comparisons.
func (f *filter) each(do func(is *filter)) {
	if f.op == filterIs {
		do(f)
	}
	for _, k := range f.kids {
		k.each(do)
	}
}

// compile numbers the comparisons. It returns the properties that they need, and their number.
func (f *filter) compile() (root *properties, slots int) {
	root = &properties{}
	f.each(func(is *filter) {
		p := root.add(is.path)
		if len(p.slots) == 0 {
			p.slots = []int{slots}
			slots++
		}
		is.slot = p.slots[0]
	})
	return root, slots
}

// holds reports whether the filter is true for the values of its properties, by slot.
func (f *filter) holds(values []jsonValue) bool {
	switch f.op {
	case filterAnd:
		for _, k := range f.kids {
			if !k.holds(values) {
				return false
			}
		}
		return true
	case filterOr:
		for _, k := range f.kids {
			if k.holds(values) {
				return true
			}
		}
		return false
	case filterNot:
		return !f.kids[0].holds(values)
	}
	if f.cmp == unequal {
		return !equal.with(values[f.slot], f.want)
	}
	return f.cmp.with(values[f.slot], f.want)
}

// with compares a property's value with a literal.
func (c compare) with(have jsonValue, want literal) bool {
	if have.kind != want.kind {
		return false
	}
	switch want.kind {
	case kindString:
		order, ok := have.order(want.text)
		return ok && c.holds(order)
	case kindNumber:
		if len(have.raw) > maxNumber {
			return false
		}
		n, ok := parseNumber(string(have.raw))
		return ok && c.holds(n.order(want))
	}
	return c == equal
}

// fewSlots is the number of values of most filters. These do not allocate.
const fewSlots = 8

// dataFilter is a compiled filter on the data of an event.
type dataFilter struct {
	*filter
	root  *properties
	slots int
}

func newDataFilter(f *filter) *dataFilter {
	root, slots := f.compile()
	return &dataFilter{f, root, slots}
}

// Matches reports whether data, a JSON document, satisfies the filter. Its result is defined for
// any bytes, and deterministic.
func (f *dataFilter) Matches(data []byte) bool {
	var few [fewSlots]jsonValue
	values := few[:]
	if f.slots > fewSlots {
		values = make([]jsonValue, f.slots)
	}
	f.root.find(data, values)
	return f.holds(values)
}
