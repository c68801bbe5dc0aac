package record

import (
	"bytes"
	"math"
	"testing"
)

func TestStampedBatchesAreAsIfEncodedSo(t *testing.T) {
	p := Producer{ID: 77, Epoch: 3, Sequence: math.MaxInt32 - 1} // wraps within
	recs := make([]Record, 5)
	for i := range recs {
		recs[i] = Record{Value: bytes.Repeat([]byte{byte(i)}, BatchTarget/2+1), Timestamp: int64(i)}
	}
	for codec := None; codec <= Zstd; codec++ {
		want, sum, err := Append(nil, recs, EncodeOptions{Compression: codec, Producer: &p})
		if err != nil || sum.Batches != len(recs) {
			t.Fatalf("%+v, %v", sum, err)
		}
		got, _, err := Append(nil, recs, EncodeOptions{Compression: codec})
		if err != nil {
			t.Fatal(err)
		}
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
