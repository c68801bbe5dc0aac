package v1_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func same(a, b *v1.BatchFile) bool {
	if a.Time != b.Time || a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !bytes.Equal(a.Value(i), b.Value(i)) {
			return false
		}
	}
	return true
}

func valuesOf(f *v1.BatchFile) [][]byte {
	values := make([][]byte, f.Len())
	for i := range values {
		values[i] = f.Value(i)
	}
	return values
}

func refused(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrTooLarge)
}

func FuzzDecode(f *testing.F) {
	f.Add(golden(f, "record_batch"))
	f.Add(golden(f, "record_batch-gzip"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *v1.BatchFile
		var err error
		decode := func() { file, err = v1.Decode(b, 1<<20) }
		if len(b) < 2 || b[0] != 0x1f {
			sebtest.Allocates(t, sebtest.DecoderBound(b), b, decode)
		} else {
			decode()
		}
		if err != nil {
			if !refused(err) {
				t.Fatal(err)
			}
			return
		}
		values := valuesOf(file)
		var out bytes.Buffer
		must.NoError(t, v1.Encode(&out, file.Time, values, false))
		if again, err := v1.Decode(out.Bytes(), 0); err != nil || !same(again, file) {
			t.Fatalf("comes back as %+v, %v", again, err)
		}
	})
}

// FuzzEncode: an encoded file decodes to the same, plain and gzipped. A flipped bit of a gzipped
// file is an error, unless it is in gzip's own fields (time, system, name). A plain file has no
// checksum.
func FuzzEncode(f *testing.F) {
	f.Add(int64(7), []byte("abcdefghij"), []byte{0, 3, 9}, uint16(99))
	f.Add(int64(-1), []byte{}, []byte{0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, micros int64, data, cuts []byte, bit uint16) {
		var values [][]byte
		for _, c := range cuts {
			n := min(int(c), len(data))
			values, data = append(values, data[:n]), data[n:]
		}
		var plain, gzipped bytes.Buffer
		must.NoError(t, v1.Encode(&plain, micros, values, false))
		file, err := v1.Decode(plain.Bytes(), 0)
		if err != nil || file.Time != micros || !slices.EqualFunc(valuesOf(file), values, bytes.Equal) {
			t.Fatalf("%q comes back as %+v, %v", values, file, err)
		}
		if micros&7 != 7 {
			return // a gzip writer takes a megabyte
		}
		must.NoError(t, v1.Encode(&gzipped, micros, values, true))
		z := gzipped.Bytes()
		if again, err := v1.Decode(z, 0); err != nil || !same(again, file) {
			t.Fatalf("%q comes back as %+v, %v", values, again, err)
		}
		z[int(bit/8)%len(z)] ^= 1 << (bit % 8)
		if bad, err := v1.Decode(z, 1<<20); err == nil && !same(bad, file) || err != nil && !refused(err) {
			t.Fatalf("bit %d flipped: %+v, %v", bit, bad, err)
		}
	})
}

func FuzzDecodeOffsets(f *testing.F) {
	f.Add(golden(f, "offsets"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var file v1.OffsetsFile
		var err error
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { file, err = v1.DecodeOffsets(b) })
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := v1.DecodeOffsets(v1.EncodeOffsets(nil, file))
		if err != nil || again.Time != file.Time || !slices.Equal(again.Offsets, file.Offsets) {
			t.Fatal(cmp.Diff(again, file), err)
		}
	})
}
