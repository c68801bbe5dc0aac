package history

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumDigits = 8

// Value returns the record that a client sends with a number: text that depends only on these two.
// Most are below 200 bytes, one in 64 has up to 8 KiB.
func Value(client int32, seq int64) []byte { return AppendValue(nil, client, seq) }

// AppendValue appends the result of Value.
func AppendValue(b []byte, client int32, seq int64) []byte {
	from := len(b)
	b = strconv.AppendInt(b, int64(client), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, '.')
	x := mix(uint64(client)<<40 ^ uint64(seq))
	n := x % 128
	if x>>32%64 == 0 {
		n = x % (8 << 10)
	}
	for ; n > 0; n-- {
		x = mix(x)
		b = append(b, 'a'+byte(x%26))
	}
	return fmt.Appendf(b, ".%0*x", sumDigits, crc32.Checksum(b[from:], castagnoli))
}

// mix is splitmix64, a hash of numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

var errValue = errors.New("not a value of a history")

// ParseValue returns the sender and number of a record. Any changed byte is an error. scratch is
// used for the comparison and returned, possibly larger.
func ParseValue(v, scratch []byte) (client int32, seq int64, _ []byte, err error) {
	dot := len(v) - sumDigits - 1
	if dot < 0 {
		return 0, 0, scratch, fmt.Errorf("%w: %d bytes", errValue, len(v))
	}
	text := string(v[:min(dot, 64)])
	first, rest, _ := strings.Cut(text, ".")
	second, _, _ := strings.Cut(rest, ".")
	c, err1 := strconv.ParseInt(first, 10, 32)
	seq, err2 := strconv.ParseInt(second, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, scratch, fmt.Errorf("%w: %w", errValue, err)
	}
	client = int32(c)
	scratch = AppendValue(scratch[:0], client, seq)
	if string(scratch) != string(v) {
		return 0, 0, scratch, fmt.Errorf("%w: bytes differ from record %d.%d", errValue, client, seq)
	}
	return client, seq, scratch, nil
}
