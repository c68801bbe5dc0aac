package driplang

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Filter is a condition on one JSON document, in the form that stands in brackets after an event
// name: amount > 100 AND plan = "free". It is immutable and may be used concurrently.
//
// In the document of an event (an object with non-empty strings "event" and "entity_id") the
// properties are those of the event's data, as in an expression. Only event, entity_id and data,
// at the start of a path, are members of the event itself: data.event is a property of the data
// with the name event. In every other document the properties are members of the document.
type Filter struct {
	root  *filter
	slots int
	plain *properties // of a document that is no event
	data  *properties // of an event's data
	// name and entity are the slots of an event's members event and entity_id.
	name, entity []int
}

// Members of an event.
const (
	memberEvent  = "event"
	memberEntity = "entity_id"
	memberData   = "data"
)

// ParseFilter parses a filter. Every error is an [*Error] with line and column, except for a text
// longer than MaxText. A filter has at most MaxComparisons comparisons.
func ParseFilter(text string) (*Filter, error) {
	if len(text) > MaxText {
		return nil, &Error{Message: "the filter has " + strconv.Itoa(len(text)) + " bytes, the limit is " + strconv.Itoa(MaxText)}
	}
	p := parser{lexer: lexer{text: text, line: 1, col: 1}}
	root, err := p.onlyFilter()
	if err != nil {
		return nil, err
	}
	f := &Filter{root: root, data: &properties{}}
	f.plain, f.slots = root.compile()
	root.each(func(is *filter) {
		switch first := is.path[0]; {
		case first == memberEvent && len(is.path) == 1:
			f.name = append(f.name, is.slot)
		case first == memberEntity && len(is.path) == 1:
			f.entity = append(f.entity, is.slot)
		case first == memberEvent || first == memberEntity: // a string has no members
		default:
			path := is.path
			if first == memberData {
				path = path[1:]
			}
			to := f.data.add(path)
			to.slots = append(to.slots, is.slot)
		}
	})
	return f, nil
}

// onlyFilter parses a text that is only a filter.
func (p *parser) onlyFilter() (*filter, *Error) {
	if err := p.take(); err != nil {
		return nil, err
	}
	f, _, err := p.filterOr()
	if err != nil {
		return nil, err
	}
	if p.cur.kind != tokEnd {
		return nil, p.cur.at.errorf("expected AND, OR or the end, found %v", p.cur)
	}
	n := 0
	f.each(func(*filter) { n++ })
	if n > MaxComparisons {
		return nil, position{line: 1, col: 1}.errorf("the filter has %d comparisons, the limit is %d", n, MaxComparisons)
	}
	return f, nil
}

// String returns the filter in canonical form. Parsing it returns the filter.
func (f *Filter) String() string {
	var b strings.Builder
	printFilter(&b, f.root)
	return b.String()
}

// Match reports whether document satisfies the filter. Bytes that are not JSON satisfy no filter.
// Match does not keep the document. Without a match it does not allocate, except for filters with
// many properties. Its time is linear in the length of the document.
func (f *Filter) Match(document []byte) bool {
	if f.slots > fewSlots {
		return f.match(document, make([]jsonValue, f.slots))
	}
	var few [fewSlots]jsonValue
	return f.match(document, few[:])
}

func (f *Filter) match(document []byte, values []jsonValue) bool {
	if e, ok := findEvent(document); ok {
		f.data.find(e.data.raw, values)
		fill(values, f.name, e.name)
		fill(values, f.entity, e.entity)
	} else {
		f.plain.find(document, values)
	}
	return f.root.holds(values) && json.Valid(document)
}

func fill(values []jsonValue, slots []int, v jsonValue) {
	for _, slot := range slots {
		values[slot] = v
	}
}

// eventMembers are the members of an event's document.
type eventMembers struct{ name, entity, data jsonValue }

// findEvent finds the members of an event; ok is false if the document is not of one. Like the
// broker, which uses encoding/json, it ignores the case of their names, and null instead of a
// string.
func findEvent(document []byte) (e eventMembers, ok bool) {
	s := jsonScanner{data: document}
	if !s.take('{') {
		return e, false
	}
	for {
		name := s.value()
		if len(name) < 2 || name[0] != '"' || !s.take(':') {
			break
		}
		raw := s.value()
		if len(raw) == 0 {
			break
		}
		v := jsonValue{kindOf(raw), raw}
		switch {
		case isMember(name, memberData):
			e.data = v
		case v.kind == kindNull:
		case isMember(name, memberEvent):
			e.name = v
		case isMember(name, memberEntity):
			e.entity = v
		}
		if !s.take(',') {
			break
		}
	}
	return e, e.name.isText() && e.entity.isText()
}

// isText reports whether v is a string that is not empty.
func (v jsonValue) isText() bool { return v.kind == kindString && len(v.raw) > len(`""`) }

// isMember reports whether a quoted name is that of a member, in any case.
func isMember(quoted []byte, name string) bool {
	text := quoted[1 : len(quoted)-1]
	for _, want := range name {
		if len(text) == 0 {
			return false
		}
		r, size := unquoteRune(text)
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		if size == 0 || r != want {
			return false
		}
		text = text[size:]
	}
	return len(text) == 0
}
