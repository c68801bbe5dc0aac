package codec

import (
	"bytes"
	"io"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// inflatedBound is what each codec may allocate in addition to its output: windows, blocks and
// tables.
var inflatedBound = map[Kind]int{Gzip: 128 << 10, Snappy: 8 << 10, LZ4: 10 << 20, Zstd: 2*zstdWindowMax + 2<<20}

// FuzzInflate checks that decompressing arbitrary bytes ends, respects the limit and stays within
// bounded memory.
func FuzzInflate(f *testing.F) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b, err := Compress(nil, codec, bytes.Repeat([]byte("0123456789abcdef"), 30))
		must.NoError(f, err)
		f.Add(uint8(codec-1), uint16(400), b)
		f.Add(uint8(codec-1), uint16(480), b)
	}
	f.Add(uint8(Snappy-1), uint16(100), []byte("\x80\x01\x00a"))
	var buf [512]byte
	f.Fuzz(func(t *testing.T, which uint8, limit uint16, b []byte) {
		codec := 1 + Kind(which)%Zstd
		var n int
		var err error
		sebtest.Allocates(t, inflatedBound[codec]+2*(len(b)+int(limit)), b, func() {
			n = 0
			var i *Inflater
			if i, err = Open(codec, b, int64(limit)); err != nil {
				return
			}
			defer i.Close()
			for empty := 0; err == nil; {
				var k int
				if k, err = i.Read(buf[:]); k == 0 {
					empty++
				}
				if n += k; n > int(limit) || empty > len(b)+10 {
					t.Fatalf("%s: %d bytes and %d empty reads of %d bytes, %v", codec, n, empty, len(b), err)
				}
			}
		})
		if err == io.EOF && n > 0 && codec != LZ4 { // valid: can be compressed again
			if _, err := Compress(nil, codec, buf[:min(n, len(buf))]); err != nil {
				t.Fatal(err)
			}
		}
	})
}
