package wire

import "encoding/binary"

// HeadMin is the size of the fixed part of a request's head, see Peek.
const HeadMin = 8

// Head is the head of a request:
//
//	0  key             i16
//	2  version         i16
//	4  correlation ID  i32
//	8  client ID       length i16 (-1: none), bytes
//	   tagged fields   in flexible versions
type Head struct {
	Key, Version int16
	Correlation  int32
	Client       []byte // aliases the request
}

// Peek parses the fixed part of a head, which has HeadMin bytes.
func Peek(b []byte) Head {
	return Head{
		Key:         int16(binary.BigEndian.Uint16(b)),
		Version:     int16(binary.BigEndian.Uint16(b[2:])),
		Correlation: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// ParseHead parses the head of a request, flexible or not, and returns the rest. The error is
// ErrMalformed.
func ParseHead(b []byte, flexible bool) (h Head, rest []byte, err error) {
	if len(b) < HeadMin {
		return h, nil, ErrMalformed
	}
	h = Peek(b)
	s := skimmer{left: b[HeadMin:]}
	before := s.left
	s.text(false)
	if s.bad {
		return h, nil, ErrMalformed
	}
	if used := len(before) - len(s.left); used > 2 {
		h.Client = before[2:used]
	}
	if flexible {
		s.tags(nil)
	}
	if s.bad {
		return h, nil, ErrMalformed
	}
	return h, s.left, nil
}
