package httpapi

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/sebbroker/seb/record"
)

// valueSink collects values for a multipart answer: their lengths as JSON, and where they are.
type valueSink struct {
	sizes segments
	refs  [][]byte
	sum   int64
	arena segments // of copies of values that will not stay where they are
}

func (v *valueSink) values() bool { return true }

// refSize is what a place in refs takes, with what is left behind when refs grows.
const refSize = 48

func (v *valueSink) take(s *answer, rec *record.Record, volatile bool) error {
	value := rec.Value
	if len(v.refs) == cap(v.refs) {
		n := max(64, 2*cap(v.refs))
		if err := s.need(int64(n) * refSize); err != nil {
			return err
		}
		s.slack -= int64(n-cap(v.refs)) * refSize
		v.refs = append(make([][]byte, 0, n), v.refs...)
	}
	if volatile {
		place, err := v.arena.room(s, len(value))
		if err != nil {
			return err
		}
		value = append(place, value...)
		v.arena.grow(len(value))
	}
	place, err := v.sizes.room(s, 12)
	if err != nil {
		return err
	}
	start := len(place)
	if len(v.refs) > 0 {
		place = append(place, ',')
	}
	v.sizes.grow(len(strconv.AppendInt(place, int64(len(value)), 10)) - start)
	v.refs = append(v.refs, value)
	v.sum += int64(len(value))
	return nil
}

// textSink collects records as JSON, each between before and after.
type textSink struct {
	out    segments
	form   textForm
	number int
}

// textForm is how records in JSON are strung together.
type textForm struct {
	open, between, after, end string
	id                        bool // an event-stream id line before each
}

var (
	formArray  = textForm{open: "[", between: ",\n", end: "]\n"}
	formLines  = textForm{after: "\n"}
	formEvents = textForm{after: "\n\n", id: true}
)

// textExtra is more than the form and an id add to a record.
const textExtra = 64

func (t *textSink) values() bool { return false }

func (t *textSink) take(s *answer, rec *record.Record, _ bool) error {
	n := recordJSONMax(rec)
	if n > segmentSize-textExtra {
		n = recordJSONLen(rec) // a large one is looked at twice rather than given six times its memory
	}
	b, err := t.out.room(s, n+textExtra)
	if err != nil {
		return err
	}
	start := len(b)
	if t.number == 0 {
		b = append(b, t.form.open...)
	} else {
		b = append(b, t.form.between...)
	}
	if t.form.id {
		b = append(b, "id: "...)
		b = strconv.AppendInt(b, rec.Offset, 10)
		b = append(b, "\ndata: "...)
	}
	b = appendRecordJSON(b, rec)
	b = append(b, t.form.after...)
	t.out.grow(len(b) - start)
	t.number++
	return nil
}

// finish adds what the form ends with.
func (t *textSink) finish(s *answer) error {
	b, err := t.out.room(s, textExtra)
	if err != nil {
		return err
	}
	start := len(b)
	if t.number == 0 {
		b = append(b, t.form.open...)
	}
	t.out.grow(len(append(b, t.form.end...)) - start)
	return nil
}

// recordJSONLen is at least what appendRecordJSON appends, and close to it.
func recordJSONLen(r *record.Record) int {
	n := recordJSONMax(&record.Record{}) + jsonLen(r.Key) + jsonLen(r.Value)
	for i := range r.Headers {
		n += 40 + 6*len(r.Headers[i].Key) + jsonLen(r.Headers[i].Value)
	}
	return n
}

func jsonLen(v []byte) int {
	if !utf8.Valid(v) {
		return base64.StdEncoding.EncodedLen(len(v))
	}
	n := len(v)
	for _, c := range v {
		if c < 0x20 {
			n += 5
		} else if c == '"' || c == '\\' {
			n++
		}
	}
	return n
}

// segments is bytes collected in buffers of an answer.
type segments struct {
	list [][]byte
	size int64
}

const segmentSize = 64 << 10

// room returns the end of the last segment, with capacity for n more bytes. Append to it and call grow.
func (g *segments) room(s *answer, n int) ([]byte, error) {
	if last := len(g.list) - 1; last >= 0 && cap(g.list[last])-len(g.list[last]) >= n {
		return g.list[last][len(g.list[last]):], nil
	}
	size := max(n, segmentSize)
	if len(g.list) == 0 {
		size = max(n, 1<<10) // many answers are small
	}
	b, err := s.get(size)
	if err != nil {
		return nil, err
	}
	g.list = append(g.list, b[:0])
	return b[:0], nil
}

// grow says that n bytes were appended to what room returned.
func (g *segments) grow(n int) {
	last := len(g.list) - 1
	g.list[last] = g.list[last][:len(g.list[last])+n]
	g.size += int64(n)
}

// write sends the segments.
func (g *segments) write(a *API, w http.ResponseWriter) error {
	for _, b := range g.list {
		if err := a.send(w, b); err != nil {
			return err
		}
	}
	return nil
}
