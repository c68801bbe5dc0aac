package encoding

import (
	"bytes"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// Limits of an event in POST /event.
const (
	EventMax       = 256 << 10 // bytes of its compact text
	EventNameMax   = 256       // bytes, as in expressions
	EventEntityMax = 1 << 10
	EventIDMax     = 256
	EventDepthMax  = 64 // nesting of objects and arrays, including the event
)

// The members of an event.
const (
	memberEvent      = "event"
	memberEntity     = "entity_id"
	memberData       = "data"
	memberID         = "id"
	memberOccurredAt = "occurred_at"
)

const (
	givenEvent uint8 = 1 << iota
	givenEntity
	givenData
	givenID
	givenOccurredAt
)

// Event is one event: something that happened to an entity.
type Event struct {
	Name, Entity []byte
	ID           []byte // nil: none
	// Text is the whole event as compact JSON: unchanged except for white space.
	Text []byte
}

// EventBody is a Source of the events of a body. The key of a record is the entity, its value the
// event's text.
type EventBody struct {
	// Last is the event of the last record. It is valid as long as that record.
	Last Event

	text  eventText
	rest  []byte
	lines bool
	fault *api.Problem // of the encoding
	rec   record.Record
}

// NewEventBody reads body: one event, or with lines one event on each line that is not blank. now
// is the timestamp of the records in milliseconds; occurred_at is not used for it.
func NewEventBody(body []byte, now int64, lines bool) *EventBody {
	rest, fault := unmarked(body)
	return &EventBody{rest: rest, fault: fault, lines: lines, rec: record.Record{Timestamp: now}}
}

// Next implements Source.
func (s *EventBody) Next() (*record.Record, *api.Problem) {
	for len(s.rest) > 0 {
		line, rest := s.rest, []byte(nil)
		if s.lines {
			line, rest = input.CutLine(line)
		}
		s.rest = rest
		s.text = eventText{jsonText: jsonText{b: line}}
		if s.text.peek() == 0 && s.text.i == len(line) {
			continue
		}
		if p := s.text.read(); p != nil {
			return nil, p
		}
		s.Last = s.text.event
		s.rec.Key, s.rec.Value = s.Last.Entity, s.Last.Text
		return &s.rec, nil
	}
	return nil, s.fault
}

// eventText reads one event. In contrast to other readers of JSON here it leaves strings unchanged,
// because the text is stored.
type eventText struct {
	jsonText
	spaced bool // there is white space between tokens
	event  Event
	given  uint8
}

// read reads the text as one event and removes its white space in place.
func (t *eventText) read() *api.Problem {
	if !utf8.Valid(t.b) {
		return problem.BadField("body", "not valid UTF-8")
	}
	if c := t.peek(); c == '[' {
		return problem.BadField("body", "an array; give one event as an object, or several as %s, one on a line", api.NDJSON)
	} else if c != '{' {
		return problem.BadField("body", "%v", t.unexpected("an object"))
	}
	start := t.i
	if p := t.value(1); p != nil {
		return p
	}
	text := t.b[start:t.i]
	if t.skip(); t.i < len(t.b) {
		return problem.BadField("body", "%v", t.unexpected("the end of the event"))
	}
	if t.spaced {
		text = compact(text)
	}
	if len(text) > EventMax {
		return problem.OverLimit("event", EventMax, int64(len(text)))
	}
	t.event = Event{Text: text[:len(text):len(text)]}
	t.jsonText = jsonText{b: text}
	if p := t.members(t.member); p != nil {
		return p
	}
	switch {
	case t.given&givenEvent == 0:
		return problem.BadField(memberEvent, "missing")
	case t.given&givenEntity == 0:
		return problem.BadField(memberEntity, "missing")
	}
	return nil
}

// members is like jsonText.members, but leaves the names unchanged.
func (t *eventText) members(each func(name []byte) *api.Problem) *api.Problem {
	t.i++ // the caller has checked that it is an object
	for !t.take('}') {
		t.take(',')
		name, err := t.string()
		if err != nil {
			return problem.BadField("body", "%v", err)
		}
		t.i++
		if p := each(name); p != nil {
			return p
		}
	}
	return nil
}

func (t *eventText) member(name []byte) *api.Problem {
	switch string(name) {
	case memberEvent:
		return t.name(memberEvent, givenEvent, EventNameMax, &t.event.Name)
	case memberEntity:
		return t.name(memberEntity, givenEntity, EventEntityMax, &t.event.Entity)
	case memberID:
		if t.peek() == 'n' {
			return t.once(memberID, givenID, t.null)
		}
		return t.name(memberID, givenID, EventIDMax, &t.event.ID)
	case memberData:
		if c := t.peek(); c != '{' && c != 'n' {
			return problem.BadField(memberData, "want an object, or null")
		}
		return t.once(memberData, givenData, func() bool { return t.value(1) == nil })
	case memberOccurredAt:
		return t.occurredAt()
	}
	return problem.BadField(problem.Quote(string(name)), "unknown member of an event; it has %s, %s, %s, %s and %s",
		memberEvent, memberEntity, memberData, memberID, memberOccurredAt)
}

// once reads a member's value with pass, and refuses a repeated member.
func (t *eventText) once(name string, bit uint8, pass func() bool) *api.Problem {
	if t.given&bit != 0 {
		return problem.BadField(name, "given twice")
	}
	t.given |= bit
	pass()
	return nil
}

// name reads a string of 1 to most bytes.
func (t *eventText) name(name string, bit uint8, most int, dst *[]byte) *api.Problem {
	if t.peek() != '"' {
		return problem.BadField(name, "want a string")
	}
	var s []byte
	var err error
	if p := t.once(name, bit, func() bool { s, err = t.string(); return true }); p != nil {
		return p
	}
	switch {
	case err != nil:
		return problem.BadField(name, "%v", err)
	case len(s) == 0:
		return problem.BadField(name, "empty")
	case len(s) > most:
		p := problem.OverLimit(name, int64(most), int64(len(s)))
		p.Code = api.BadRequest // the limit of a member, not of the request
		return p
	}
	*dst = s
	return nil
}

func (t *eventText) occurredAt() *api.Problem {
	if t.peek() == 'n' {
		return t.once(memberOccurredAt, givenOccurredAt, t.null)
	}
	var text []byte
	if p := t.name(memberOccurredAt, givenOccurredAt, 64, &text); p != nil {
		return p
	}
	if _, err := input.Time(text); err != nil {
		return problem.BadField(memberOccurredAt, "%v", err)
	}
	return nil
}

// string reads a string and returns its value: part of the text, or a copy if it has escapes.
func (t *eventText) string() ([]byte, error) {
	start := t.i
	escaped := t.raw()
	s := t.b[start:t.i]
	if !escaped {
		return s[1 : len(s)-1 : len(s)-1], nil
	}
	own := jsonText{b: bytes.Clone(s)}
	return own.text()
}

// raw skips a string that was checked and reports whether it has escapes.
func (t *eventText) raw() (escaped bool) {
	for t.i++; t.b[t.i] != '"'; t.i++ {
		if t.b[t.i] == '\\' {
			escaped = true
			t.i++
		}
	}
	t.i++
	return escaped
}

// compact removes white space between tokens of valid JSON, in place.
func compact(b []byte) []byte {
	to, quoted := 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted && c == '\\':
			b[to] = c
			to++
			i++
			c = b[i]
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			continue
		}
		b[to] = c
		to++
	}
	return b[:to]
}
