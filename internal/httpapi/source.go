package httpapi

import (
	"bytes"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/record"
)

// source gives the records of a body that is in memory, one after another: nil at the end. A record is valid until the
// next call; the bytes it points to as long as the body, which a source may change.
type source interface {
	next() (*record.Record, *api.Problem)
}

// lineSource gives a record for each line of text/plain. A line ends with LF or CRLF, which are not part of it; the last
// needs no end. An empty line is an empty record.
type lineSource struct {
	rest []byte
	rec  record.Record
}

func newLineSource(body []byte, now int64) *lineSource {
	return &lineSource{rest: body, rec: record.Record{Timestamp: now}}
}

func (s *lineSource) next() (*record.Record, *api.Problem) {
	if len(s.rest) == 0 {
		return nil, nil
	}
	line, rest, _ := bytes.Cut(s.rest, []byte("\n"))
	s.rest = rest
	s.rec.Value = bytes.TrimSuffix(line, []byte("\r"))
	return &s.rec, nil
}

// ndjsonSource gives a record for each line that is not blank: an object, as application/x-ndjson has it.
type ndjsonSource struct {
	text recordText
	rest []byte
}

func newNDJSONSource(body []byte, now int64) *ndjsonSource {
	return &ndjsonSource{rest: body, text: recordText{now: now}}
}

func (s *ndjsonSource) next() (*record.Record, *api.Problem) {
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
			return nil, badField("body", "%v", s.text.unexpected("the end of the line"))
		}
		return rec, nil
	}
	return nil, nil
}

// jsonSource gives the record of application/json: an object, or each of an array of objects.
type jsonSource struct {
	text  recordText
	state jsonState
}

type jsonState uint8

const (
	jsonStart jsonState = iota
	jsonInArray
	jsonEnd
)

func newJSONSource(body []byte, now int64) *jsonSource {
	return &jsonSource{text: recordText{jsonText: jsonText{b: body}, now: now}}
}

func (s *jsonSource) next() (*record.Record, *api.Problem) {
	t := &s.text
	switch s.state {
	case jsonStart:
		if t.peek() == '{' {
			s.state = jsonEnd
			return t.next()
		}
		if err := t.expect('['); err != nil {
			return nil, badField("body", "want an object or an array of objects: %v", err)
		}
		s.state = jsonInArray
		if t.take(']') {
			s.state = jsonEnd
			return s.next()
		}
		return t.next()
	case jsonInArray:
		if t.take(',') {
			return t.next()
		}
		if err := t.expect(']'); err != nil {
			return nil, badField("body", "%v", err)
		}
		s.state = jsonEnd
	}
	if t.skip(); t.i < len(t.b) {
		return nil, badField("body", "%v", t.unexpected("the end of the body"))
	}
	return nil, nil
}
