package encoding

import (
	"encoding/base64"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
)

// Sink collects records in the encoding of an answer.
type Sink interface {
	// ValuesOnly reports that the sink uses only values and offsets.
	ValuesOnly() bool
	// Take adds a record. With an error, usually lack of memory, it has not added it. The record's
	// bytes are valid as long as the answer, or only during the call if volatile.
	Take(m *budget.Arena, rec *record.Record, volatile bool) error
}

// ErrFull is returned by Take for records beyond the collection's own limit.
var ErrFull = errors.New("no more fits into the answer")

// Values collects values for a multipart answer. The zero value is empty.
type Values struct {
	Sizes Segments // lengths in JSON, separated by commas, without brackets
	Refs  [][]byte // the values in order; consecutive copies are joined
	Count int      // of values
	Sum   int64    // of their lengths
	// SizesMax, if not 0, bounds the JSON array of the lengths including brackets; beyond it Take
	// returns ErrFull. The first value is always added.
	SizesMax int64

	arena  Segments // copies of volatile values
	joined bool     // the last of Refs is the end of arena
}

// ValuesOnly implements Sink.
func (v *Values) ValuesOnly() bool { return true }

const (
	refSize  = 24
	refsMin  = 64
	sizeText = 12 // more than a length and a comma
)

// Take implements Sink.
func (v *Values) Take(m *budget.Arena, rec *record.Record, volatile bool) error {
	value := rec.Value
	if v.SizesMax > 0 && v.Count > 0 && v.Sizes.Size+int64(len("[,]")+digits(len(value))) > v.SizesMax {
		return ErrFull
	}
	text, err := v.Sizes.room(m, sizeText)
	if err != nil {
		return err
	}
	if volatile {
		err = v.copy(m, value)
	} else {
		err = v.ref(m, value)
	}
	if err != nil {
		return err
	}
	if v.Count > 0 {
		text = append(text, ',')
	}
	v.Sizes.grow(len(strconv.AppendInt(text, int64(len(value)), 10)))
	v.Count++
	v.Sum += int64(len(value))
	return nil
}

// copy adds a copy of a value. It extends the last of Refs if the copy is directly behind it.
func (v *Values) copy(m *budget.Arena, value []byte) error {
	segments := len(v.arena.List)
	place, err := v.arena.room(m, len(value))
	if err != nil {
		return err
	}
	place = append(place, value...)
	if v.joined && len(v.arena.List) == segments {
		last := &v.Refs[len(v.Refs)-1]
		*last = (*last)[:len(*last)+len(value)]
	} else if err := v.ref(m, place); err != nil {
		return err
	}
	v.arena.grow(len(value))
	v.joined = true
	return nil
}

// ref adds a value without copying it.
func (v *Values) ref(m *budget.Arena, value []byte) error {
	if len(v.Refs) == cap(v.Refs) {
		n := max(refsMin, 2*cap(v.Refs))
		// The old slice stays counted until the collection is released.
		if err := m.Hold(int64(n) * refSize); err != nil {
			return err
		}
		v.Refs = append(make([][]byte, 0, n), v.Refs...)
	}
	v.Refs = append(v.Refs, value)
	v.joined = false
	return nil
}

// digits returns the number of digits of n >= 0.
func digits(n int) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// Text collects records in JSON. Set Form; otherwise the zero value is empty.
type Text struct {
	Form TextForm
	Out  Segments
	// Partition is the partition of the next records, for encodings that include it.
	Partition int32
	// Next is the start of the next page, for Page; "" at the end. Set it before Finish.
	Next string
	// ID is the event ID of the next record, for TopicEvents.
	ID []byte
	// ValueMax, if not 0, is the length to which longer values are cut.
	ValueMax int

	number int
	short  record.Record // a record with a cut value
	cut    cutValue      // of short
}

// TextForm is a JSON encoding of several records, such as Array, EachLine or Events.
type TextForm struct {
	open, between, after, end string
	id                        bool // an event-stream id line before each record
	placed                    bool // the partition is the first member of each record
	paged                     bool // Next is written before the end
}

// The encodings of Text.
var (
	Array    = TextForm{open: "[", between: ",\n", end: "]\n"} // application/json
	EachLine = TextForm{after: "\n"}                           // application/x-ndjson
	Events   = TextForm{after: "\n\n", id: true}               // text/event-stream
	// TopicEvents is text/event-stream with the records of several partitions.
	TopicEvents = TextForm{after: "\n\n", id: true, placed: true}
	Single      = TextForm{after: "\n", placed: true} // application/json, one record
	Page        = TextForm{open: `{"records":[`, between: ",\n", end: "}\n", placed: true, paged: true}
)

// textExtra bounds the bytes that the encoding, an id, a partition and the length of a whole value
// add to a record.
const textExtra = 96

// ValuesOnly implements Sink.
func (t *Text) ValuesOnly() bool { return false }

// Take implements Sink.
func (t *Text) Take(m *budget.Arena, rec *record.Record, _ bool) error {
	rec, cut := t.cutOf(rec)
	n := recordJSONMax(rec)
	if n > segmentSize-textExtra {
		// A large record is measured exactly instead of reserving six times its size.
		if n = recordJSONLen(rec); cut != nil && !cut.text {
			n += base64.StdEncoding.EncodedLen(len(rec.Value)) // the part alone may be valid UTF-8
		}
	}
	b, err := t.Out.room(m, n+textExtra+len(t.ID))
	if err != nil {
		return err
	}
	if t.number == 0 {
		b = append(b, t.Form.open...)
	} else {
		b = append(b, t.Form.between...)
	}
	if t.Form.id {
		b = append(b, "id: "...)
		if t.ID != nil {
			b = append(b, t.ID...)
		} else {
			b = strconv.AppendInt(b, rec.Offset, 10)
		}
		b = append(b, "\ndata: "...)
	}
	if t.Form.placed {
		b = append(b, `{"partition":`...)
		b = append(strconv.AppendInt(b, int64(t.Partition), 10), ',')
		b = appendMembers(b, rec, cut)
	} else {
		b = appendRecordJSON(b, rec, cut)
	}
	t.Out.grow(len(append(b, t.Form.after...)))
	t.number++
	return nil
}

// cutOf returns a record with its value cut to ValueMax; cut is nil if the value is whole.
func (t *Text) cutOf(rec *record.Record) (short *record.Record, cut *cutValue) {
	if t.ValueMax <= 0 || len(rec.Value) <= t.ValueMax {
		return rec, nil
	}
	t.short = *rec
	n, text := ValueCut(rec.Value, t.ValueMax)
	t.short.Value, t.cut = rec.Value[:n], cutValue{whole: len(rec.Value), text: text}
	return &t.short, &t.cut
}

// Finish adds the end of the encoding after the last record.
func (t *Text) Finish(m *budget.Arena) error {
	b, err := t.Out.room(m, textExtra+6*len(t.Next))
	if err != nil {
		return err
	}
	if t.number == 0 {
		b = append(b, t.Form.open...)
	}
	if t.Form.paged {
		b = append(b, ']')
		if t.Next != "" {
			b = AppendString(append(b, `,"next":`...), t.Next)
		}
	}
	t.Out.grow(len(append(b, t.Form.end...)))
	return nil
}

// recordJSONLen is a close upper bound of the output of appendRecordJSON.
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

// Segments holds bytes in buffers of an Arena. They are valid as long as those.
type Segments struct {
	List [][]byte
	Size int64 // sum of all segments
}

const (
	// segmentSize is the usual size of a segment.
	segmentSize = 64 << 10
	// segmentMax is the size of segments after the first two: an answer of 1 MiB takes six writes
	// to the connection.
	segmentMax = 256 << 10
)

// room returns an empty slice at the end of the last segment with capacity for at least n bytes.
// Append to it and call grow.
func (g *Segments) room(m *budget.Arena, n int) ([]byte, error) {
	if last := len(g.List) - 1; last >= 0 && cap(g.List[last])-len(g.List[last]) >= n {
		return g.List[last][len(g.List[last]):], nil
	}
	size := max(n, segmentSize)
	if g.Size >= 2*segmentSize {
		size = max(n, segmentMax)
	}
	if len(g.List) == 0 {
		size = max(n, 1<<10) // many answers are small
	}
	b, err := m.Get(size)
	if err != nil {
		return nil, err
	}
	g.List = append(g.List, b[:0])
	return b[:0], nil
}

// grow records that n bytes were appended to the result of room.
func (g *Segments) grow(n int) {
	last := len(g.List) - 1
	g.List[last] = g.List[last][:len(g.List[last])+n]
	g.Size += int64(n)
}
