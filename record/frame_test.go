package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
)

// frameOf returns the values as a Frame and as encoded by Append; both must have the same bytes.
func frameOf(t testing.TB, values [][]byte, read func(io.Reader) io.Reader) (framed, encoded []byte) {
	t.Helper()
	sizes := make([]uint32, len(values))
	recs := make([]Record, len(values))
	for i, v := range values {
		sizes[i] = uint32(len(v))
		recs[i] = Record{Timestamp: 5, Value: v}
	}
	f := must.Get(NewFrame(sizes, 5, bytes.Repeat([]byte{0xaa}, FrameLen(sizes))))(t)
	body := bytes.Join(values, nil)
	src := bytes.NewReader(append(body, "next request"...))
	r := read(src)
	n, err := f.ReadFrom(r)
	if err != nil || n != int64(len(body)) {
		t.Fatalf("read %d of %d: %v", n, len(body), err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "next request" {
		t.Fatalf("left %q, %v", rest, err)
	}
	framed, sum := must.Get2(f.Finish())(t)
	encoded, want := must.Get2(Append(nil, recs, EncodeOptions{}))(t)
	must.Equal(t, cmp.Diff(want, sum), "")
	if f.Len() != len(framed) {
		t.Fatalf("Len %d, %d bytes", f.Len(), len(framed))
	}
	return framed, encoded
}

func plainReader(r io.Reader) io.Reader { return r }

func bufferedReader(size int) func(io.Reader) io.Reader {
	return func(r io.Reader) io.Reader { return bufio.NewReaderSize(r, size) }
}

func TestFrameEqualsAppend(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	random := func(n, limit int) [][]byte {
		values := make([][]byte, n)
		for i := range values {
			values[i] = make([]byte, rnd.IntN(limit))
			for j := range values[i] {
				values[i][j] = byte(rnd.Uint32())
			}
		}
		return values
	}
	cases := map[string][][]byte{
		"one empty value":          {{}},
		"one byte":                 {[]byte("a")},
		"edges of the varints":     {make([]byte, 57), make([]byte, 58), make([]byte, 63), make([]byte, 64), make([]byte, 8191), make([]byte, 8192)},
		"over 64 small values":     random(200, 20),
		"several batches":          random(3000, 2000),
		"larger than a batch":      {make([]byte, 10), make([]byte, BatchTarget+5), make([]byte, 10)},
		"just fits a batch":        {make([]byte, BatchTarget-BatchHeadSize-10), {}},
		"exactly the batch target": {make([]byte, BatchTarget-BatchHeadSize-11), {}},
	}
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			framed, encoded := frameOf(t, values, plainReader)
			if !bytes.Equal(framed, encoded) {
				t.Fatal("different bytes than Append")
			}
			sum, err := Check(framed, Limits{BatchBytes: 2 * BatchTarget})
			if err != nil || sum.Records != len(values) {
				t.Fatalf("%+v, %v", sum, err)
			}
			must.Get(Verify(framed))(t)
			for b := framed; len(b) > 0; {
				batch, rest, err := Split(b)
				if err != nil || len(batch) > BatchTarget && batch.Count() > 1 {
					t.Fatalf("%d bytes, %d records, %v", len(batch), batch.Count(), err)
				}
				b = rest
			}
			readers := []func(io.Reader) io.Reader{bufferedReader(100), bufferedReader(4096), bufferedReader(1 << 20)}
			if len(framed) < 10_000 {
				readers = append(readers, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader)
			}
			for _, read := range readers {
				if again, _ := frameOf(t, values, read); !bytes.Equal(again, framed) {
					t.Fatal("depends on the reader's pieces")
				}
			}
			var r Reader
			i := 0
			for r.Reset(framed, 0); ; i++ {
				v, ok := r.NextValue()
				if !ok {
					break
				}
				if v == nil || !bytes.Equal(v, values[i]) || r.Offset() != int64(i) {
					t.Fatalf("value %d differs", i)
				}
			}
			if r.Err() != nil || i != len(values) {
				t.Fatalf("%d of %d values, %v", i, len(values), r.Err())
			}
		})
	}
}

func TestFrameTooFewBytes(t *testing.T) {
	f := must.Get(NewFrame([]uint32{3, 4}, 1, nil))(t)
	n, err := f.ReadFrom(strings.NewReader("abcde"))
	if n != 5 || !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "read record 2 of 2: 2 of 4 bytes: unexpected EOF" {
		t.Errorf("%d, %v", n, err)
	}
	if _, _, err2 := f.Finish(); err2 != err {
		t.Errorf("Finish after an error: %v", err2)
	}
	if _, err2 := f.ReadFrom(strings.NewReader("abcdefgh")); err2 != err {
		t.Errorf("ReadFrom after an error: %v", err2)
	}
}

func TestFrameReadNext(t *testing.T) {
	f := must.Get(NewFrame([]uint32{3, 0, 4}, 1, nil))(t)
	if _, _, err := f.Finish(); err == nil {
		t.Error("Finish before the values: no error")
	}
	for _, v := range []string{"abc", "", "defg"} {
		must.NoError(t, f.ReadNext(strings.NewReader(v)))
	}
	if err := f.ReadNext(strings.NewReader("x")); err == nil {
		t.Error("one value too many: no error")
	}
	b, _ := must.Get2(f.Finish())(t)
	var got []string
	for _, r := range readAll(t, b, 0) {
		got = append(got, string(r.Value))
	}
	if diff := cmp.Diff([]string{"abc", "", "defg"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFrameRefuses(t *testing.T) {
	for name, sizes := range map[string][]uint32{
		"no values": nil, "a value too large": {math.MaxUint32}, "a later value too large": {1, math.MaxInt32, 2},
	} {
		if _, err := NewFrame(sizes, 1, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := FrameLen(sizes); n != 0 {
			t.Errorf("%s: FrameLen = %d", name, n)
		}
	}
	if _, err := NewFrame([]uint32{10}, 1, make([]byte, FrameLen([]uint32{10})-1)); err == nil {
		t.Error("short buffer: no error")
	}
	var f Frame
	if _, _, err := f.Finish(); err == nil {
		t.Error("zero Frame: no error")
	}
}

func TestFrameAllocatesNothing(t *testing.T) {
	sizes := make([]uint32, 1000)
	for i := range sizes {
		sizes[i] = 100
	}
	buf := make([]byte, FrameLen(sizes))
	src := bytes.NewReader(make([]byte, 100_000))
	var f Frame
	allocs := testing.AllocsPerRun(10, func() {
		src.Seek(0, io.SeekStart)
		must.NoError(t, f.Reset(sizes, 1, buf))
		if _, err := f.ReadFrom(src); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for 1000 records", allocs)
	}
}

// BenchmarkFrameOrAppend compares reading values into their final position with reading all, then
// encoding them.
func BenchmarkFrameOrAppend(b *testing.B) {
	src := make([]byte, 1<<20)
	sizes := make([]uint32, 1024)
	for i := range sizes {
		sizes[i] = 1024
	}
	buf := make([]byte, FrameLen(sizes))
	r := bytes.NewReader(src)
	b.Run("frame", func(b *testing.B) {
		var f Frame
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			r.Seek(0, io.SeekStart)
			must.NoError(b, f.Reset(sizes, 1, buf))
			if _, err := f.ReadFrom(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		body, records := make([]byte, len(src)), make([]Record, len(sizes))
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			r.Seek(0, io.SeekStart)
			if _, err := io.ReadFull(r, body); err != nil {
				b.Fatal(err)
			}
			for i := range records {
				records[i] = Record{Timestamp: 1, Value: body[i<<10 : (i+1)<<10]}
			}
			if _, _, err := Append(buf[:0], records, EncodeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	src := make([]byte, 1<<20)
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		sizes := make([]uint32, len(src)/size)
		for i := range sizes {
			sizes[i] = uint32(size)
		}
		buf := make([]byte, FrameLen(sizes))
		r := bytes.NewReader(src)
		for _, c := range []struct {
			name string
			r    io.Reader
		}{
			{"buffered", bufio.NewReaderSize(r, 64<<10)},
			// a buffered reader of a type that a Frame does not know
			{"plain", struct{ io.Reader }{bufio.NewReaderSize(r, 64<<10)}},
		} {
			b.Run(fmt.Sprintf("%s-%d", c.name, size), func(b *testing.B) {
				var f Frame
				b.SetBytes(int64(len(sizes) * size))
				b.ReportAllocs()
				for b.Loop() {
					r.Seek(0, io.SeekStart)
					must.NoError(b, f.Reset(sizes, 1, buf))
					if _, err := f.ReadFrom(c.r); err != nil {
						b.Fatal(err)
					}
					if _, _, err := f.Finish(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
