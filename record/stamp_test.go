package record

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sebbroker/seb/test/must"
)

func TestStampedBatchesAreAsIfEncodedSo(t *testing.T) {
	p := Producer{ID: 77, Epoch: 3, Sequence: math.MaxInt32 - 1} // wraps within the batches
	recs := make([]Record, 5)
	for i := range recs {
		recs[i] = Record{Value: bytes.Repeat([]byte{byte(i)}, BatchTarget/2+1), Timestamp: int64(i)}
	}
	for codec := None; codec <= Zstd; codec++ {
		want, sum, err := Append(nil, recs, EncodeOptions{Compression: codec, Producer: &p})
		if err != nil || sum.Batches != len(recs) {
			t.Fatalf("%+v, %v", sum, err)
		}
		got, _ := must.Get2(Append(nil, recs, EncodeOptions{Compression: codec}))(t)
		StampProducer(got, p)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: differs", codec)
		}
		if checked, err := Check(got, Limits{}); err != nil || checked != sum {
			t.Errorf("%s: %+v, want %+v, %v", codec, checked, sum, err)
		}
		got[len(got)-1] ^= 1
		StampProducer(got, Producer{ID: 1})
		if _, err := Check(got, Limits{}); err == nil {
			t.Errorf("%s: a stamp hid damage", codec)
		}
	}
}

// TestAppendTimeIsAllThatAStampChanges: several batches of every codec, stamped once or twice, read
// by another implementation of the format and by this one.
func TestAppendTimeIsAllThatAStampChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		codec := Compression(rapid.IntRange(int(None), int(Zstd)).Draw(rt, "codec"))
		var sent, stored []byte
		var recs []Record
		for range rapid.IntRange(1, 3).Draw(rt, "batches") {
			some := genRecords(rt)
			var err error
			if sent, _, err = Append(sent, some, EncodeOptions{Compression: codec}); err != nil {
				rt.Fatal(err)
			}
			recs = append(recs, some...)
		}
		before := must.Get(Check(sent, Limits{}))(rt)
		base := rapid.Int64Range(0, 1<<50).Draw(rt, "base")
		Patch(sent, base, 3)
		stored = bytes.Clone(sent)
		if rapid.Bool().Draw(rt, "twice") {
			StampAppendTime(stored, rapid.Int64().Draw(rt, "earlier"))
		}
		now := rapid.Int64().Draw(rt, "now")
		StampAppendTime(stored, now)

		want, got := kmsgHeads(rt, sent), kmsgHeads(rt, stored)
		for i := range want {
			want[i].Attributes |= AttrLogAppendTime
			want[i].MaxTimestamp = now
			want[i].CRC = int32(CRC32C(want[i].AppendTo(nil)[posAttributes:]))
		}
		must.Equal(rt, cmp.Diff(want, got), "")
		after, err := Verify(stored)
		before.MinTimestamp, before.MaxTimestamp = now, now
		if err != nil || after != before {
			rt.Fatalf("%+v, want %+v, %v", after, before, err)
		}
		for i := range recs {
			recs[i].Offset, recs[i].Timestamp = base+int64(i), now
		}
		must.Equal(rt, cmp.Diff(recs, readAll(t, stored, base), sameBytes), "")
		var invalid *InvalidError
		if _, err := Check(stored, Limits{}); !errors.As(err, &invalid) || invalid.Field != FieldAttributes {
			rt.Fatalf("sent by a client: %v", err)
		}
	})
}

// kmsgHeads decodes batch headers of any codec with another implementation of the format.
func kmsgHeads(t must.T, b []byte) (batches []kmsg.RecordBatch) {
	for len(b) > 0 {
		var kb kmsg.RecordBatch
		n := int(Batch(b).i32(posLength)) + lengthBase
		must.NoError(t, kb.ReadFrom(b[:n]))
		batches, b = append(batches, kb), b[n:]
	}
	return batches
}

// TestCompactionKeepsAppendTime: kept records have the timestamps that they were committed with,
// however few they are.
func TestCompactionKeepsAppendTime(t *testing.T) {
	recs := make([]Record, 9)
	for i := range recs {
		recs[i] = Record{Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{'v'}, 50), Timestamp: int64(100 + i)}
	}
	for codec := None; codec <= Zstd; codec++ {
		b, _ := must.Get2(Append(nil, recs, EncodeOptions{Compression: codec}))(t)
		Patch(b, 20, 1)
		StampAppendTime(b, 7_000)
		for left := range 4 { // none to three records are kept
			var c Compactor
			out, sum := must.Get2(c.Append(nil, b, func(e *CompactEntry) bool { return e.Offset%3 == 0 && e.Offset < 20+3*int64(left) }))(t)
			if sum.Span != 9 || sum.Records != left || sum.MinTimestamp != 7_000 || sum.MaxTimestamp != 7_000 {
				t.Errorf("%s: %+v", codec, sum)
			}
			for _, r := range readAll(t, out, 20) {
				if r.Timestamp != 7_000 || r.Key[0] != byte(r.Offset-20) {
					t.Errorf("%s: %+v", codec, r)
				}
			}
		}
	}
}
