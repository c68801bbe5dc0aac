package encoding

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// The members of a record in JSON.
const (
	memberKey         = "key"
	memberKeyBase64   = "key_base64"
	memberValue       = "value"
	memberValueBase64 = "value_base64"
	memberHeaders     = "headers"
	memberTimestamp   = "timestamp"
)

// recordText reads records in JSON. It modifies its buffer, and its results alias it.
type recordText struct {
	jsonText
	now int64 // the timestamp of records without one, in ms
	// answered: a record may have the members that only answers have. They are ignored.
	answered bool
	names    []string // of further members: at most five
	texts    []string // of these

	rec     record.Record
	given   uint16 // bit per member, to detect repeated members
	headers []record.Header
}

const (
	givenKey uint16 = 1 << iota
	givenValue
	givenHeaders
	givenTimestamp
	givenFurther // the first of the further members
)

// next reads one object. The record is valid until the next call, and its bytes as long as the
// buffer.
func (t *recordText) next() (*record.Record, *api.Problem) {
	t.rec, t.given, t.headers = record.Record{Timestamp: t.now}, 0, t.headers[:0]
	clear(t.texts)
	if p := t.members(t.member); p != nil {
		return nil, p
	}
	if t.given&givenValue == 0 {
		return nil, problem.BadField(memberValue, "missing; give value or value_base64 (null makes a tombstone)")
	}
	if len(t.headers) > 0 {
		t.rec.Headers = t.headers
	}
	return &t.rec, nil
}

func (t *recordText) member(name []byte) *api.Problem {
	switch string(name) {
	case memberKey:
		return t.bytes(memberKey, givenKey, &t.rec.Key, false)
	case memberKeyBase64:
		return t.bytes(memberKeyBase64, givenKey, &t.rec.Key, true)
	case memberValue:
		return t.bytes(memberValue, givenValue, &t.rec.Value, false)
	case memberValueBase64:
		return t.bytes(memberValueBase64, givenValue, &t.rec.Value, true)
	case memberHeaders:
		if p := t.once(memberHeaders, givenHeaders); p != nil {
			return p
		}
		return t.headerList()
	case memberTimestamp:
		return t.timestamp()
	case "partition", "offset":
		if t.answered {
			if _, err := t.integer(); err != nil {
				return problem.BadField(string(name), "%v", err)
			}
			return nil
		}
	}
	if i := slices.Index(t.names, string(name)); i >= 0 {
		return t.further(i)
	}
	return problem.BadField(problem.Quote(string(name)), "unknown member of a record")
}

// further reads a further member: a string, a whole number or null.
func (t *recordText) further(i int) *api.Problem {
	if p := t.once(t.names[i], givenFurther<<i); p != nil || t.null() {
		return p
	}
	if t.peek() == '"' {
		text, err := t.text()
		if t.texts[i] = string(text); err != nil {
			return problem.BadField(t.names[i], "%v", err)
		}
		return nil
	}
	n, err := t.integer()
	if t.texts[i] = strconv.FormatInt(n, 10); err != nil {
		return problem.BadField(t.names[i], "want a string or a whole number: %v", err)
	}
	return nil
}

func (t *recordText) once(name string, bit uint16) *api.Problem {
	if t.given&bit != 0 {
		return problem.BadField(name, "given twice, or together with its other encoding")
	}
	t.given |= bit
	return nil
}

// bytes reads a key or value: a string, or null.
func (t *recordText) bytes(name string, bit uint16, dst *[]byte, coded bool) *api.Problem {
	if p := t.once(name, bit); p != nil {
		return p
	}
	return t.nullable(name, dst, coded)
}

func (t *recordText) nullable(name string, dst *[]byte, coded bool) *api.Problem {
	if t.null() {
		*dst = nil
		return nil
	}
	s, err := t.text()
	if err == nil && coded {
		var n int
		n, err = base64.StdEncoding.Decode(s, s) // each group is read before it is overwritten
		s = s[:n]
	}
	if err != nil {
		return problem.BadField(name, "%v", err)
	}
	*dst = s
	return nil
}

// headerList reads {"name":"value"} or [{"key":"name","value":"value"}]. The second form can repeat
// names.
func (t *recordText) headerList() *api.Problem {
	switch t.peek() {
	case '{':
		return t.members(func(name []byte) *api.Problem {
			h := record.Header{Key: t.headerKey(name)}
			if p := t.nullable(memberHeaders, &h.Value, false); p != nil {
				return p
			}
			return t.addHeader(h)
		})
	case '[':
		t.i++
		if t.take(']') {
			return nil
		}
		for {
			if p := t.header(); p != nil {
				return p
			}
			if t.take(']') {
				return nil
			}
			if err := t.expect(','); err != nil {
				return problem.BadField(memberHeaders, "%v", err)
			}
		}
	}
	if t.null() {
		return nil
	}
	return problem.BadField(memberHeaders, "%v", t.unexpected("an object or an array"))
}

func (t *recordText) header() *api.Problem {
	var h record.Header
	keys, values := 0, 0
	p := t.members(func(name []byte) *api.Problem {
		switch string(name) {
		case memberKey:
			keys++
			var key []byte
			p := t.nullable(memberHeaders, &key, false)
			if p == nil && key == nil {
				p = problem.BadField(memberHeaders, "a header's key must not be null")
			}
			h.Key = t.headerKey(key)
			return p
		case memberValue, memberValueBase64:
			var value []byte
			p := t.nullable(memberHeaders, &value, string(name) == memberValueBase64)
			if value != nil { // a null beside the other member says nothing
				h.Value = value
				values++
			}
			return p
		}
		return problem.BadField(problem.Quote(string(name)), "unknown member of a header")
	})
	if p != nil {
		return p
	}
	if keys != 1 || values > 1 {
		return problem.BadField(memberHeaders, "a header has one key and one value")
	}
	return t.addHeader(h)
}

// headerKey returns string(key) for the next header. Records often share headers, so it first tries
// the string of the previous record, which needs no allocation.
func (t *recordText) headerKey(key []byte) string {
	if i := len(t.headers); i < cap(t.headers) && t.headers[:i+1][i].Key == string(key) {
		return t.headers[:i+1][i].Key
	}
	return string(key)
}

func (t *recordText) addHeader(h record.Header) *api.Problem {
	if len(t.headers) == record.HeadersMax {
		return problem.BadField(memberHeaders, "more than %d", record.HeadersMax)
	}
	t.headers = append(t.headers, h)
	return nil
}

// timestamp reads milliseconds since 1970 or RFC 3339.
func (t *recordText) timestamp() *api.Problem {
	if p := t.once(memberTimestamp, givenTimestamp); p != nil {
		return p
	}
	if t.null() {
		return nil
	}
	var ms int64
	if t.peek() == '"' {
		s, err := t.text()
		if err != nil {
			return problem.BadField(memberTimestamp, "%v", err)
		}
		at, err := input.Time(s)
		if err != nil {
			return problem.BadField(memberTimestamp, "want milliseconds or RFC 3339, given %s", problem.Quote(string(s)))
		}
		ms = at.UnixMilli()
	} else {
		var err error
		if ms, err = t.integer(); err != nil {
			return problem.BadField(memberTimestamp, "%v", err)
		}
	}
	if ms < 0 || ms > math.MaxInt64/1_000_000 {
		return problem.BadField(memberTimestamp, "%d is not between 1970 and 2262 in milliseconds", ms)
	}
	t.rec.Timestamp = ms
	return nil
}
