package encoding

import (
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// LineKind is what a line of an atomic request is. Zero is invalid.
type LineKind uint8

// The kinds of lines, by the member that all lines of a kind have.
const (
	RecordLine  LineKind = iota + 1 // topic
	MessageLine                     // queue
	EventLine                       // event
)

// The members of lines that name their target.
const (
	memberTopic     = "topic"
	memberQueue     = "queue"
	memberPartition = "partition"
)

var recordNames = []string{memberTopic, memberPartition}

// Atomic is a Source of the lines of an atomic request: records and messages that name their target, and
// events.
type Atomic struct {
	Kind LineKind // of the last line

	text     recordText
	event    eventText
	messages []string // further members of messages
	rest     []byte
	fault    *api.Problem // of the encoding
}

// NewAtomic reads body; now is the timestamp of records without one, in milliseconds. Messages may have the
// members attributes, as in NewMessages.
func NewAtomic(body []byte, now int64, attributes []string) *Atomic {
	rest, fault := unmarked(body)
	s := &Atomic{rest: rest, fault: fault, text: recordText{now: now}, messages: append([]string{memberQueue}, attributes...)}
	s.text.texts = make([]string, max(len(s.messages), len(recordNames)))
	return s
}

// Next implements Source. The record of an event is that of EventBody.
func (s *Atomic) Next() (*record.Record, *api.Problem) {
	for len(s.rest) > 0 {
		var line []byte
		line, s.rest = input.CutLine(s.rest)
		s.event = eventText{jsonText: jsonText{b: line}}
		if s.event.peek() == 0 && s.event.i == len(line) {
			continue
		}
		var p *api.Problem
		if s.Kind, p = s.event.lineKind(); p != nil {
			return nil, p
		}
		s.text.jsonText = jsonText{b: line}
		switch s.Kind {
		case RecordLine:
			s.text.names = recordNames
		case MessageLine:
			s.text.names = s.messages
		case EventLine:
			s.event = eventText{jsonText: jsonText{b: line}}
			if p := s.event.read(); p != nil {
				return nil, p
			}
			s.text.rec = record.Record{Timestamp: s.text.now, Key: s.event.event.Entity, Value: s.event.event.Text}
			return &s.text.rec, nil
		}
		return s.text.only()
	}
	return nil, s.fault
}

// Target returns the topic or the queue of the last line, if that is no event.
func (s *Atomic) Target() string { return s.text.texts[0] }

// Partition returns the text of the partition of the last line, which is a record; "": it has none.
func (s *Atomic) Partition() string { return s.text.texts[1] }

// Attribute returns the text of an attribute of the last line, which is a message; "": it has none.
func (s *Atomic) Attribute(i int) string { return s.text.texts[1+i] }

// lineKind returns the kind of a line. It does not change the text.
func (t *eventText) lineKind() (kind LineKind, p *api.Problem) {
	if t.peek() != '{' {
		return 0, problem.BadField("body", "%v", t.unexpected("an object"))
	}
	start := t.i
	if p := t.value(1); p != nil {
		return 0, p
	}
	for t.i = start + 1; !t.take('}'); {
		t.take(',')
		t.skip()
		name, err := t.string()
		if err != nil {
			return 0, problem.BadField("body", "%v", err)
		}
		t.take(':')
		named := LineKind(0)
		switch string(name) {
		case memberTopic:
			named = RecordLine
		case memberQueue:
			named = MessageLine
		case memberEvent:
			named = EventLine
		}
		switch {
		case named != 0 && kind != 0:
			return 0, problem.BadField(string(name), "a line has only one of %s, %s and %s, once", memberTopic, memberQueue, memberEvent)
		case named != 0 && t.peek() != '"':
			return 0, problem.BadField(string(name), "want a string")
		case named != 0:
			kind = named
		}
		t.value(1)
	}
	if kind == 0 {
		return 0, problem.BadField("body", "a line without %s (a record), %s (a message) or %s", memberTopic, memberQueue, memberEvent)
	}
	return kind, nil
}
