package record

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
)

// testBatches returns patched batches of n records with values of size bytes, from offset base on.
func testBatches(t testing.TB, n, size int, base int64, epoch int32) ([]byte, Summary) {
	t.Helper()
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = Record{Timestamp: 1_700_000_000_000 + int64(i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, size)}
	}
	b, sum := must.Get2(Append(nil, recs, EncodeOptions{}))(t)
	Patch(b, base, epoch)
	return b, sum
}

func testEntry(topic ID, partition uint32, base int64, b []byte, s Summary) IndexEntry {
	return IndexEntry{
		Topic: topic, Partition: partition, Base: base, Span: uint32(s.Span), Records: uint32(s.Records), Len: uint32(len(b)),
		MinTime: s.MinTimestamp, MaxTime: s.MaxTimestamp, AppendTime: 1_700_000_000_000_123,
	}
}

// testObject returns an object of the kind with two partitions, the second with two batches in
// separate parts.
func testObject(t testing.TB, kind Kind) (h Head, state []byte, index []IndexEntry, object []byte) {
	t.Helper()
	const epoch = 7
	h = Head{
		Kind: kind, Time: 1_700_000_000_000_123, Cluster: ID{1, 2, 3}, Shard: 4, Epoch: epoch, Nonce: ID{9, 8, 7},
		Slot: 1 << 40, Low: 1<<40 - 3, PrevCRC: 0xfeedface,
	}
	state = []byte("state records")
	var parts [][]byte
	if kind == KindSeal {
		h.NextEpoch, h.NextNonce, state = epoch+1, ID{5, 5}, nil
	} else {
		a, sa := testBatches(t, 2, 3, 10, epoch)
		b, sb := testBatches(t, 1, 0, 0, epoch)
		c, sc := testBatches(t, 3, 8, 1, epoch)
		both := must.Get(Verify(append(bytes.Clone(b), c...)))(t)
		index = []IndexEntry{testEntry(ID{1}, 3, 10, a, sa), testEntry(ID{2}, 0, 0, append(bytes.Clone(b), c...), both)}
		index[1].MinTime, index[1].MaxTime = min(sb.MinTimestamp, sc.MinTimestamp), max(sb.MaxTimestamp, sc.MaxTimestamp)
		parts = [][]byte{append(a, b...), nil, c}
	}
	prefix := must.Get(EncodeObject(&h, state, index, parts))(t)
	object = bytes.Clone(prefix)
	for _, p := range parts {
		object = append(object, p...)
	}
	if got, want := ObjectCRC32C(prefix, parts), CRC32C(object); got != want {
		t.Fatalf("ObjectCRC32C = %08x, want %08x", got, want)
	}
	return h, state, index, object
}

func TestObjectRoundTrip(t *testing.T) {
	for _, kind := range []Kind{KindData, KindSeal, KindPack} {
		t.Run(kind.String(), func(t *testing.T) {
			h, state, index, b := testObject(t, kind)
			o := must.Get(DecodeObject(b))(t)
			if diff := cmp.Diff(h, o.Head); diff != "" {
				t.Error(diff)
			}
			if !bytes.Equal(state, o.State) || !cmp.Equal(index, o.Index, cmp.Transformer("", func(x []IndexEntry) int { return len(x) })) {
				t.Errorf("state %q, index %v", o.State, o.Index)
			}
			for i := range index {
				if diff := cmp.Diff(index[i], o.Index[i]); diff != "" {
					t.Error(diff)
				}
				s, err := Verify(o.Batches(i))
				if err != nil || s.Records != int(index[i].Records) || s.Span != int64(index[i].Span) {
					t.Errorf("entry %d: %+v, %v", i, s, err)
				}
			}
		})
	}
}

// verifiesBody checks that VerifyBody accepts an object if DecodeObject does.
func verifiesBody(t *testing.T, b []byte) {
	t.Helper()
	h, _, index, need, err := DecodeMeta(b)
	if err != nil || need > 0 {
		return
	}
	_, want := DecodeObject(b)
	for _, size := range []int{1, BatchHeadSize, 1 << 10} {
		err := VerifyBody(&h, index, iotest.OneByteReader(bytes.NewReader(b[h.metaEnd():])), make([]byte, size))
		if (err == nil) != (want == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("buffer of %d bytes: %v, want as DecodeObject: %v", size, err, want)
		}
	}
}

// TestVerifyBodyReturnsTheErrorOfItsReader: an error of the store is no damage.
func TestVerifyBodyReturnsTheErrorOfItsReader(t *testing.T) {
	h, _, index, b := testObject(t, KindPack)
	body := b[h.metaEnd():]
	for n := range body {
		err := VerifyBody(&h, index, io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(io.ErrClosedPipe)), make([]byte, 100))
		if err != io.ErrClosedPipe {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// Some checksum covers each bit of an object. Only the body checksum covers the leader epochs of a
// pack.
func TestObjectAnyFlippedBitIsAnError(t *testing.T) {
	for _, kind := range []Kind{KindData, KindSeal, KindPack} {
		_, _, _, b := testObject(t, kind)
		for bit := range len(b) * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := DecodeObject(b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: bit %d of byte %d flipped: %v", kind, bit%8, bit/8, err)
			}
			verifiesBody(t, b)
			b[bit/8] ^= 1 << (bit % 8)
		}
		for n := range b {
			if _, err := DecodeObject(b[:n:n]); err == nil {
				t.Errorf("%s: cut off at %d of %d: no error", kind, n, len(b))
			}
			verifiesBody(t, b[:n:n])
		}
		if _, err := DecodeObject(append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: one more byte: no error", kind)
		}
	}
}

func TestDecodeMetaRequestsMissingBytes(t *testing.T) {
	h, state, index, b := testObject(t, KindData)
	end := int(h.metaEnd())
	for n := range end {
		_, _, _, need, err := DecodeMeta(b[:n:n])
		want := end
		if n < HeadSize {
			want = HeadSize
		}
		if err != nil || need != want {
			t.Fatalf("%d bytes: need %d, %v; want %d", n, need, err, want)
		}
	}
	for _, n := range []int{end, end + 1, len(b)} {
		gotH, gotS, gotI, need, err := DecodeMeta(b[:n:n])
		if err != nil || need != 0 || gotH != h || !bytes.Equal(gotS, state) || !cmp.Equal(gotI, index) {
			t.Fatalf("%d bytes: need %d, %v", n, need, err)
		}
	}
}

func TestCombineCRC32C(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	table := crc32.MakeTable(crc32.Castagnoli)
	data := make([]byte, 70_000)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	for range 300 {
		n := rnd.IntN(len(data))
		cut := rnd.IntN(n + 1)
		a, b := data[:cut], data[cut:n]
		got := CombineCRC32C(crc32.Checksum(a, table), crc32.Checksum(b, table), int64(len(b)))
		if want := crc32.Checksum(data[:n], table); got != want {
			t.Fatalf("lengths %d and %d: %08x, want %08x", len(a), len(b), got, want)
		}
	}
	// A gap of 1 TiB, built by doubling.
	zeros, n := crc32.Checksum([]byte{0}, table), int64(1)
	whole := crc32.Checksum([]byte{1, 2, 3}, table)
	want := crc32.Update(whole, table, []byte{0})
	if got := CombineCRC32C(whole, zeros, 1); got != want {
		t.Fatalf("one zero: %08x, want %08x", got, want)
	}
	for n < 1<<40 {
		zeros = CombineCRC32C(zeros, zeros, n)
		n *= 2
	}
	half := zeros
	if got, want := CombineCRC32C(CombineCRC32C(whole, half, n), half, n), CombineCRC32C(whole, CombineCRC32C(half, half, n), 2*n); got != want {
		t.Fatalf("not associative at 1 TiB: %08x, %08x", got, want)
	}
}
