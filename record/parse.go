package record

import "unsafe"

// HeadersMax bounds the headers of a record, and so the memory of a Reader for headers.
const HeadersMax = 1024

// rawRecord is a record in the layout of a batch:
//
//	length varint | attributes i8 | timestamp delta varlong | offset delta varint
//	key length varint, key | value length varint, value | header count varint, headers
//
// Varints are zigzag; a length of -1 is null.
type rawRecord struct {
	timeDelta   int64
	offsetDelta int
	key, value  []byte
	headers     []byte // encoded, to the end of the record
	headerCount int
}

// parseRecord parses the record at the start of b and returns its length in bytes. On an error it
// returns 0 and the reason. parseHeaders parses the headers.
func parseRecord(b []byte, r *rawRecord) (size int, fault string) {
	n, i := varint32(b)
	if i == 0 || n < 0 || n > len(b)-i {
		return 0, "length does not fit"
	}
	size = i + n
	b = b[i:size:size]
	if len(b) < 1 {
		return 0, "no attributes"
	}
	b = b[1:]
	if r.timeDelta, i = varint64(b); i == 0 {
		return 0, "timestamp delta"
	}
	b = b[i:]
	if r.offsetDelta, i = varint32(b); i == 0 {
		return 0, "offset delta"
	}
	b = b[i:]
	var ok bool
	if r.key, b, ok = nullable(b); !ok {
		return 0, "key length does not fit"
	}
	if r.value, b, ok = nullable(b); !ok {
		return 0, "value length does not fit"
	}
	if r.headerCount, i = varint32(b); i == 0 || r.headerCount < 0 {
		return 0, "header count"
	}
	r.headers = b[i:]
	return size, ""
}

// nullable reads a length and as many bytes; nil for a length of -1.
func nullable(b []byte) (v, rest []byte, ok bool) {
	n, i := varint32(b)
	if i == 0 || n < -1 || n > len(b)-i {
		return nil, b, false
	}
	if n < 0 {
		return nil, b[i:], true
	}
	return b[i : i+n : i+n], b[i+n:], true
}

// parseHeaders checks the headers of r and, if dst is not nil, appends them to *dst, aliasing the
// record's bytes.
func (r *rawRecord) parseHeaders(dst *[]Header) (fault string) {
	if r.headerCount > HeadersMax {
		return "too many headers"
	}
	b := r.headers
	for range r.headerCount {
		key, rest, ok := nullable(b)
		if !ok || key == nil {
			return "header key length does not fit"
		}
		value, rest, ok := nullable(rest)
		if !ok {
			return "header value length does not fit"
		}
		if dst != nil {
			*dst = append(*dst, Header{Key: unsafe.String(unsafe.SliceData(key), len(key)), Value: value})
		}
		b = rest
	}
	if len(b) > 0 {
		return "length and fields do not match"
	}
	return ""
}

// varint32 reads a zigzag varint of at most 5 bytes and 32 bits, as Kafka's clients do. size is 0
// if there is none.
func varint32(b []byte) (v, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int(b[0]>>1) ^ -int(b[0]&1), 1
	}
	if len(b) > 1 && b[1] < 0x80 { // lengths of 64 to 8,191 bytes
		u := int(b[0]&0x7f) | int(b[1])<<7
		return u>>1 ^ -(u & 1), 2
	}
	var u uint64
	for i := 0; i < len(b) && i < 5; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if u > 0xffffffff {
				return 0, 0
			}
			return int(u>>1) ^ -int(u&1), i + 1
		}
	}
	return 0, 0
}

// varint64 reads a zigzag varint of at most 10 bytes and 64 bits. size is 0 if there is none.
func varint64(b []byte) (v int64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	var u uint64
	for i := 0; i < len(b) && i < 10; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if i == 9 && b[i] > 1 {
				return 0, 0
			}
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}
