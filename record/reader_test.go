package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/base/codec"
	"github.com/sebbroker/seb/test/must"
)

// compacted returns a batch at base with five offsets, of which deltas 1 and 3 have a record.
func compacted(base int64) []byte {
	b := kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) {
		kb.LastOffsetDelta = 4
		kb.Records = append(rawFields{offset: 1, key: -1, value: -1}.encode(), rawFields{offset: 3, key: -1, value: -1}.encode()...)
	})
	Patch(b, base, 1)
	return b
}

// emptied returns a batch at base with three offsets and no record.
func emptied(base int64) []byte {
	b := kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) { kb.LastOffsetDelta, kb.NumRecords, kb.Records = 2, 0, nil })
	Patch(b, base, 1)
	return b
}

func offsets(t *testing.T, b []byte, from int64) []int64 {
	t.Helper()
	var out []int64
	for _, r := range readAll(t, b, from) {
		out = append(out, r.Offset)
	}
	return out
}

func TestReaderSkipsRemovedRecords(t *testing.T) {
	full, _ := testBatches(t, 3, 4, 18, 1)
	b := bytes.Join([][]byte{compacted(10), emptied(15), full, emptied(21)}, nil)
	s, err := Verify(b)
	if err != nil || s.Records != 5 || s.Span != 14 || s.Batches != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	for from, want := range map[int64][]int64{
		0: {11, 13, 18, 19, 20}, 11: {11, 13, 18, 19, 20}, 12: {13, 18, 19, 20}, 14: {18, 19, 20}, 16: {18, 19, 20}, 20: {20}, 21: nil, 99: nil,
	} {
		if diff := cmp.Diff(want, offsets(t, b, from)); diff != "" {
			t.Errorf("from %d: %s", from, diff)
		}
	}
	if _, err := Check(compacted(10), Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a client may not send compacted batches: %v", err)
	}
}

func TestReaderStopsAtDamage(t *testing.T) {
	a, _ := testBatches(t, 2, 4, 0, 1)
	with := func(change func(b []byte)) []byte {
		b, _ := testBatches(t, 2, 4, 2, 1)
		change(b)
		return append(bytes.Clone(a), b...)
	}
	repaired := func(change func(b []byte)) []byte {
		return with(func(b []byte) {
			change(b)
			binary.BigEndian.PutUint32(b[posCRC:], Batch(b).checksum())
		})
	}
	for name, b := range map[string][]byte{
		"a flipped bit":           with(func(b []byte) { b[len(b)-1] ^= 1 }),
		"a gap":                   with(func(b []byte) { Patch(b, 3, 1) }),
		"an overlap":              with(func(b []byte) { Patch(b, 1, 1) }),
		"a negative offset":       with(func(b []byte) { Patch(b, -9, 1) }),
		"another magic":           with(func(b []byte) { b[posMagic] = 1 }),
		"cut off":                 with(func([]byte) {})[:2*len(a)-1],
		"count above span":        repaired(func(b []byte) { b[posCount+3] = 3 }),
		"count below the records": repaired(func(b []byte) { b[posCount+3] = 1 }),
		"delta beyond the span":   repaired(func(b []byte) { b[posLastOffsetDelta+3], b[posCount+3] = 0, 1 }),
		"a delta twice":           repaired(func(b []byte) { b[len(b)-8] = 0 }),
		"unknown codec":           repaired(func(b []byte) { b[posAttributes+1] = 6 }),
	} {
		var r Reader
		n := 0
		for r.Reset(b, 0); r.Next(); n++ {
		}
		if !errors.Is(r.Err(), ErrCorrupt) || n < 2 || r.Next() {
			t.Errorf("%s: %d records, %v", name, n, r.Err())
		}
		if _, ok := r.NextValue(); ok {
			t.Errorf("%s: continues after the error", name)
		}
		// Verify does not parse records, so it detects only errors in headers, bounds and
		// checksums.
		if _, err := Verify(b); !errors.Is(err, ErrCorrupt) && !strings.Contains(name, "delta") && !strings.Contains(name, "below") &&
			name != "unknown codec" {
			t.Errorf("%s: Verify: %v", name, err)
		}
		// A reader that starts after the damaged batch does not check it.
		if name == "a flipped bit" {
			if got := offsets(t, b, 4); got != nil {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
}

func TestReaderAllocatesNothingPerRecord(t *testing.T) {
	recs := make([]Record, 500)
	for i := range recs {
		recs[i] = Record{Key: []byte("key"), Value: []byte("value"), Headers: []Header{{"a", []byte("b")}, {"c", nil}}}
	}
	for codec := None; codec <= Zstd; codec++ {
		b, _, err := Append(nil, recs, EncodeOptions{Compression: codec})
		must.NoError(t, err)
		var r Reader
		allocs := testing.AllocsPerRun(5, func() {
			n := 0
			for r.Reset(b, 0); r.Next(); n++ {
			}
			if n != len(recs) || r.Err() != nil {
				t.Fatal(n, r.Err())
			}
		})
		// decompressors allocate per batch
		if limit := map[bool]float64{true: 0, false: 50}[codec == None]; allocs > limit {
			t.Errorf("%s: %v allocations for %d records", codec, allocs, len(recs))
		}
	}
}

// Concurrent callers share the decompressors; run with -race.
func TestConcurrentChecksAndReads(t *testing.T) {
	var batches [Zstd + 1][]byte
	for codec := range batches {
		var err error
		if batches[codec], _, err = Append(nil, sampleRecords(), EncodeOptions{Compression: Compression(codec)}); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for range 4 * InflatersMax {
		group.Go(func() {
			var r Reader
			for i := range 200 {
				b := batches[i%len(batches)]
				if s, err := Check(b, Limits{}); err != nil || s.Records != 4 {
					t.Errorf("%+v, %v", s, err)
				}
				if _, err := Check(b[:len(b)-1], Limits{}); err == nil {
					t.Error("cut off: no error")
				}
				n := 0
				for r.Reset(b, 0); r.Next(); n++ {
				}
				if n != 4 || r.Err() != nil {
					t.Errorf("%d, %v", n, r.Err())
				}
			}
		})
	}
	group.Wait()
	if !codec.Idle() {
		t.Error("memory of decompressors was not released")
	}
}

// A large size claimed by few bytes is detected before memory is allocated.
func TestClaimsAreNotBelieved(t *testing.T) {
	allocated := func(parse func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		parse()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	head := Head{Kind: KindData, ObjectLen: 40 << 20, StateLen: 16 << 20, IndexCount: 100_000}
	claim := func(codec Compression, b string) []byte {
		return kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) { kb.Records, kb.Attributes = []byte(b), int16(codec) })
	}
	verify := func(b []byte) error {
		_, err := Check(b, Limits{})
		return err
	}
	for name, parse := range map[string]func() error{
		"object": func() error { _, err := DecodeObject(head.Encode(nil)); return err },
		"records": func() error {
			return verify(kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) { kb.NumRecords, kb.LastOffsetDelta = 16<<20, 16<<20-1 }))
		},
		"value":        func() error { return verify(claim(None, string(rawFields{key: -1, value: 16 << 20}.encode()))) },
		"snappy block": func() error { return verify(claim(Snappy, "\x80\x80\x80\x08"+strings.Repeat("\x00a", 18))) },
		// Single segment, content size 16 MiB; then a window descriptor of 16 MiB.
		"zstd content": func() error {
			return verify(claim(Zstd, "\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x01"+strings.Repeat("\x00", 31)))
		},
		"zstd window": func() error { return verify(claim(Zstd, "\x28\xb5\x2f\xfd\x00\x70"+strings.Repeat("\x00", 34))) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := parse(); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			if n := allocated(func() { _ = parse() }); n > 256<<10 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		recs := make([]Record, (1<<20)/size)
		for i := range recs {
			recs[i] = Record{Value: bytes.Repeat([]byte(fmt.Sprintf("{\"event\": %d} ", i)), size/13+1)[:size]}
		}
		run := func(name string, data []byte, f func() error) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(recs) * size))
				b.ReportAllocs()
				for b.Loop() {
					must.NoError(b, f())
				}
			})
		}
		plain, _, err := Append(nil, recs, EncodeOptions{})
		must.NoError(b, err)
		dst := make([]byte, 0, len(plain))
		limits := Limits{BatchBytes: 2 << 20}
		run("append", plain, func() error { _, _, err := Append(dst, recs, EncodeOptions{}); return err })
		run("verify", plain, func() error { _, err := Verify(plain); return err })
		for codec := None; codec <= Zstd; codec++ {
			data, _, err := Append(nil, recs, EncodeOptions{Compression: codec})
			must.NoError(b, err)
			run("check/"+codec.String(), data, func() error { _, err := Check(data, limits); return err })
			var r Reader
			run("read/"+codec.String(), data, func() error {
				for r.Reset(data, 0); r.Next(); {
				}
				return r.Err()
			})
		}
		var r Reader
		run("values", plain, func() error {
			r.Reset(plain, 0)
			for {
				if _, ok := r.NextValue(); !ok {
					return r.Err()
				}
			}
		})
	}
}

// TestReaderOfGaps: with Gaps a batch may begin later than the one before ends, but never earlier.
func TestReaderOfGaps(t *testing.T) {
	for _, c := range []struct {
		second int64
		gaps   bool
		want   string
	}{
		{10, false, "[6 8 11 13] true"}, {11, false, "[6 8] false"}, {11, true, "[6 8 12 14] true"}, {9, true, "[6 8] false"},
	} {
		r := Reader{Gaps: c.gaps}
		var got []int64
		for r.Reset(append(compacted(5), compacted(c.second)...), 0); r.Next(); {
			got = append(got, r.Offset())
		}
		if text := fmt.Sprint(got, r.Err() == nil); text != c.want {
			t.Errorf("second batch at %d, gaps %v: %s, want %s", c.second, c.gaps, text, c.want)
		}
	}
}
