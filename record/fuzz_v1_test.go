package record

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func sameV1(a, b *FileV1) bool {
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

func bytesV1(f *FileV1) [][]byte {
	values := make([][]byte, f.Len())
	for i := range values {
		values[i] = f.Value(i)
	}
	return values
}

func v1Fault(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) }

func FuzzDecodeV1(f *testing.F) {
	seed(f, "record_batch-v1")
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *FileV1
		var err error
		decode := func() { file, err = DecodeV1(b, 1<<20) }
		if len(b) < 2 || b[0] != 0x1f {
			sebtest.Allocates(t, sebtest.DecoderBound(b), b, decode)
		} else {
			decode()
		}
		if err != nil {
			if !v1Fault(err) {
				t.Fatal(err)
			}
			return
		}
		values := bytesV1(file)
		var out bytes.Buffer
		must.NoError(t, EncodeV1(&out, file.Time, values, false))
		if again, err := DecodeV1(out.Bytes(), 0); err != nil || !sameV1(again, file) {
			t.Fatalf("comes back as %+v, %v", again, err)
		}
	})
}

// FuzzEncodeV1: an encoded file decodes to the same, plain and gzipped. A flipped bit of a gzipped
// file is an error, unless it is in gzip's own fields (time, system, name). A plain file has no
// checksum.
func FuzzEncodeV1(f *testing.F) {
	f.Add(int64(7), []byte("abcdefghij"), []byte{0, 3, 9}, uint16(99))
	f.Add(int64(-1), []byte{}, []byte{0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, micros int64, data, cuts []byte, bit uint16) {
		var values [][]byte
		for _, c := range cuts {
			n := min(int(c), len(data))
			values, data = append(values, data[:n]), data[n:]
		}
		var plain, gzipped bytes.Buffer
		must.NoError(t, EncodeV1(&plain, micros, values, false))
		file, err := DecodeV1(plain.Bytes(), 0)
		if err != nil || file.Time != micros || !slices.EqualFunc(bytesV1(file), values, bytes.Equal) {
			t.Fatalf("%q comes back as %+v, %v", values, file, err)
		}
		if micros&7 != 7 {
			return // a gzip writer takes a megabyte
		}
		must.NoError(t, EncodeV1(&gzipped, micros, values, true))
		z := gzipped.Bytes()
		if again, err := DecodeV1(z, 0); err != nil || !sameV1(again, file) {
			t.Fatalf("%q comes back as %+v, %v", values, again, err)
		}
		z[int(bit/8)%len(z)] ^= 1 << (bit % 8)
		if bad, err := DecodeV1(z, 1<<20); err == nil && !sameV1(bad, file) || err != nil && !v1Fault(err) {
			t.Fatalf("bit %d flipped: %+v, %v", bit, bad, err)
		}
	})
}

func FuzzDecodeOffsetsV1(f *testing.F) {
	seed(f, "offsets-v1")
	f.Fuzz(func(t *testing.T, b []byte) {
		var file OffsetsV1
		var err error
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { file, err = DecodeOffsetsV1(b) })
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeOffsetsV1(EncodeOffsetsV1(nil, file))
		if err != nil || again.Time != file.Time || !slices.Equal(again.Offsets, file.Offsets) {
			t.Fatal(cmp.Diff(again, file), err)
		}
	})
}
