package record

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sebbroker/seb/internal/engine/base/codec"
	"github.com/sebbroker/seb/test/must"
)

// sameBytes compares slices whole: cmp looks at each byte by reflection. nil differs from empty.
var sameBytes = cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

// kmsgEncode encodes recs as a batch with another implementation of the format.
func kmsgEncode(recs []Record, change func(*kmsg.RecordBatch)) []byte {
	kb := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: int32(len(recs) - 1), FirstTimestamp: recs[0].Timestamp, MaxTimestamp: recs[0].Timestamp,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(recs)),
	}
	for i, r := range recs {
		kb.MaxTimestamp = max(kb.MaxTimestamp, r.Timestamp)
		kr := kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: r.Timestamp - recs[0].Timestamp, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			kr.Headers = append(kr.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		kr.Length = int32(len(kr.AppendTo(nil)) - 1) // without the one-byte length 0
		kb.Records = kr.AppendTo(kb.Records)
	}
	if change != nil {
		change(&kb)
	}
	kb.Length = int32(BatchHeadSize - lengthBase + len(kb.Records))
	kb.CRC = int32(CRC32C(kb.AppendTo(nil)[posAttributes:]))
	return kb.AppendTo(nil)
}

// kmsgDecode decodes uncompressed batches with another implementation of the format.
func kmsgDecode(t must.T, b []byte) (recs []Record, batches []kmsg.RecordBatch) {
	for len(b) > 0 {
		var kb kmsg.RecordBatch
		n := int(Batch(b).i32(posLength)) + lengthBase
		must.NoError(t, kb.ReadFrom(b[:n]))
		b = b[n:]
		batches = append(batches, kb)
		raw := kb.Records
		for range kb.NumRecords {
			var kr kmsg.Record
			must.NoError(t, kr.ReadFrom(raw))
			rec := Record{
				Offset: kb.FirstOffset + int64(kr.OffsetDelta), Timestamp: kb.FirstTimestamp + kr.TimestampDelta64,
				Key: kr.Key, Value: kr.Value,
			}
			for _, h := range kr.Headers {
				rec.Headers = append(rec.Headers, Header{h.Key, h.Value})
			}
			recs = append(recs, rec)
			raw = raw[int(kr.Length)+varintSize(int64(kr.Length)):]
		}
		if len(raw) > 0 {
			t.Fatal("bytes after the last record")
		}
	}
	return recs, batches
}

func genRecords(rt *rapid.T) []Record {
	nullable := func(limit int) *rapid.Generator[[]byte] {
		return rapid.Custom(func(rt *rapid.T) []byte {
			if rapid.Bool().Draw(rt, "null") {
				return nil
			}
			return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, limit).Draw(rt, "bytes")...)
		})
	}
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Record {
		r := Record{
			Timestamp: rapid.Int64Range(-1<<61, 1<<61).Draw(rt, "timestamp"),
			Key:       nullable(80).Draw(rt, "key"), Value: nullable(300).Draw(rt, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(rt, "headers") {
			r.Headers = append(r.Headers, Header{rapid.StringN(0, 8, 20).Draw(rt, "name"), nullable(70).Draw(rt, "header")})
		}
		return r
	}), 1, 80).Draw(rt, "records")
}

func TestAgreesWithKmsg(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs := genRecords(rt)
		ours, sum := must.Get2(Append(nil, recs, EncodeOptions{}))(rt)
		if theirs := kmsgEncode(recs, nil); !bytes.Equal(ours, theirs) {
			rt.Fatalf("ours %x\ntheirs %x", ours, theirs)
		}
		checked := must.Get(Check(ours, Limits{}))(rt)
		must.Equal(rt, cmp.Diff(sum, checked), "")
		base := rapid.Int64Range(0, 1<<50).Draw(rt, "base")
		Patch(ours, base, 3)
		for i := range recs {
			recs[i].Offset = base + int64(i)
		}
		back, kbs := kmsgDecode(rt, ours)
		must.Equal(rt, cmp.Diff(recs, back, sameBytes), "")
		b, kb := Batch(ours), kbs[0]
		got := []any{
			b.BaseOffset(), b.LeaderEpoch(), b.Attributes(), b.LastOffsetDelta(), b.BaseTimestamp(), b.MaxTimestamp(),
			b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), int32(b.Count()), int32(b.CRC()),
		}
		want := []any{
			kb.FirstOffset, kb.PartitionLeaderEpoch, kb.Attributes, kb.LastOffsetDelta, kb.FirstTimestamp, kb.MaxTimestamp,
			kb.ProducerID, kb.ProducerEpoch, kb.FirstSequence, kb.NumRecords, kb.CRC,
		}
		must.Equal(rt, cmp.Diff(want, got), "")
		must.Equal(rt, cmp.Diff(recs, readAll(t, ours, base), sameBytes), "")
	})
}

func TestAppendCutsAtTheTarget(t *testing.T) {
	var recs []Record
	for i, n := range []int{10, BatchTarget - 200, 300, BatchTarget, 5, 5} {
		recs = append(recs, Record{Offset: int64(i), Timestamp: int64(1000 - i), Value: make([]byte, n)})
	}
	b, sum := must.Get2(Append(nil, recs, EncodeOptions{Producer: &Producer{1, 1, 1<<31 - 2}}))(t)
	back, kbs := kmsgDecode(t, b)
	if diff := cmp.Diff(recs, back, sameBytes); diff != "" {
		t.Error(diff)
	}
	var counts, sequences []int32
	for _, kb := range kbs {
		counts, sequences = append(counts, kb.NumRecords), append(sequences, kb.FirstSequence)
	}
	if !cmp.Equal(counts, []int32{2, 1, 1, 2}) || !cmp.Equal(sequences, []int32{1<<31 - 2, 0, 1, 2}) {
		t.Errorf("records %v, sequences %v", counts, sequences)
	}
	checked := must.Get(Check(b, Limits{BatchBytes: 2 * BatchTarget}))(t)
	if diff := cmp.Diff(sum, checked); diff != "" || sum.Batches != 4 || sum.MinTimestamp != 995 || sum.MaxTimestamp != 1000 {
		t.Errorf("%+v %s", sum, diff)
	}
}

// deflate compresses src.
func deflate(kind Compression, src []byte) ([]byte, error) {
	return codec.Compress(nil, codec.Kind(kind), src)
}
