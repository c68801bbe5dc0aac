package wire

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrMalformed means that a request does not have the shape of its key and version.
var ErrMalformed = errors.New("malformed request")

// Estimates of Skim for the memory of decoding, in addition to the bytes: at least the allocation
// of kmsg for an element of any served request and for its answer. A test compares them.
const (
	elementBytes = 320 // a struct in an array
	textBytes    = 40  // string header, and rounding by the allocator
	tagBytes     = 400 // kmsg allocates a map for the first unknown tagged field
)

type kind uint8

const (
	fixed    kind = iota // width bytes
	text                 // i16 or compact length; -1 if nullable
	blob                 // i32 or compact length
	array                // array of structs
	list                 // array of other fields; fields holds the one
	tagged               // tagged field with a struct
	optional             // struct after a byte, which is -1 if the struct is absent
)

// Field is a field of a request. Since and Until return changed copies.
type Field struct {
	kind     kind
	width    uint8
	tag      uint32
	from, to int16
	fields   []Field
}

// The fields without parts.
var (
	Int8  = Field{kind: fixed, width: 1, to: math.MaxInt16}
	Int16 = Field{kind: fixed, width: 2, to: math.MaxInt16}
	Int32 = Field{kind: fixed, width: 4, to: math.MaxInt16}
	Int64 = Field{kind: fixed, width: 8, to: math.MaxInt16}
	UUID  = Field{kind: fixed, width: 16, to: math.MaxInt16}
	Bool  = Int8
	Text  = Field{kind: text, to: math.MaxInt16}
	Bytes = Field{kind: blob, to: math.MaxInt16}
)

// Array is an array of structs with these fields.
func Array(fields ...Field) Field { return Field{kind: array, to: math.MaxInt16, fields: fields} }

// List is an array of f, which is not a struct.
func List(f Field) Field { return Field{kind: list, to: math.MaxInt16, fields: []Field{f}} }

// Optional is a nullable struct with these fields.
func Optional(fields ...Field) Field { return Field{kind: optional, to: math.MaxInt16, fields: fields} }

// Tagged is a tagged field with a struct of these fields. Other tagged fields are skipped by their
// length.
func Tagged(tag uint32, fields ...Field) Field {
	return Field{kind: tagged, tag: tag, to: math.MaxInt16, fields: fields}
}

// Since is f from a version on.
func (f Field) Since(version int16) Field { f.from = version; return f }

// Until is f up to a version.
func (f Field) Until(version int16) Field { f.to = version; return f }

// Shape is the structure of a request after its head.
type Shape struct {
	// Flexible is the first version with compact lengths and tagged fields; -1: none.
	Flexible int16
	Fields   []Field
}

// IsFlexible reports whether a version has compact lengths and tagged fields.
func (s *Shape) IsFlexible(version int16) bool { return s.Flexible >= 0 && version >= s.Flexible }

// Skim checks a request after its head. cost bounds the memory for decoding it and for answering
// each of its elements, in addition to its own bytes. rest is the data after the request, which
// brokers ignore. The error is ErrMalformed.
func (s *Shape) Skim(version int16, body []byte) (cost int64, rest []byte, err error) {
	sk := skimmer{left: body, version: version, flexible: s.IsFlexible(version)}
	sk.structure(s.Fields)
	if sk.bad {
		return 0, nil, ErrMalformed
	}
	return sk.cost, sk.left, nil
}

// skimmer is the state of Skim. After an error bad is set and left is empty.
type skimmer struct {
	left     []byte
	version  int16
	flexible bool
	bad      bool
	cost     int64
}

func (s *skimmer) fail() { s.bad, s.left = true, nil }

func (s *skimmer) structure(fields []Field) {
	for i := range fields {
		if f := &fields[i]; f.kind != tagged && f.from <= s.version && s.version <= f.to {
			s.field(f)
		}
	}
	if s.flexible {
		s.tags(fields)
	}
}

func (s *skimmer) field(f *Field) {
	switch f.kind {
	case fixed:
		s.skip(int64(f.width))
	case text:
		s.text(s.flexible)
	case blob:
		s.skip(max(0, s.length()))
	case optional:
		if len(s.left) == 0 {
			s.fail()
			return
		}
		there := int8(s.left[0]) != -1
		if s.left = s.left[1:]; there {
			s.cost += elementBytes
			s.structure(f.fields)
		}
	case array:
		n := s.length()
		for ; n > 0 && !s.bad; n-- {
			s.cost += elementBytes
			s.structure(f.fields)
		}
	case list:
		n := s.length()
		for ; n > 0 && !s.bad; n-- {
			s.cost += textBytes
			s.field(&f.fields[0])
		}
	}
}

// skip skips n bytes, n >= 0.
func (s *skimmer) skip(n int64) {
	if n > int64(len(s.left)) {
		s.fail()
		return
	}
	s.left = s.left[n:]
}

// text skips a string; null and empty are the same here.
func (s *skimmer) text(compact bool) {
	n := int64(0)
	switch {
	case compact:
		n = int64(s.uvarint()) - 1
	case len(s.left) < 2:
		s.fail()
		return
	default:
		n = int64(int16(binary.BigEndian.Uint16(s.left)))
		s.left = s.left[2:]
	}
	n = max(0, n)
	s.cost += textBytes + n
	s.skip(n)
}

// length parses the length of bytes or an array; null is -1 or less. A length above the remaining
// bytes is an error, because each element has at least one byte.
func (s *skimmer) length() int64 {
	n := int64(0)
	switch {
	case s.flexible:
		n = int64(s.uvarint()) - 1
	case len(s.left) < 4:
		s.fail()
		return 0
	default:
		n = int64(int32(binary.BigEndian.Uint32(s.left)))
		s.left = s.left[4:]
	}
	if n > int64(len(s.left)) {
		s.fail()
		return 0
	}
	return n
}

// tags skips tagged fields, and checks those in known.
func (s *skimmer) tags(known []Field) {
	n := s.uvarint()
	if int64(n) > int64(len(s.left)) {
		s.fail()
		return
	}
	for ; n > 0 && !s.bad; n-- {
		tag := s.uvarint()
		size := s.uvarint()
		if int64(size) > int64(len(s.left)) {
			s.fail()
			return
		}
		s.cost += tagBytes + int64(size)
		inside := s.left[:size]
		s.left = s.left[size:]
		for i := range known {
			if f := &known[i]; f.kind == tagged && f.tag == tag {
				in := skimmer{left: inside, version: s.version, flexible: true}
				in.structure(f.fields)
				s.cost += in.cost
				s.bad = s.bad || in.bad
			}
		}
	}
}

// uvarint parses an unsigned number of at most 32 bits, like kmsg.
func (s *skimmer) uvarint() uint32 {
	var x uint32
	for i, b := range s.left {
		if i == 5 || i == 4 && b > 0x0f {
			break
		}
		x |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			s.left = s.left[i+1:]
			return x
		}
	}
	s.fail()
	return 0
}
