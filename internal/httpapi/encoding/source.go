package encoding

import (
	"bytes"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/record"
)

// Source gives the records of a body that is in memory, one after another: nil at the end. A record is valid until the
// next call; the bytes it points to as long as the body, which a source may change.
type Source interface {
	// Next returns the next record, nil after the last, or what is wrong with it; then there is no going on.
	Next() (*record.Record, *api.Problem)
}

// Lines gives a record for each line of text/plain. A line ends with LF or CRLF, which are not part of it; the last
// needs no end. An empty line is an empty record.
type Lines struct {
	rest []byte
	rec  record.Record
}

// NewLines reads body; now is the timestamp of the records, in ms.
func NewLines(body []byte, now int64) *Lines {
	return &Lines{rest: body, rec: record.Record{Timestamp: now}}
}

// Next is part of Source.
func (s *Lines) Next() (*record.Record, *api.Problem) {
	if len(s.rest) == 0 {
		return nil, nil
	}
	line, rest, _ := bytes.Cut(s.rest, []byte("\n"))
	s.rest = rest
	s.rec.Value = bytes.TrimSuffix(line, []byte("\r"))
	return &s.rec, nil
}

// NDJSON gives a record for each line that is not blank: an object, as application/x-ndjson has it.
type NDJSON struct {
	text recordText
	rest []byte
}

// NewNDJSON reads body; now is the timestamp of records without one, in ms.
func NewNDJSON(body []byte, now int64) *NDJSON {
	return &NDJSON{rest: body, text: recordText{now: now}}
}

// Next is part of Source.
func (s *NDJSON) Next() (*record.Record, *api.Problem) {
	for len(s.rest) > 0 {
		line, rest, _ := bytes.Cut(s.rest, []byte("\n"))
		s.rest = rest
		s.text.jsonText = jsonText{b: line}
		if s.text.peek() == 0 && s.text.i == len(line) {
			continue
		}
		rec, p := s.text.next()
		if p != nil {
			return nil, p
		}
		if s.text.skip(); s.text.i < len(line) {
			return nil, problem.BadField("body", "%v", s.text.unexpected("the end of the line"))
		}
		return rec, nil
	}
	return nil, nil
}

// JSON gives the record of application/json: an object, each of an array of objects, or each of {"records": [...]}, which is for
// clients that can send nothing but an object.
type JSON struct {
	text    recordText
	state   jsonState
	wrapped bool // the array is in an object
}

type jsonState uint8

const (
	jsonStart jsonState = iota
	jsonInArray
	jsonEnd
)

// NewJSON reads body; now is the timestamp of records without one, in ms.
func NewJSON(body []byte, now int64) *JSON {
	return &JSON{text: recordText{jsonText: jsonText{b: body}, now: now}}
}

// Next is part of Source.
func (s *JSON) Next() (*record.Record, *api.Problem) {
	t := &s.text
	switch s.state {
	case jsonStart:
		if s.wrapped = t.wraps(); t.peek() == '{' {
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

// wraps takes the beginning of an object with an array of records, if that is what comes.
func (t *recordText) wraps() bool {
	at := t.i
	if t.take('{') && t.peek() == '"' && bytes.HasPrefix(t.b[t.i:], wrapper) {
		if t.i += len(wrapper); t.take(':') {
			return true
		}
	}
	t.i = at
	return false
}

var wrapper = []byte(`"records"`)

// Batches gives the records of concatenated batches that were made here, one after another in offset.
type Batches struct{ r record.Reader }

// NewBatches reads data.
func NewBatches(data []byte) *Batches {
	s := &Batches{}
	s.r.Reset(data, 0)
	return s
}

// Next is part of Source.
func (s *Batches) Next() (*record.Record, *api.Problem) {
	if s.r.Next() {
		return s.r.Record(), nil
	}
	if err := s.r.Err(); err != nil {
		return nil, problem.New(api.Internal, "read own batches: %v", err)
	}
	return nil, nil
}

// One gives a single record.
type One struct {
	Record record.Record
	done   bool
}

// Next is part of Source.
func (s *One) Next() (*record.Record, *api.Problem) {
	if s.done {
		return nil, nil
	}
	s.done = true
	return &s.Record, nil
}
