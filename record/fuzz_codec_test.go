package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// inBatch puts records, compressed if codec says so, into a batch with a correct header.
func inBatch(codec Compression, count uint8, maxTime int64, records []byte) []byte {
	b := append(make([]byte, BatchHeadSize), records...)
	putBatchHead(b, &batchHead{
		length: len(b), attributes: int16(codec), count: int(count), maxTime: maxTime, producerID: -1, producerEpoch: -1, baseSequence: -1,
	})
	binary.BigEndian.PutUint32(b[posCRC:], Batch(b).checksum())
	return b
}

// FuzzNested: Check and Reader treat any bytes the same, plain and in each codec.
func FuzzNested(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		plain, _ := must.Get2(Append(nil, sampleRecords(), EncodeOptions{}))(f)
		b := Batch(plain)
		f.Add(uint8(codec), uint8(b.Count()), b.MaxTimestamp()-b.BaseTimestamp(), plain[BatchHeadSize:])
	}
	f.Fuzz(func(t *testing.T, which, count uint8, maxTime int64, records []byte) {
		codec := 1 + Compression(which)%Zstd
		small := must.Get(deflate(codec, records))(t)
		plain, nested := inBatch(None, count, maxTime, records), inBatch(codec, count, maxTime, small)
		sum, err := Check(plain, fuzzLimits())
		sum2, err2 := Check(nested, fuzzLimits())
		if (err == nil) != (err2 == nil) || err == nil && sum != sum2 {
			t.Fatalf("plain %+v, %v; %s %+v, %v", sum, err, codec, sum2, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !errors.Is(err2, ErrInvalid) {
				t.Fatal(err, err2)
			}
			return
		}
		if a, b := readAll(t, plain, 0), readAll(t, nested, 0); !sameRecords(a, b) {
			t.Fatal(cmp.Diff(a, b))
		}
	})
}

// FuzzFrame: values that arrive in arbitrary pieces become the batches of Append. The Frame reads
// nothing after them, and too few bytes are an error.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{3, 0, 200}, []byte("some bytes that come on a socket"), uint64(3))
	f.Add([]byte{0}, []byte{}, uint64(0))
	var frame Frame
	f.Fuzz(func(t *testing.T, lengths, body []byte, cuts uint64) {
		sizes := make([]uint32, len(lengths))
		recs := make([]Record, len(lengths))
		sum := 0
		for i, n := range lengths {
			sizes[i] = uint32(n)
			recs[i] = Record{Timestamp: 77, Value: body[min(sum, len(body)):min(sum+int(n), len(body))]}
			sum += int(n)
		}
		if err := frame.Reset(sizes, 77, make([]byte, FrameLen(sizes))); err != nil {
			if len(sizes) == 0 {
				return
			}
			t.Fatal(err)
		}
		r := sebtest.Cut(body, cuts)
		n, err := frame.ReadFrom(r)
		got, gotSum, finishErr := frame.Finish()
		if sum > len(body) {
			if !errors.Is(err, io.ErrUnexpectedEOF) || finishErr == nil {
				t.Fatalf("%d of %d bytes: %v, %v", len(body), sum, err, finishErr)
			}
			return
		}
		if rest, _ := io.ReadAll(r); err != nil || finishErr != nil || n != int64(sum) || !bytes.Equal(rest, body[sum:]) {
			t.Fatalf("%d of %d bytes read, %d left: %v, %v", n, sum, len(rest), err, finishErr)
		}
		want, wantSum, err := Append(nil, recs, EncodeOptions{})
		if err != nil || !bytes.Equal(got, want) || gotSum != wantSum {
			t.Fatalf("%x %+v\nwant\n%x %+v, %v", got, gotSum, want, wantSum, err)
		}
	})
}

// FuzzStamp: a stamped batch has a correct checksum if it had one before, and other damage stays
// detectable.
func FuzzStamp(f *testing.F) {
	seed(f, "batch-")
	f.Fuzz(func(t *testing.T, b []byte) {
		damaged := bytes.Clone(b)
		b = bytes.Clone(b)
		repairBatches(b)
		if _, rest, err := Split(b); err != nil || len(rest) > 0 {
			return
		}
		right := func(b Batch) bool { return b.checksum() == b.CRC() }
		was := right(damaged)
		StampAppendTime(b, 99)
		StampProducer(b, Producer{ID: 5, Epoch: 2, Sequence: 7})
		if s := Batch(b); !right(s) || s.MaxTimestamp() != 99 || s.Attributes()&AttrLogAppendTime == 0 || s.ProducerID() != 5 || s.BaseSequence() != 7 {
			t.Fatalf("% x", b)
		}
		StampAppendTime(damaged, 99)
		StampProducer(damaged, Producer{ID: 5, Epoch: 2, Sequence: 7})
		if right(damaged) != was {
			t.Fatalf("a stamp changed the validity of the checksum: was %v", was)
		}
	})
}

// FuzzCompactor: kept records are unchanged and keep their offsets. The span is unchanged. A second
// compaction changes nothing.
func FuzzCompactor(f *testing.F) {
	seed(f, "batch-")
	f.Add(compacted(10))
	f.Add(emptied(15))
	var c, again Compactor
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		mask := binary.BigEndian.Uint64(b[len(b)-8:]) // part of the last batch: arbitrary bits
		stays := func(offset int64) bool { return mask>>(uint64(offset)%64)&1 != 0 }
		b = bytes.Clone(b)
		repairBatches(b)
		c.Limits = fuzzLimits()
		out, sum, err := c.Append([]byte("x"), b, func(e *CompactEntry) bool { return stays(e.Offset) })
		if err != nil {
			if string(out) != "x" || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%q, %v", out, err)
			}
			return
		}
		out = out[1:]
		before, err := Verify(b)
		if after, err2 := Verify(out); err != nil || err2 != nil || after != sum || sum.Span != before.Span || sum.Records > before.Records {
			t.Fatalf("%+v became %+v (%v, %v)", before, sum, err, err2)
		}
		same, _, err := again.Append(nil, out, func(*CompactEntry) bool { return true })
		if err != nil || !bytes.Equal(same, out) {
			t.Fatalf("compacted again, other bytes: %v", err)
		}
		var r, kept Reader
		r.Limits, kept.Limits = fuzzLimits(), fuzzLimits()
		r.Reset(b, 0)
		kept.Reset(out, 0)
		for r.Next() {
			if !stays(r.Offset()) {
				continue
			}
			if !kept.Next() || !sameRecords([]Record{*kept.Record()}, []Record{*r.Record()}) {
				t.Fatalf("%+v became %+v, %v", r.Record(), kept.Record(), kept.Err())
			}
		}
		// The compactor does not parse headers. A reader stops at damaged ones in both results.
		if r.Err() == nil && kept.Next() {
			t.Fatalf("%+v was not removed", kept.Record())
		}
	})
}

// A snappy block has its size: Check refuses one beyond the limit before it allocates memory.
func TestSnappyBlockBeyondTheLimit(t *testing.T) {
	block := snappy.Encode(nil, make([]byte, 1<<20))
	b := inBatch(Snappy, 1, 0, block)
	sebtest.Allocates(t, 32<<10, nil, func() {
		if _, err := Check(b, Limits{DecompressedBytes: 100 << 10}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("not too large: %v", err)
		}
	})
}
