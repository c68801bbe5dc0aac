package encoding

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/sebbroker/seb/record"
)

// appendRecordJSON appends a record as package api's Record on one line. Valid UTF-8 becomes a
// string, other bytes a base64 member; null stays null. cut is nil if the value is whole.
func appendRecordJSON(b []byte, r *record.Record, cut *cutValue) []byte {
	return appendMembers(append(b, '{'), r, cut)
}

// cutValue describes a record whose value is the beginning of a longer one.
type cutValue struct {
	whole int  // bytes of the whole value
	text  bool // the whole value is valid UTF-8
}

// ValueCut returns the length to which a value is cut, at most limit bytes. Valid UTF-8 is cut
// between two characters. text reports whether the value is valid UTF-8.
func ValueCut(v []byte, limit int) (n int, text bool) {
	if text = utf8.Valid(v); !text || len(v) <= limit {
		return min(len(v), limit), text
	}
	for n = limit; n > 0 && !utf8.RuneStart(v[n]); n-- {
	}
	return n, true
}

// appendMembers is appendRecordJSON without the opening brace.
func appendMembers(b []byte, r *record.Record, cut *cutValue) []byte {
	b = append(b, `"offset":`...)
	b = strconv.AppendInt(b, r.Offset, 10)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, r.Timestamp, 10)
	return append(appendContent(b, r, cut), '}')
}

// appendContent appends key, value and headers, each after a comma.
func appendContent(b []byte, r *record.Record, cut *cutValue) []byte {
	b = appendMember(b, memberKey, r.Key)
	if cut == nil {
		b = appendMember(b, memberValue, r.Value)
	} else {
		b = appendBytes(b, memberValue, r.Value, cut.text)
		b = append(b, `,"value_bytes":`...)
		b = strconv.AppendInt(b, int64(cut.whole), 10)
	}
	if len(r.Headers) > 0 {
		b = append(b, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"key":`...)
			b = AppendString(b, h.Key)
			b = appendMember(b, memberValue, h.Value)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return b
}

// AppendContent appends the members key, value and headers of a record, each after a comma, with the value cut
// to valueMax bytes; 0: whole.
func AppendContent(b []byte, r *record.Record, valueMax int) []byte {
	if valueMax <= 0 || len(r.Value) <= valueMax {
		return appendContent(b, r, nil)
	}
	short := *r
	n, text := ValueCut(r.Value, valueMax)
	short.Value = r.Value[:n]
	return appendContent(b, &short, &cutValue{whole: len(r.Value), text: text})
}

// ContentLen is a close upper bound of the output of AppendContent.
func ContentLen(r *record.Record) int { return recordJSONLen(r) }

func appendMember(b []byte, name string, v []byte) []byte {
	return appendBytes(b, name, v, utf8.Valid(v))
}

// appendBytes is appendMember for bytes of which is known whether they are text.
func appendBytes(b []byte, name string, v []byte, text bool) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	switch {
	case v == nil:
		return append(b, `":null`...)
	case text:
		return AppendString(append(b, `":`...), v)
	}
	b = append(b, `_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8, possible only in header keys, becomes
// U+FFFD.
func AppendString[T ~[]byte | ~string](b []byte, s T) []byte {
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

func decodeRune[T ~[]byte | ~string](s T) (rune, int) {
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
