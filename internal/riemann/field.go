package riemann

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

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
