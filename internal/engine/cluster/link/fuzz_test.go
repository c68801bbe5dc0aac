package link_test

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/test/must"
)

// framed puts a valid head before the message of a registration.
func framed(body []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	b := make([]byte, 20, 20+len(body))
	copy(b, link.Magic)
	b[4] = 1
	binary.LittleEndian.PutUint32(b[8:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(body, table))
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], table))
	return append(b, body...)
}

// FuzzRegistration: what is decoded can be encoded, and is then the same.
func FuzzRegistration(f *testing.F) {
	f.Add(encode(f, example(1, 2))[20:])
	small := example(1, 2)
	small.Addresses, small.URL, small.Kafka = nil, "", ""
	f.Add(encode(f, small)[20:])
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := link.Decode(framed(body))
		if err != nil {
			return
		}
		b, err := link.Encode(&r)
		must.NoErrorf(t, err, "decoded %+v", r)
		if got, err := link.Decode(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}
