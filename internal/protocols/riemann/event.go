package riemann

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// AttributesMax bounds the attributes of an event, because the last of several with one key counts.
const AttributesMax = 256

// Fields of Event, and of State, which has some of them. Once of State is not used.
const (
	fieldTime        = 1  // int64, s
	fieldState       = 2  // string
	fieldService     = 3  // string
	fieldHost        = 4  // string
	fieldDescription = 5  // string
	fieldTags        = 7  // repeated string
	fieldTTL         = 8  // float, s
	fieldAttributes  = 9  // repeated Attribute
	fieldTimeMicros  = 10 // int64
	fieldMetricInt   = 13 // sint64
	fieldMetricD     = 14 // double
	fieldMetricF     = 15 // float

	fieldKey   = 1 // of Attribute, required
	fieldValue = 2
)

// text is a string of an event; nil if it is absent.
type text []byte

// attribute is a field that the client named.
type attribute struct{ key, value text }

// event is an event as the bytes of a message have it. It aliases the message.
type event struct {
	host, service, state, description text
	metric                            metric
	ttl                               float32
	time                              int64 // s or µs
	has                               has
	tags                              []byte // the event from its first tag on
	tagCount                          int
	attributes                        []attribute // without those that set another field
}

// has are the fields of an event that are present.
type has uint8

const (
	hasTTL has = 1 << iota
	hasTime
	hasMicros
)

// metric is the number of an event: an integer, else a double, else a float. Clients set several.
type metric struct {
	kind metricKind
	bits uint64
}

type metricKind uint8

const (
	noMetric metricKind = iota
	floatMetric
	doubleMetric
	intMetric
)

// set keeps the more exact one of two kinds. Of one kind the last counts, as in protobuf.
func (m *metric) set(kind metricKind, bits uint64) {
	if kind >= m.kind {
		*m = metric{kind, bits}
	}
}

// parse reads an event or a state. It keeps the memory of e.attributes.
func (e *event) parse(b []byte) (err error) {
	*e = event{attributes: e.attributes[:0]}
	var f field
	for len(b) > 0 {
		at := b
		if b, err = f.read(b); err != nil {
			return err
		}
		switch {
		case f.is(fieldState, protowire.BytesType):
			e.state = present(f.b)
		case f.is(fieldService, protowire.BytesType):
			e.service = present(f.b)
		case f.is(fieldHost, protowire.BytesType):
			e.host = present(f.b)
		case f.is(fieldDescription, protowire.BytesType):
			e.description = present(f.b)
		case f.is(fieldTags, protowire.BytesType):
			if e.tagCount++; e.tagCount == 1 {
				e.tags = at
			}
		case f.is(fieldAttributes, protowire.BytesType):
			err = e.parseAttribute(f.b)
		case f.is(fieldTTL, protowire.Fixed32Type):
			e.ttl, e.has = math.Float32frombits(uint32(f.n)), e.has|hasTTL
		case f.is(fieldTime, protowire.VarintType):
			if e.has&hasMicros == 0 {
				e.time, e.has = int64(f.n), e.has|hasTime
			}
		case f.is(fieldTimeMicros, protowire.VarintType):
			e.time, e.has = int64(f.n), e.has|hasMicros
		case f.is(fieldMetricInt, protowire.VarintType):
			e.metric.set(intMetric, uint64(protowire.DecodeZigZag(f.n)))
		case f.is(fieldMetricD, protowire.Fixed64Type):
			e.metric.set(doubleMetric, f.n)
		case f.is(fieldMetricF, protowire.Fixed32Type):
			e.metric.set(floatMetric, f.n)
		}
		if err != nil {
			return err
		}
	}
	e.name()
	return nil
}

// present returns bytes of the message that are not nil.
func present(b []byte) text {
	if b == nil {
		return text{}
	}
	return b
}

func (e *event) parseAttribute(b []byte) (err error) {
	a := attribute{value: text{}}
	var f field
	for len(b) > 0 {
		if b, err = f.read(b); err != nil {
			return err
		}
		switch {
		case f.is(fieldKey, protowire.BytesType):
			a.key = present(f.b)
		case f.is(fieldValue, protowire.BytesType):
			a.value = present(f.b)
		}
	}
	switch {
	case a.key == nil:
		return malformed("an attribute has no key")
	case len(e.attributes) == AttributesMax:
		return malformed("an event has more than %d attributes", AttributesMax)
	}
	e.attributes = append(e.attributes, a)
	return nil
}

// name moves attributes with the name of a field. As in Riemann, those of text replace the field, and
// the others are dropped. Of several attributes with one key the last stays.
func (e *event) name() {
	kept := e.attributes[:0]
	for i, a := range e.attributes {
		switch string(a.key) {
		case "host":
			e.host = a.value
		case "service":
			e.service = a.value
		case "state":
			e.state = a.value
		case "description":
			e.description = a.value
		case "tags", "ttl", "metric", "time", "time_micros":
		default:
			if !repeated(e.attributes[i+1:], a.key) {
				kept = append(kept, a)
			}
		}
	}
	e.attributes = kept
}

// repeated reports whether an attribute in a list has a key.
func repeated(list []attribute, key text) bool {
	for i := range list {
		if sameText(list[i].key, key) {
			return true
		}
	}
	return false
}

// sameText reports whether two texts are equal in JSON, where each byte that is not UTF-8 becomes
// U+FFFD.
func sameText(a, b text) bool {
	if string(a) == string(b) {
		return true
	}
	for len(a) > 0 && len(b) > 0 {
		x, n := utf8.DecodeRune(a)
		y, m := utf8.DecodeRune(b)
		if x != y {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return len(a) == len(b)
}

// errMalformed: bytes are not a message.
var errMalformed = errors.New("parse error")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// groupsMax bounds the nesting of groups in unknown fields.
const groupsMax = 64

// field is a field of a message of protobuf.
type field struct {
	num protowire.Number
	typ protowire.Type
	n   uint64 // of a varint and of fixed types
	b   []byte // of bytes; part of the message
}

// is reports whether the field is a known one. A field with another type is unknown, as in protobuf.
func (f *field) is(num protowire.Number, typ protowire.Type) bool {
	return f.num == num && f.typ == typ
}

// read reads the field at the start of b, and returns the rest. A group is skipped.
func (f *field) read(b []byte) (rest []byte, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	switch {
	case n < 0:
		return nil, malformed("%v in the tag of a field", protowire.ParseError(n))
	case num > protowire.MaxValidNumber:
		return nil, malformed("invalid field number %d, at most %d", num, protowire.MaxValidNumber)
	}
	b = b[n:]
	f.num, f.typ, f.b = num, typ, nil
	switch typ {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.n = uint64(v)
	case protowire.Fixed64Type:
		f.n, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.b, n = protowire.ConsumeBytes(b)
	case protowire.StartGroupType:
		n, err = groupLen(num, b)
	default:
		return nil, malformed("field %d of type %d", num, typ)
	}
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, malformed("%v in field %d", protowire.ParseError(n), num)
	}
	return b[n:], nil
}

// groupLen returns the length of a group after its first tag, with its end. It does not recurse,
// because a group in a group takes two bytes.
func groupLen(num protowire.Number, b []byte) (int, error) {
	open := [groupsMax]protowire.Number{num}
	depth, at := 1, 0
	for depth > 0 {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return 0, malformed("%v in group %d", protowire.ParseError(n), open[depth-1])
		}
		at += n
		switch typ {
		case protowire.StartGroupType:
			if depth == groupsMax {
				return 0, malformed("groups in field %d are nested deeper than %d", open[0], groupsMax)
			}
			open[depth] = num
			depth++
			continue
		case protowire.EndGroupType:
			if depth--; open[depth] != num {
				return 0, malformed("group %d ends as group %d", open[depth], num)
			}
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b[at:]); n < 0 {
			return 0, malformed("%v in group %d", protowire.ParseError(n), open[depth-1])
		}
		at += n
	}
	return at, nil
}
