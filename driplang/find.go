package driplang

import (
	"slices"
)

// properties are the members of an object that a filter compares, with those of objects in them.
// One pass over a document finds the values of all.
type properties struct {
	name  string
	kids  []*properties // sorted by name
	slots []int         // of the comparisons with the value
}

// add returns the property at a path below p.
func (p *properties) add(path []string) *properties {
	for _, member := range path {
		i, found := slices.BinarySearchFunc(p.kids, member, func(k *properties, name string) int { return compareText(k.name, name) })
		if !found {
			p.kids = slices.Insert(p.kids, i, &properties{name: member})
		}
		p = p.kids[i]
	}
	return p
}

// member returns the property with a quoted name; nil if no comparison needs it.
func (p *properties) member(quoted []byte) *properties {
	for low, high := 0, len(p.kids); low < high; {
		middle := int(uint(low+high) / 2)
		order, ok := jsonValue{raw: quoted}.order(p.kids[middle].name)
		switch {
		case !ok:
			return nil
		case order == 0:
			return p.kids[middle]
		case order < 0:
			high = middle
		default:
			low = middle + 1
		}
	}
	return nil
}

// clear makes the values of p and of all properties in it null.
func (p *properties) clear(values []jsonValue) {
	for _, slot := range p.slots {
		values[slot] = jsonValue{}
	}
	for _, k := range p.kids {
		k.clear(values)
	}
}

// find sets the values of p and of all properties in it, for p at the start of a document. A property
// that does not exist is null. The last of several members with the same name counts, as in most
// JSON parsers. For invalid JSON the values are arbitrary but deterministic. find does not allocate,
// and recurses at most MaxPath deep.
func (p *properties) find(document []byte, values []jsonValue) {
	s := jsonScanner{data: document}
	s.property(p, values)
}

// property reads the value of p. It returns false where the document is invalid.
func (s *jsonScanner) property(p *properties, values []jsonValue) bool {
	p.clear(values)
	s.space()
	from := s.pos
	if len(p.kids) > 0 && s.take('{') {
		if !s.members(p, values) {
			return false
		}
	} else if len(s.value()) == 0 {
		return false
	}
	v := s.data[from:s.pos]
	for _, slot := range p.slots {
		values[slot] = jsonValue{kind: kindOf(v), raw: v}
	}
	return true
}

// members reads the members of the object p after its bracket.
func (s *jsonScanner) members(p *properties, values []jsonValue) bool {
	if s.take('}') {
		return true
	}
	for {
		name := s.value()
		if len(name) < 2 || name[0] != '"' || !s.take(':') {
			return false
		}
		if kid := p.member(name); kid != nil {
			if !s.property(kid, values) {
				return false
			}
		} else if len(s.value()) == 0 {
			return false
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
}
