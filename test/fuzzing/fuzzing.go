// Package fuzzing holds what fuzz targets share: bodies cut into any reads, a bound on what a decoder allocates, structured
// values out of a fuzzer's bytes. Only tests use it.
package fuzzing

import (
	"encoding/binary"
	"hash/maphash"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
)

// allocSample is a counter of the heap that can be read without stopping the world. Small objects show up in it only when
// a span of them is full, so it may be late by some KiB; what is large shows up at once.
const allocSample = "/gc/heap/allocs:bytes"

var seed = maphash.MakeSeed()

// Allocates fails t if f allocates more than bound bytes; f is run at least once. input is what the fuzzer gave: one input in 256
// is measured to the byte, the others to a few KiB, which a length that was believed exceeds by far and costs a
// microsecond. Other goroutines must be idle.
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
	for range 5 { // the runtime allocates too now and then: the least counts
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= uint64(bound) {
			return
		}
	}
	t.Fatalf("%d bytes allocated for %d bytes of input, at most %d are allowed", least, len(input), bound)
}

// DecoderBound is what a decoder of uncompressed bytes may allocate for an input: twice its size and 4 KiB.
func DecoderBound(input []byte) int { return 2*len(input) + 4<<10 }

// Cut is a reader of b in pieces of which cuts says the lengths; 0 gives one byte at a time. Some give the end together
// with the last bytes, some after them, as io.Reader allows.
func Cut(b []byte, cuts uint64) *Reader {
	return &Reader{b: b, state: cuts, single: cuts == 0, late: cuts&1 == 0}
}

// Reader is what Cut returns.
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
		n += int(r.state>>33) >> (r.state >> 59 & 31) // mostly short, now and then as long as can be
	}
	n = copy(p, r.b[:min(n, len(r.b))])
	r.b = r.b[n:]
	if len(r.b) == 0 && !r.late {
		return n, io.EOF
	}
	return n, nil
}

// Close does nothing: a Reader may be the body of a request.
func (*Reader) Close() error { return nil }

// Source makes values of a fuzzer's bytes, front to back. When there are no more it gives zeros.
type Source struct{ B []byte }

// Done says whether all bytes were used.
func (s *Source) Done() bool { return len(s.B) == 0 }

// Byte is the next byte.
func (s *Source) Byte() byte {
	if len(s.B) == 0 {
		return 0
	}
	b := s.B[0]
	s.B = s.B[1:]
	return b
}

// Bool is the lowest bit of the next byte.
func (s *Source) Bool() bool { return s.Byte()&1 != 0 }

// Int is from 0 to n-1; n is at most 65,536. It takes one byte, or two if n is above 256.
func (s *Source) Int(n int) int {
	v := int(s.Byte())
	if n > 256 {
		v = v<<8 | int(s.Byte())
	}
	return v % n
}

// Uint64 takes a byte that says how many follow, so that small numbers, and those near a power of 256, are likely.
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

// Bytes takes up to limit bytes, which alias the input; nil now and then.
func (s *Source) Bytes(limit int) []byte {
	n := s.Int(limit + 2)
	if n == 0 {
		return nil
	}
	return s.take(n - 1)
}

// Pick is one of the choices.
func Pick[T any](s *Source, choices ...T) T { return choices[s.Int(len(choices))] }

func (s *Source) take(n int) []byte {
	n = min(n, len(s.B))
	b := s.B[:n:n]
	s.B = s.B[n:]
	return b
}
