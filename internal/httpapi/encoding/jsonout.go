package encoding

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/sebbroker/seb/record"
)

// appendRecordJSON appends a record as package api's Record on one line. Valid UTF-8 becomes a
// string, other bytes a base64 member; null stays null.
func appendRecordJSON(b []byte, r *record.Record) []byte {
	return appendMembers(append(b, '{'), r)
}

// appendMembers is appendRecordJSON without the opening brace.
func appendMembers(b []byte, r *record.Record) []byte {
	b = append(b, `"offset":`...)
	b = strconv.AppendInt(b, r.Offset, 10)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, r.Timestamp, 10)
	b = appendMember(b, memberKey, r.Key)
	b = appendMember(b, memberValue, r.Value)
	if len(r.Headers) > 0 {
		b = append(b, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"key":`...)
			b = appendString(b, h.Key)
			b = appendMember(b, memberValue, h.Value)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendMember(b []byte, name string, v []byte) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	switch {
	case v == nil:
		return append(b, `":null`...)
	case utf8.Valid(v):
		return appendString(append(b, `":`...), v)
	}
	b = append(b, `_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Invalid UTF-8, possible only in header keys, becomes
// U+FFFD.
func appendString[T []byte | string](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := decodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func decodeRune[T []byte | string](s T) (rune, int) {
	var head [utf8.UTFMax]byte
	n := copy(head[:], s)
	return utf8.DecodeRune(head[:n])
}

// recordJSONMax bounds the output of appendRecordJSON: a byte becomes at most six.
func recordJSONMax(r *record.Record) int {
	n := 96 + 6*(len(r.Key)+len(r.Value))
	for i := range r.Headers {
		n += 40 + 6*(len(r.Headers[i].Key)+len(r.Headers[i].Value))
	}
	return n
}
