package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// seed adds the golden files with this prefix, and some hostile inputs.
func seed(f *testing.F, prefix string) {
	paths, err := filepath.Glob(filepath.Join("testdata", prefix+"*.hex"))
	if err != nil || len(paths) == 0 {
		f.Fatal("no golden files ", prefix, err)
	}
	for _, p := range paths {
		text := must.Get(os.ReadFile(p))(f)
		var digits strings.Builder
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
		f.Add(must.Get(hex.DecodeString(digits.String()))(f))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 300))
}

// repairBatches corrects the checksums of the batches in b, so that a fuzzer gets past them.
func repairBatches(b []byte) (plain bool) {
	plain = true
	for {
		first, rest, err := Split(b)
		if err != nil {
			return plain
		}
		binary.BigEndian.PutUint32(first[posCRC:], first.checksum())
		plain = plain && first.Compression() == None
		b = rest
	}
}

func fuzzLimits() Limits { return Limits{DecompressedBytes: 2 << 20} }

func FuzzSplit(f *testing.F) {
	seed(f, "batch-")
	f.Fuzz(func(t *testing.T, b []byte) {
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { Split(b) })
		first, rest, err := Split(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || first != nil {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(append(bytes.Clone(first), rest...), b) || first.Len() < BatchHeadSize {
			t.Fatal("does not split the input")
		}
	})
}

// FuzzCheck: accepted batches, possibly after a repair, can be read completely. Verify and another
// implementation of the format agree, and encoding the records again gives the same.
func FuzzCheck(f *testing.F) {
	seed(f, "batch-")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		plain := repairBatches(b)
		var sum Summary
		var err error
		verify := func() { sum, err = Check(b, fuzzLimits()) }
		if plain {
			sebtest.Allocates(t, sebtest.DecoderBound(b), b, verify)
		} else {
			verify()
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			if sum, err = CheckRepair(b, fuzzLimits()); err != nil {
				return
			}
			if again, err := Check(b, fuzzLimits()); err != nil || again != sum {
				t.Fatalf("repaired, yet Check gives %+v, %v; CheckRepair gave %+v", again, err, sum)
			}
		}
		if next := Patch(b, 7, 1); next != 7+sum.Span || sum.Span != int64(sum.Records) {
			t.Fatalf("next offset %d, %+v", next, sum)
		}
		if v, err := Verify(b); err != nil || v.Records != sum.Records || v.Batches != sum.Batches {
			t.Fatalf("accepted, yet Verify gives %+v, %v", v, err)
		}
		got := readAll(t, b, 0)
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for i, r := range got {
			if r.Offset != 7+int64(i) {
				t.Fatalf("record %d has offset %d", i, r.Offset)
			}
			low, high = min(low, r.Timestamp), max(high, r.Timestamp)
		}
		if len(got) != sum.Records || low != sum.MinTimestamp || high != sum.MaxTimestamp {
			t.Fatalf("read %d records from %d to %d; %+v", len(got), low, high, sum)
		}
		if plain {
			if theirs, _ := kmsgDecode(t, b); !sameRecords(got, theirs) {
				t.Fatal(cmp.Diff(got, theirs))
			}
		}
		again, _, err := Append(nil, got, EncodeOptions{})
		if err != nil {
			return // timestamps of different batches may be too far apart for one
		}
		Patch(again, 7, 1)
		if back := readAll(t, again, 0); !sameRecords(got, back) {
			t.Fatal(cmp.Diff(got, back))
		}
	})
}

// sameRecords distinguishes null from empty.
func sameRecords(a, b []Record) bool {
	same := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return slices.EqualFunc(a, b, func(x, y Record) bool {
		return x.Offset == y.Offset && x.Timestamp == y.Timestamp && same(x.Key, y.Key) && same(x.Value, y.Value) &&
			slices.EqualFunc(x.Headers, y.Headers, func(g, h Header) bool { return g.Key == h.Key && same(g.Value, h.Value) })
	})
}

// The parsers of records in memory and in a stream accept the same bytes.
func FuzzScan(f *testing.F) {
	seed(f, "batch-none")
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < BatchHeadSize {
			return
		}
		count := int(b[0])
		one := recordScan{count: count, min: math.MaxInt64, max: math.MinInt64}
		two := one
		b = b[BatchHeadSize:]
		plain, stream := one.plain(b), two.stream(bufio.NewReaderSize(bytes.NewReader(b), 16))
		if (plain == nil) != (stream == nil) || plain == nil && one != two {
			t.Fatalf("in memory %v %+v, as a stream %v %+v", plain, one, stream, two)
		}
	})
}

func FuzzVerify(f *testing.F) {
	seed(f, "batch-")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		repairBatches(b)
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { Verify(b) })
		if s, err := Verify(b); err == nil && (s.Batches == 0 || int64(s.Records) > s.Span) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

func FuzzReader(f *testing.F) {
	seed(f, "batch-")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		plain := repairBatches(b)
		read := func() (n int, err error) {
			r := Reader{Limits: fuzzLimits()}
			last := int64(-1)
			for r.Reset(b, 0); r.Next(); n++ {
				if r.Record().Offset <= last {
					t.Fatalf("offset %d after %d", r.Record().Offset, last)
				}
				last = r.Record().Offset
			}
			return n, r.Err()
		}
		if plain {
			sebtest.Allocates(t, sebtest.DecoderBound(b)+2*40*HeadersMax, b, func() { read() })
		}
		n, err := read()
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		r := Reader{Limits: fuzzLimits()}
		values := 0
		for r.Reset(b, 0); ; values++ {
			if _, ok := r.NextValue(); !ok {
				break
			}
		}
		// NextValue does not parse headers, so it may read more records, but never fewer.
		if values < n || err == nil && (values != n || r.Err() != nil) {
			t.Fatalf("%d records, %v; %d values, %v", n, err, values, r.Err())
		}
	})
}

// repairObject corrects all checksums of an object, as far as its lengths allow.
func repairObject(b []byte) {
	if len(b) < HeadSize {
		return
	}
	le := binary.LittleEndian
	end := HeadSize + uint64(le.Uint32(b[96:])) + uint64(le.Uint32(b[100:]))*IndexEntrySize
	if end <= uint64(len(b)) {
		repairBatches(b[end:])
		crc := CRC32C(b[HeadSize:end])
		le.PutUint32(b[104:], crc)
		for rest := b[end:]; len(rest) >= batchPrefix; {
			crc = crcUpdate(crc, rest[:batchPrefix])
			_, next, err := Split(rest)
			if err != nil {
				break
			}
			rest = next
		}
		le.PutUint32(b[108:], crc)
	}
	le.PutUint32(b[headCRCPos:], headCRC(b[:HeadSize]))
}

func FuzzDecodeHead(f *testing.F) {
	seed(f, "object-v2")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		repairObject(b)
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { DecodeHead(b) })
		h, err := DecodeHead(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again := h.Encode(nil); !bytes.Equal(again, b[:HeadSize]) {
			t.Fatalf("%x\nencodes to\n%x", b[:HeadSize], again)
		}
	})
}

func FuzzDecodeMeta(f *testing.F) {
	seed(f, "object-v2")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		repairObject(b)
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { DecodeMeta(b) })
		h, state, index, need, err := DecodeMeta(b)
		switch {
		case err != nil:
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		case need > 0:
			if need <= len(b) || need > ObjectBytesMax {
				t.Fatalf("need %d with %d bytes", need, len(b))
			}
		default:
			meta := bytes.Clone(state)
			for i := range index {
				meta = appendIndexEntry(meta, &index[i])
			}
			if !bytes.Equal(meta, b[HeadSize:h.metaEnd()]) {
				t.Fatal("does not encode to its input")
			}
		}
	})
}

func FuzzDecodeObject(f *testing.F) {
	seed(f, "object-v2")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		repairObject(b)
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() { DecodeObject(b) })
		o, err := DecodeObject(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		h, index := o.Head, append([]IndexEntry(nil), o.Index...)
		var parts [][]byte
		for i := range index {
			parts = append(parts, o.Batches(i))
		}
		prefix, err := EncodeObject(&h, o.State, index, parts)
		must.NoError(t, err)
		whole := append(prefix, bytes.Join(parts, nil)...)
		if !bytes.Equal(whole, b) || ObjectCRC32C(prefix, parts) != CRC32C(b) {
			t.Fatal("does not encode to its input")
		}
	})
}
