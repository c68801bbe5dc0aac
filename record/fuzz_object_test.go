package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/sebtest"
)

// objectParts is an object before it is encoded.
type objectParts struct {
	head  Head
	state []byte
	index []IndexEntry
	parts [][]byte
}

// makeObject derives an object from any bytes: a kind, entries with batches, state.
func makeObject(src *sebtest.Source) *objectParts {
	o := &objectParts{head: Head{
		Kind: sebtest.Pick(src, KindData, KindPack, KindSeal), Time: int64(src.Uint64()), Cluster: ID{src.Byte()}, Shard: uint32(src.Uint64()),
		Epoch: uint32(src.Uint64()), Nonce: ID{src.Byte()}, Slot: src.Uint64(), PrevCRC: uint32(src.Uint64()),
	}}
	h := &o.head
	h.Low = min(src.Uint64(), h.Slot)
	if h.Kind == KindSeal {
		h.Epoch = min(h.Epoch, math.MaxUint32-1)
		h.NextEpoch, h.NextNonce = h.Epoch+1, ID{1}
	}
	if h.Kind != KindPack {
		o.state = src.Bytes(60)
	}
	for i := 0; h.Kind != KindSeal && !src.Done() && i < 4; i++ {
		o.entry(src, uint32(i))
	}
	return o
}

// entry adds one or two batches of another partition.
func (o *objectParts) entry(src *sebtest.Source, partition uint32) {
	base := int64(src.Uint64() >> 2)
	e := IndexEntry{Topic: ID{7}, Partition: partition, Base: base, AppendTime: int64(src.Uint64())}
	var whole []byte
	for range 1 + src.Int(2) {
		recs := make([]Record, 1+src.Int(3))
		for i := range recs {
			recs[i] = Record{Timestamp: int64(src.Byte()), Key: src.Bytes(5), Value: src.Bytes(20)}
		}
		b, sum, err := Append(nil, recs, EncodeOptions{})
		if err != nil {
			panic(err)
		}
		base = Patch(b, base, int32(o.head.Epoch))
		e.Span += uint32(sum.Span)
		e.Records += uint32(sum.Records)
		whole = append(whole, b...)
	}
	e.Len = uint32(len(whole))
	o.index, o.parts = append(o.index, e), append(o.parts, whole)
}

// FuzzObject: an encoded object decodes to the same. With a flipped bit, or truncated, it is an
// error, in the parts that replay reads and in the whole.
func FuzzObject(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	f.Add([]byte("\x00\x01\x05\x01\x09\x02\x03\x00\x10state records\x01\x20\x01ab\x02\x03\x04value\x05key"), uint32(200*8))
	f.Add([]byte("\x01\x01\x05\x01\x09\x02\x03\x00\x01\x20\x01ab\x02\x03\x04value\x05key and so on and so on and so on"), uint32(3000))
	f.Add([]byte("\x02\x01\x05"), uint32(77))
	f.Fuzz(func(t *testing.T, b []byte, bit uint32) {
		o := makeObject(&sebtest.Source{B: b})
		prefix, err := EncodeObject(&o.head, o.state, o.index, o.parts)
		if err != nil {
			if o.head.Kind == KindData && o.head.Epoch > math.MaxInt32 {
				return // a leader epoch has 31 bits
			}
			t.Fatal(err)
		}
		whole := append(prefix, bytes.Join(o.parts, nil)...)
		got, err := DecodeObject(whole)
		if err != nil || got.Head != o.head || !bytes.Equal(got.State, o.state) || !slices.Equal(got.Index, o.index) {
			t.Fatalf("%+v comes back as %+v, %v", o, got, err)
		}
		for i := range o.parts {
			if !bytes.Equal(got.Batches(i), o.parts[i]) {
				t.Fatalf("entry %d has other batches", i)
			}
		}
		metaEnd := int(o.head.metaEnd())
		verifiesBody(t, whole)
		cut := int(bit) % len(whole)
		if _, err := DecodeObject(whole[:cut]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if _, _, _, need, err := DecodeMeta(whole[:cut]); err != nil || (need > 0) != (cut < metaEnd) || need > metaEnd {
			t.Fatalf("cut at %d of %d: %d bytes needed, %v", cut, metaEnd, need, err)
		}
		at := int(bit/8) % len(whole)
		whole[at] ^= 1 << (bit % 8)
		if _, err := DecodeObject(whole); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d of byte %d flipped: %v", bit%8, at, err)
		}
		verifiesBody(t, whole)
		if _, _, _, _, err := DecodeMeta(whole[:metaEnd]); (err == nil) != (at >= metaEnd) {
			t.Fatalf("bit %d of byte %d flipped: %v", bit%8, at, err)
		}
		if _, err := DecodeHead(whole); (err == nil) != (at >= HeadSize) {
			t.Fatalf("bit %d of byte %d flipped: %v", bit%8, at, err)
		}
	})
}

// TestClaimsOfObjectsAreNotBelieved: an object of 40 bytes, or only a head, that claims 16 MiB or 4
// GiB is an error and causes no allocation of that size.
func TestClaimsOfObjectsAreNotBelieved(t *testing.T) {
	_, _, _, whole := testObject(t, KindData)
	le := binary.LittleEndian
	for _, claim := range []uint32{16 << 20, math.MaxUint32} {
		for _, size := range []int{40, HeadSize, len(whole)} {
			for _, field := range []int{14, 20, 88, 96, 100} {
				b := bytes.Clone(whole[:size])
				if size > field+4 {
					le.PutUint32(b[field:], claim)
				}
				if size >= HeadSize {
					le.PutUint64(b[88:], max(le.Uint64(b[88:]), uint64(claim)))
					le.PutUint32(b[headCRCPos:], headCRC(b[:HeadSize]))
				}
				sebtest.Allocates(t, sebtest.DecoderBound(b), nil, func() {
					if _, err := DecodeObject(b); !errors.Is(err, ErrCorrupt) {
						t.Errorf("%d at %d in %d bytes: %v", claim, field, size, err)
					}
				})
				sebtest.Allocates(t, sebtest.DecoderBound(b), nil, func() { _, _, _, _, _ = DecodeMeta(b) })
			}
		}
	}
}
