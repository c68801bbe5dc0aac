package riemann

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/protocols/encoding"
)

// unnamed is the service or host of an event without one, because an event of Seb has both. The data
// of such an event has the member "service" or "host", as does that of an event whose service or
// host is too long for an event, and is cut.
var unnamed = []byte("unnamed")

// width has the largest size in JSON of each byte of a text.
var width = func() (w [256]uint8) {
	for c := range w {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			w[c] = 2
		case c < ' ':
			w[c] = 6
		case c < utf8.RuneSelf:
			w[c] = 1
		default:
			w[c] = 3 // a byte that is not UTF-8 becomes U+FFFD
		}
	}
	return w
}()

// jsonLen bounds the size of a text in JSON.
func (t text) jsonLen() int {
	n := len(`""`)
	for _, c := range t {
		n += int(width[c])
	}
	return n
}

// The sizes of members without their texts.
const (
	fixedLen     = len(`{"event":,"entity_id":,"data":{"host":,"service":,"state":,"description":,"metric":,"tags":[],"ttl":,"time_micros":},"occurred_at":""}`) + 2*len("unnamed")
	numberLen    = 26 // of a number, an infinity, or a time
	attributeLen = len(`:,`)
	tagLen       = len(`,`)
)

// jsonLen bounds the size of the record of the event: its value, and its key.
func (e *event) jsonLen() int {
	host, service := e.host.jsonLen(), e.service.jsonLen()
	n := fixedLen + 4*numberLen + host + min(3*len(e.host), encoding.EventEntityMax) + len(unnamed) + service + e.state.jsonLen() + e.description.jsonLen()
	if host > encoding.EventEntityMax || len(e.host) == 0 {
		n += host // is also in the data
	}
	if service > encoding.EventNameMax || len(e.service) == 0 {
		n += service
	}
	for i := range e.attributes {
		n += attributeLen + e.attributes[i].key.jsonLen() + e.attributes[i].value.jsonLen()
	}
	for tag := range e.eachTag {
		n += tagLen + tag.jsonLen()
	}
	return n
}

// eachTag calls yield with the tags in order.
func (e *event) eachTag(yield func(text) bool) {
	var f field
	for b, left := e.tags, e.tagCount; left > 0; {
		b, _ = f.read(b) // parse has read it
		if f.is(fieldTags, protowire.BytesType) {
			if left--; !yield(f.b) {
				return
			}
		}
	}
}

// fit returns the part of a service or host that fits into an event, as valid UTF-8, and whether that
// is the whole text. scratch is memory for a text that is not valid.
func (t text) fit(most int, scratch []byte) (part, memory []byte, whole bool) {
	if len(t) == 0 {
		return unnamed, scratch, false
	}
	valid := []byte(t)
	if !utf8.Valid(t) {
		scratch = scratch[:0]
		for rest := valid; len(rest) > 0 && len(scratch) <= most; {
			r, n := utf8.DecodeRune(rest)
			scratch, rest = utf8.AppendRune(scratch, r), rest[n:]
		}
		valid = scratch
	}
	if len(valid) <= most {
		return valid, scratch, true
	}
	for most > 0 && !utf8.RuneStart(valid[most]) {
		most--
	}
	return valid[:most], scratch, false
}

// appendJSON appends the event as POST /event stores it. name and entity are the parts of service and
// host that fit.
func (e *event) appendJSON(b, name, entity []byte, wholeName, wholeEntity bool) []byte {
	b = encoding.AppendString(append(b, `{"event":`...), name)
	b = encoding.AppendString(append(b, `,"entity_id":`...), entity)
	b = append(b, `,"data":{`...)
	if !wholeEntity {
		b = appendText(b, `"host":`, e.host)
	}
	if !wholeName {
		b = appendText(b, `"service":`, e.service)
	}
	if e.state != nil {
		b = appendText(b, `"state":`, e.state)
	}
	if e.metric.kind != noMetric {
		b = append(e.metric.appendJSON(append(b, `"metric":`...)), ',')
	}
	if e.description != nil {
		b = appendText(b, `"description":`, e.description)
	}
	if e.tagCount > 0 {
		b = append(b, `"tags":[`...)
		for tag := range e.eachTag {
			b = append(encoding.AppendString(b, tag), ',')
		}
		b = append(b[:len(b)-1], ']', ',')
	}
	if e.has&hasTTL != 0 {
		b = append(appendFloat(append(b, `"ttl":`...), float64(e.ttl), 32), ',')
	}
	for i := range e.attributes {
		b = append(encoding.AppendString(b, e.attributes[i].key), ':')
		b = append(encoding.AppendString(b, e.attributes[i].value), ',')
	}
	return e.appendTime(b)
}

// appendText appends a member of data; null if the text is nil.
func appendText(b []byte, name string, t text) []byte {
	b = append(b, name...)
	if t == nil {
		return append(b, "null,"...)
	}
	return append(encoding.AppendString(b, t), ',')
}

// appendTime ends the data, whose last member has a comma, and the event. A time that RFC 3339 cannot
// represent is a member of the data.
func (e *event) appendTime(b []byte) []byte {
	var at time.Time
	name := `"time":`
	switch {
	case e.has&hasMicros != 0:
		at, name = time.UnixMicro(e.time), `"time_micros":`
	case e.has&hasTime != 0:
		at = time.Unix(e.time, 0)
	default:
		return append(bytes.TrimSuffix(b, []byte(",")), "}}"...)
	}
	if at = at.UTC(); at.Year() < 0 || at.Year() > 9999 || e.has&hasMicros == 0 && at.Unix() != e.time {
		b = strconv.AppendInt(append(b, name...), e.time, 10)
		return append(b, "}}"...)
	}
	b = append(bytes.TrimSuffix(b, []byte(",")), `},"occurred_at":"`...)
	return append(at.AppendFormat(b, time.RFC3339Nano), `"}`...)
}

// appendJSON appends the metric. An integer has neither a point nor an exponent, and every other
// number has one of them.
func (m metric) appendJSON(b []byte) []byte {
	switch m.kind {
	case intMetric:
		return strconv.AppendInt(b, int64(m.bits), 10)
	case doubleMetric:
		return appendFraction(b, math.Float64frombits(m.bits), 64)
	}
	return appendFraction(b, float64(math.Float32frombits(uint32(m.bits))), 32)
}

func appendFraction(b []byte, f float64, bits int) []byte {
	at := len(b)
	if b = appendFloat(b, f, bits); bytes.ContainsAny(b[at:], `.e"`) {
		return b
	}
	return append(b, ".0"...)
}

// appendFloat appends the shortest number that has the same value, or a string, because JSON has
// neither infinities nor NaN.
func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}
