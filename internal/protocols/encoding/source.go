// Package encoding implements the encodings of records in HTTP bodies: multipart with a list of
// sizes, JSON, and lines of text. It converts bodies to batches and batches to bodies, in memory
// that was reserved before (budget.Arena). It knows neither HTTP nor the broker. Faults are
// problems of package api that name the member or part.
package encoding

import (
	"bytes"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// Source returns the records of a body in memory. A record is valid until the next call. Its bytes
// are valid as long as the body, which a source may modify.
type Source interface {
	// Next returns the next record, nil after the last, or a problem. After a problem do not call
	// it again.
	Next() (*record.Record, *api.Problem)
}

// Lines is a Source of the lines of text/plain. A line ends with LF or CRLF, which are not part of
// it; the last needs no end. An empty line is an empty record.
type Lines struct {
	rest  []byte
	fault *api.Problem // of the encoding
	rec   record.Record
}

// unmarked returns a body without a byte order mark, or the problem of its encoding.
func unmarked(body []byte) ([]byte, *api.Problem) {
	text, err := input.Unmarked(body)
	if err != nil {
		return nil, problem.BadField("body", "%v", err)
	}
	return text, nil
}

// NewLines reads body; now is the timestamp of the records in milliseconds.
func NewLines(body []byte, now int64) *Lines {
	_, fault := unmarked(body) // a mark of UTF-8 is part of the first record
	return &Lines{rest: body, fault: fault, rec: record.Record{Timestamp: now}}
}

// Next implements Source.
func (s *Lines) Next() (*record.Record, *api.Problem) {
	if s.fault != nil || len(s.rest) == 0 {
		return nil, s.fault
	}
	s.rec.Value, s.rest = input.CutLine(s.rest)
	return &s.rec, nil
}

// NDJSON is a Source of the objects of application/x-ndjson: one on each line that is not blank.
type NDJSON struct {
	text  recordText
	rest  []byte
	fault *api.Problem // of the encoding
}

// NewNDJSON reads body; now is the timestamp of records without one, in milliseconds.
func NewNDJSON(body []byte, now int64) *NDJSON {
	rest, fault := unmarked(body)
	return &NDJSON{rest: rest, fault: fault, text: recordText{now: now}}
}

// Next implements Source.
func (s *NDJSON) Next() (*record.Record, *api.Problem) {
	for len(s.rest) > 0 {
		var line []byte
		line, s.rest = input.CutLine(s.rest)
		s.text.jsonText = jsonText{b: line}
		if s.text.peek() == 0 && s.text.i == len(line) {
			continue
		}
		return s.text.only()
	}
	return nil, s.fault
}

// only reads the one object of a line.
func (t *recordText) only() (*record.Record, *api.Problem) {
	rec, p := t.next()
	if p != nil {
		return nil, p
	}
	if t.skip(); t.i < len(t.b) {
		return nil, problem.BadField("body", "%v", t.unexpected("the end of the line"))
	}
	return rec, nil
}

// ParseRecord parses the JSON of a record. It may also be a record as answers have it: its partition
// and its offset are ignored. A record without a timestamp has 0. The record is part of line, which is
// changed.
func ParseRecord(line []byte) (*record.Record, *api.Problem) {
	t := recordText{jsonText: jsonText{b: line}, answered: true}
	return t.only()
}

// JSON is a Source of application/json: an object, an array of objects, or {"records": [...]}, for
// clients that can send only an object.
type JSON struct {
	text    recordText
	state   jsonState
	wrapper []byte       // name of the array in an object, in quotes
	wrapped bool         // the array is in an object
	fault   *api.Problem // of the encoding
}

type jsonState uint8

const (
	jsonStart jsonState = iota
	jsonInArray
	jsonEnd
)

// NewJSON reads body; now is the timestamp of records without one, in milliseconds.
func NewJSON(body []byte, now int64) *JSON {
	text, fault := unmarked(body)
	return &JSON{text: recordText{jsonText: jsonText{b: text}, now: now}, fault: fault, wrapper: recordsName}
}

// Next implements Source.
func (s *JSON) Next() (*record.Record, *api.Problem) {
	t := &s.text
	if s.fault != nil {
		return nil, s.fault
	}
	switch s.state {
	case jsonStart:
		if s.wrapped = t.wraps(s.wrapper); t.peek() == '{' {
			s.state = jsonEnd
			return t.next()
		}
		if err := t.expect('['); err != nil {
			return nil, problem.BadField("body", "want an object or an array of objects: %v", err)
		}
		s.state = jsonInArray
		if t.peek() != ']' {
			return t.next()
		}
		fallthrough
	case jsonInArray:
		if t.take(',') {
			return t.next()
		}
		if err := t.expect(']'); err != nil {
			return nil, problem.BadField("body", "%v", err)
		}
		if s.state = jsonEnd; s.wrapped {
			if err := t.expect('}'); err != nil {
				return nil, problem.BadField("body", "%v", err)
			}
		}
	}
	if t.skip(); t.i < len(t.b) {
		return nil, problem.BadField("body", "%v", t.unexpected("the end of the body"))
	}
	return nil, nil
}

// wraps consumes the start of an object with an array of records, if it is next.
func (t *recordText) wraps(wrapper []byte) bool {
	at := t.i
	if t.take('{') && t.peek() == '"' && bytes.HasPrefix(t.b[t.i:], wrapper) {
		if t.i += len(wrapper); t.take(':') {
			return true
		}
	}
	t.i = at
	return false
}

var recordsName, messagesName = []byte(`"records"`), []byte(`"messages"`)

// Messages is a Source of the messages of a queue: records with further members.
type Messages struct {
	Source
	text *recordText
}

// NewMessages reads a body in NDJSON or JSON, in which an object may have the array "messages". Messages may
// have the members names, at most five, whose values are strings, whole numbers or null.
func NewMessages(body []byte, now int64, lines bool, names []string) *Messages {
	m := &Messages{}
	if lines {
		s := NewNDJSON(body, now)
		m.Source, m.text = s, &s.text
	} else {
		s := NewJSON(body, now)
		s.wrapper = messagesName
		m.Source, m.text = s, &s.text
	}
	m.text.names, m.text.texts = names, make([]string, len(names))
	return m
}

// Attribute returns the text of a further member of the last message; "": it has none.
func (m *Messages) Attribute(i int) string { return m.text.texts[i] }

// Batches is a Source of concatenated batches with consecutive offsets that this broker encoded.
type Batches struct{ r record.Reader }

// NewBatches reads data.
func NewBatches(data []byte) *Batches {
	s := &Batches{}
	s.r.Reset(data, 0)
	return s
}

// Next implements Source.
func (s *Batches) Next() (*record.Record, *api.Problem) {
	if s.r.Next() {
		return s.r.Record(), nil
	}
	if err := s.r.Err(); err != nil {
		return nil, problem.New(api.Internal, "read own batches: %v", err)
	}
	return nil, nil
}

// One is a Source of a single record.
type One struct {
	Record record.Record
	done   bool
}

// Next implements Source.
func (s *One) Next() (*record.Record, *api.Problem) {
	if s.done {
		return nil, nil
	}
	s.done = true
	return &s.Record, nil
}
