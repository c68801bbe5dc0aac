// Helpers for fuzz targets: bodies cut into arbitrary reads, a bound on a decoder's allocations, and
// structured values from a fuzzer's bytes.

package sebtest

import (
	"encoding/binary"
	"hash/maphash"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
)

// allocSample is a heap counter that can be read without stopping the world. Small objects appear
// when their span is full, so it may lag by some KiB. Large objects appear immediately.
const allocSample = "/gc/heap/allocs:bytes"

var seed = maphash.MakeSeed()

// Allocates fails t if f allocates more than bound bytes. It calls f at least once. It measures one
// in 256 inputs exactly, the others to a few KiB: an unchecked length exceeds that by far, and the
// measurement takes a microsecond. Other goroutines must be idle.
func Allocates(t testing.TB, bound int, input []byte, f func()) {
	if maphash.Bytes(seed, input)%256 != 0 {
		var s [1]metrics.Sample
		s[0].Name = allocSample
		metrics.Read(s[:])
		before := s[0].Value.Uint64()
		f()
		metrics.Read(s[:])
		if s[0].Value.Uint64()-before <= uint64(bound) {
			return
		}
	}
	least := uint64(math.MaxUint64)
	for range 5 { // the runtime may allocate too, so the minimum counts
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= uint64(bound) {
			return
		}
	}
	t.Fatalf("allocated %d bytes for %d bytes of input, limit %d", least, len(input), bound)
}

// DecoderBound returns the limit for a decoder of uncompressed bytes: twice its input and 4 KiB.
func DecoderBound(input []byte) int { return 2*len(input) + 4<<10 }

// Cut returns a reader of b in pieces whose lengths depend on cuts; 0 gives one byte at a time.
// Some readers return EOF with the last bytes, some after them, as io.Reader allows.
func Cut(b []byte, cuts uint64) *Reader {
	return &Reader{b: b, state: cuts, single: cuts == 0, late: cuts&1 == 0}
}

// Reader is the result of Cut.
type Reader struct {
	b            []byte
	state        uint64
	single, late bool
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := 1
	if !r.single {
		r.state = r.state*6364136223846793005 + 1442695040888963407
		// The pieces are mostly short, and sometimes of maximum length.
		n += int(r.state>>33) >> (r.state >> 59 & 31)
	}
	n = copy(p, r.b[:min(n, len(r.b))])
	r.b = r.b[n:]
	if len(r.b) == 0 && !r.late {
		return n, io.EOF
	}
	return n, nil
}

// Close does nothing. It lets a Reader be the body of a request.
func (*Reader) Close() error { return nil }

// Source derives values from a fuzzer's bytes, in order. After the last byte it returns zeros.
type Source struct{ B []byte }

// Done reports whether all bytes were used.
func (s *Source) Done() bool { return len(s.B) == 0 }

// Byte returns the next byte.
func (s *Source) Byte() byte {
	if len(s.B) == 0 {
		return 0
	}
	b := s.B[0]
	s.B = s.B[1:]
	return b
}

// Bool returns the lowest bit of the next byte.
func (s *Source) Bool() bool { return s.Byte()&1 != 0 }

// Int returns a value from 0 to n-1; n is at most 65,536. It uses one byte, or two if n is above
// 256.
func (s *Source) Int(n int) int {
	v := int(s.Byte())
	if n > 256 {
		v = v<<8 | int(s.Byte())
	}
	return v % n
}

// Uint64 uses a byte for the number of following bytes, so that small numbers and those near a
// power of 256 are likely.
func (s *Source) Uint64() uint64 {
	var b [8]byte
	kind := s.Byte()
	n := copy(b[:], s.take(int(kind&15)%9))
	v := binary.LittleEndian.Uint64(b[:])
	if kind&16 != 0 && n < 8 {
		v = 1<<(8*n) - v // just below a power of 256
	}
	if kind&32 != 0 {
		v = -v
	}
	return v
}

// Bytes returns up to limit bytes that alias the input, and sometimes nil.
func (s *Source) Bytes(limit int) []byte {
	n := s.Int(limit + 2)
	if n == 0 {
		return nil
	}
	return s.take(n - 1)
}

// Pick returns one of the choices.
func Pick[T any](s *Source, choices ...T) T { return choices[s.Int(len(choices))] }

func (s *Source) take(n int) []byte {
	n = min(n, len(s.B))
	b := s.B[:n:n]
	s.B = s.B[n:]
	return b
}
