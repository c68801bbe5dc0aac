package index

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/protocols/riemann/query"
)

// Event is an event of the index or of the log. It implements query.Event, without allocations for
// members without escapes. It must not be used concurrently.
type Event struct {
	host, service []byte // entity_id and event; a member of the data with the name replaces them
	at            int64  // append time, ms
	time          int64  // occurred_at, µs; noTime
	data          []byte

	parsed  bool
	members []member
}

// noTime: the event has no time of its own.
const noTime = math.MinInt64

// member is a member of a JSON object, undecoded. name has its quotes.
type member struct{ name, value []byte }

// set replaces the event by an entry.
func (e *Event) set(of *entry) {
	e.host, e.service = splitKey(of.key)
	e.at, e.time, e.data, e.parsed = of.at, of.time, of.data, false
}

// raw returns the undecoded value of a member of the data; nil if there is none.
func (e *Event) raw(name string) []byte {
	return find(e.list(), name)
}

func (e *Event) list() []member {
	if !e.parsed {
		e.parsed, e.members = true, members(e.members[:0], e.data)
	}
	return e.members
}

// Field implements query.Event.
func (e *Event) Field(name string) query.Value {
	raw := e.raw(name)
	switch {
	case name == "time":
		return seconds(e.micros())
	case raw == nil && name == "host":
		return query.Value{Kind: query.Text, Text: e.host}
	case raw == nil && name == "service":
		return query.Value{Kind: query.Text, Text: e.service}
	}
	v := value(raw)
	if v.Kind == query.Text && (name == "metric" || name == "ttl") { // JSON has no such numbers
		switch string(v.Text) {
		case "NaN":
			return query.Value{Kind: query.Float, Float: math.NaN()}
		case "Infinity":
			return query.Value{Kind: query.Float, Float: math.Inf(1)}
		case "-Infinity":
			return query.Value{Kind: query.Float, Float: math.Inf(-1)}
		}
	}
	return v
}

// micros is the event's own time, or else its append time (µs). Times that RFC 3339 cannot represent
// are members of the data.
func (e *Event) micros() int64 {
	if e.time != noTime {
		return e.time
	}
	if v := value(e.raw("time_micros")); v.Kind == query.Integer {
		return v.Int
	}
	const micro = 1_000_000
	switch v := value(e.raw("time")); {
	case v.Kind == query.Integer && v.Int < math.MaxInt64/micro && v.Int > math.MinInt64/micro:
		return v.Int * micro
	case v.Kind == query.Float && math.Abs(v.Float) < math.MaxInt64/micro:
		return int64(v.Float * micro)
	}
	return e.at * 1000
}

// seconds returns a time (µs) in seconds.
func seconds(micros int64) query.Value {
	if micros%1_000_000 == 0 {
		return query.Value{Kind: query.Integer, Int: micros / 1_000_000}
	}
	return query.Value{Kind: query.Float, Float: float64(micros) / 1e6}
}

// Tagged implements query.Event.
func (e *Event) Tagged(tag string) bool {
	for v := range e.tags {
		if string(v.Text) == tag && v.Kind == query.Text {
			return true
		}
	}
	return false
}

// tags calls yield with the elements of the event's tags.
func (e *Event) tags(yield func(query.Value) bool) {
	for rest := elements(e.raw("tags")); len(rest) > 0; {
		size := skipValue(rest)
		if size == 0 || !yield(value(rest[:size])) {
			return
		}
		rest = space(rest[size:])
		if len(rest) == 0 || rest[0] != ',' {
			return
		}
		rest = space(rest[1:])
	}
}

// expired reports whether the event's state is "expired".
func (e *Event) expired() bool {
	state := e.Field("state")
	return state.Kind == query.Text && string(state.Text) == stateExpired
}

const stateExpired = "expired"

// deadline returns when the event expires (ms): its ttl after its append time, by default
// defaultTTL. An infinite one never expires.
func (e *Event) deadline(defaultTTL time.Duration) int64 {
	ttl := e.Field("ttl")
	live := defaultTTL.Seconds()
	switch ttl.Kind {
	case query.Integer:
		live = float64(ttl.Int)
	case query.Float:
		live = ttl.Float
	}
	switch {
	case math.IsNaN(live):
		live = defaultTTL.Seconds()
	case live > ttlMax:
		return never
	}
	return e.at + int64(math.Round(max(live, 0)*1000))
}

// ttlMax is the ttl in seconds above which an event never expires: ten years.
const ttlMax = 10 * 366 * 24 * 3600

// AppendJSON appends the event as Riemann's subscriptions show it: an object with all fields, and
// time in ISO 8601.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for _, m := range []struct {
		name string
		text []byte
	}{{"host", e.host}, {"service", e.service}} {
		dst = append(append(append(dst, '"'), m.name...), `":`...)
		if raw := e.raw(m.name); raw != nil {
			dst = append(dst, raw...)
		} else {
			dst = appendText(dst, m.text)
		}
		dst = append(dst, ',')
	}
	at := time.UnixMicro(e.micros()).UTC()
	dst = at.AppendFormat(append(dst, `"time":"`...), "2006-01-02T15:04:05.000Z")
	dst = append(dst, '"')
	for _, m := range e.list() {
		switch string(m.name) {
		case `"host"`, `"service"`, `"time"`, `"time_micros"`:
		default:
			dst = append(append(append(append(dst, ','), m.name...), ':'), m.value...)
		}
	}
	return append(dst, '}')
}

func appendText(dst, text []byte) []byte {
	quoted, _ := json.Marshal(string(text)) // a string has no error
	return append(dst, quoted...)
}

// value decodes a JSON value. A string without escapes is not copied.
func value(raw []byte) (v query.Value) {
	if len(raw) == 0 {
		return v
	}
	switch c := raw[0]; {
	case c == '"':
		v.Kind, v.Text = query.Text, raw[1:len(raw)-1]
		if bytes.IndexByte(v.Text, '\\') >= 0 {
			var text string
			_ = json.Unmarshal(raw, &text) // it is valid
			v.Text = []byte(text)
		}
	case c == 't':
		v.Kind = query.True
	case c == 'f':
		v.Kind = query.False
	case c == '{' || c == '[':
		v.Kind = query.List
	case c != 'n':
		number, ok := query.Number(raw)
		if v.Kind = query.List; ok {
			v = number
		}
	}
	return v
}

// members appends the members of a valid JSON object.
func members(dst []member, object []byte) []member {
	rest := elements(object)
	for len(rest) > 0 {
		size := skipValue(rest)
		name := rest[:size]
		rest = space(rest[size:])
		if size < 2 || name[0] != '"' || len(rest) == 0 || rest[0] != ':' {
			break
		}
		rest = space(rest[1:])
		if size = skipValue(rest); size == 0 {
			break
		}
		dst = append(dst, member{name, rest[:size]})
		if rest = space(rest[size:]); len(rest) == 0 || rest[0] != ',' {
			break
		}
		rest = space(rest[1:])
	}
	return dst
}

// find returns the value of the last member with a name; nil if there is none.
func find(list []member, name string) []byte {
	for i := len(list) - 1; i >= 0; i-- {
		m := &list[i]
		text := m.name[1 : len(m.name)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			text = value(m.name).Text
		}
		if string(text) == name {
			return m.value
		}
	}
	return nil
}

// elements returns the inside of a list or an object, without spaces at its start.
func elements(raw []byte) []byte {
	raw = space(raw)
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil
	}
	return space(raw[1:])
}

func space(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n") }

// skipValue returns the length of the value at the start of raw; 0 if there is none.
func skipValue(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if i >= len(raw) {
				return 0
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return 0
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return 0
			}
			continue
		default:
			for i+1 < len(raw) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), raw[i+1]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// expiredPrefix starts the ID of the record that expires an event; the event's offset follows.
const expiredPrefix = "riemann-expired-"

// expires returns the offset of the event that a record expires, by the record's ID.
func expires(id string) (offset int64, ok bool) {
	if len(id) <= len(expiredPrefix) || id[:len(expiredPrefix)] != expiredPrefix {
		return 0, false
	}
	offset, err := strconv.ParseInt(id[len(expiredPrefix):], 10, 64)
	return offset, err == nil && offset >= 0
}

// Queries answers the queries of Riemann's protocol.
type Queries struct{ *Index }

// behindMax bounds the time that a query waits for the events before it.
const behindMax = 10 * time.Second

// Query returns the events for which a query is true, each encoded as the field events of a Msg, at
// most limit bytes. It sees every event that was committed before the call. The error is a sentence
// for the client.
func (x Queries) Query(ctx context.Context, text string, limit int) ([]byte, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse error: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, behindMax)
	err = x.CatchUp(waiting)
	cancel()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the index is more than %s behind, retry later", behindMax)
	case err != nil:
		return nil, err
	}
	var out []byte
	err = x.Index.Query(ctx, q, int64(limit), func(e *Event) error {
		out = protowire.AppendBytes(protowire.AppendTag(out, fieldEvents, protowire.BytesType), e.appendMessage(nil))
		if len(out) > limit {
			return fmt.Errorf("the events that match have more than %d bytes, narrow the query", limit)
		}
		return nil
	})
	return out, err
}

// Fields of Riemann's messages.
const (
	fieldEvents = 6 // of Msg

	fieldTime        = 1
	fieldState       = 2
	fieldService     = 3
	fieldHost        = 4
	fieldDescription = 5
	fieldTags        = 7
	fieldTTL         = 8
	fieldAttributes  = 9
	fieldTimeMicros  = 10
	fieldMetricInt   = 13
	fieldMetricD     = 14
	fieldMetricF     = 15

	fieldKey   = 1 // of Attribute
	fieldValue = 2
)

// appendMessage appends the event as a message. As in Riemann, a metric is also in metric_f, the only
// one that old clients read.
func (e *Event) appendMessage(b []byte) []byte {
	micros := e.micros()
	at := micros / 1_000_000
	if micros%1_000_000 < 0 {
		at--
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldTime, protowire.VarintType), uint64(at))
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldTimeMicros, protowire.VarintType), uint64(micros))
	b = appendOptional(b, fieldHost, e.Field("host"))
	b = appendOptional(b, fieldService, e.Field("service"))
	for _, m := range e.list() {
		switch name := string(value(m.name).Text); name {
		case "host", "service", "time", "time_micros":
		case "state":
			b = appendOptional(b, fieldState, value(m.value))
		case "description":
			b = appendOptional(b, fieldDescription, value(m.value))
		case "tags":
			for tag := range e.tags {
				b = appendOptional(b, fieldTags, tag)
			}
		case "metric":
			b = appendMetric(b, e.Field(name))
		case "ttl":
			if v := e.Field(name); v.Kind == query.Integer || v.Kind == query.Float {
				b = protowire.AppendFixed32(protowire.AppendTag(b, fieldTTL, protowire.Fixed32Type), math.Float32bits(float32(double(v))))
			}
		default:
			b = protowire.AppendBytes(protowire.AppendTag(b, fieldAttributes, protowire.BytesType), appendAttribute(nil, name, m.value))
		}
	}
	return b
}

// appendOptional appends a text; other values are absent.
func appendOptional(b []byte, field protowire.Number, v query.Value) []byte {
	if v.Kind != query.Text {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v.Text)
}

// appendAttribute appends an attribute. A value that is no text is shown as JSON.
func appendAttribute(b []byte, name string, raw []byte) []byte {
	text := raw
	if v := value(raw); v.Kind == query.Text {
		text = v.Text
	}
	b = protowire.AppendString(protowire.AppendTag(b, fieldKey, protowire.BytesType), name)
	return protowire.AppendBytes(protowire.AppendTag(b, fieldValue, protowire.BytesType), text)
}

func appendMetric(b []byte, v query.Value) []byte {
	switch v.Kind {
	case query.Integer:
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldMetricInt, protowire.VarintType), protowire.EncodeZigZag(v.Int))
	case query.Float:
		b = protowire.AppendFixed64(protowire.AppendTag(b, fieldMetricD, protowire.Fixed64Type), math.Float64bits(v.Float))
	default:
		return b
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, fieldMetricF, protowire.Fixed32Type), math.Float32bits(float32(double(v))))
}

// double returns a number as a double.
func double(v query.Value) float64 {
	if v.Kind == query.Integer {
		return float64(v.Int)
	}
	return v.Float
}
