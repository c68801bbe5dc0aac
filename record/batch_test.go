package record

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
)

func sampleRecords() []Record {
	return []Record{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", []byte("1")}, {"b", nil}, {"", []byte{}}}},
		{Timestamp: 990, Key: nil, Value: nil},
		{Timestamp: 1010, Key: []byte{}, Value: []byte{}},
		{Timestamp: 1010, Value: bytes.Repeat([]byte("x"), 300)},
	}
}

func readAll(t testing.TB, b []byte, from int64) []Record {
	t.Helper()
	var r Reader
	var out []Record
	for r.Reset(b, from); r.Next(); {
		rec := *r.Record()
		rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		rec.Headers = nil
		for _, h := range r.Record().Headers {
			rec.Headers = append(rec.Headers, Header{string(append([]byte(nil), h.Key...)), bytes.Clone(h.Value)})
		}
		out = append(out, rec)
	}
	must.NoError(t, r.Err())
	return out
}

func TestEveryCodecRoundTrips(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			in := sampleRecords()
			b, sum := must.Get2(Append([]byte("before"), in, EncodeOptions{Compression: codec, Producer: &Producer{7, 2, 40}}))(t)
			b = b[len("before"):]
			want := Summary{
				Batches: 1, Records: 4, Span: 4, MinTimestamp: 990, MaxTimestamp: 1010, ProducerID: 7, ProducerEpoch: 2, BaseSequence: 40,
			}
			if diff := cmp.Diff(want, sum); diff != "" {
				t.Error(diff)
			}
			checked := must.Get(Check(b, Limits{}))(t)
			if diff := cmp.Diff(want, checked); diff != "" {
				t.Error(diff)
			}
			if next := Patch(b, 100, 3); next != 104 {
				t.Errorf("next = %d", next)
			}
			if _, err := Verify(b); err != nil {
				t.Error(err)
			}
			for i := range in {
				in[i].Offset = 100 + int64(i)
			}
			for from := int64(0); from < 106; from++ {
				left := in[min(max(from-100, 0), 4):]
				if diff := cmp.Diff(append([]Record(nil), left...), readAll(t, b, from), sameBytes); diff != "" {
					t.Errorf("from %d: %s", from, diff)
				}
			}
		})
	}
}
