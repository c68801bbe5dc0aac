package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// keyed returns batches of n records each from offset base on. Every third record has no key, every
// fifth a null value.
func keyed(t *testing.T, base int64, codec Compression, batches, n int) []byte {
	t.Helper()
	var all []byte
	for range batches {
		var recs []Record
		for i := range n {
			at := base + int64(i)
			r := Record{Timestamp: 1000 + at, Value: []byte(fmt.Sprintf("value %d of some length", at)), Headers: []Header{{Key: "h", Value: []byte{byte(at)}}}}
			if at%3 != 0 {
				r.Key = []byte(fmt.Sprintf("key %d", at%7))
			}
			if at%5 == 0 {
				r.Value = nil
			}
			recs = append(recs, r)
		}
		b, _ := must.Get2(Append(nil, recs, EncodeOptions{Compression: codec, Producer: &Producer{ID: 7, Epoch: 1, Sequence: int32(base)}}))(t)
		base = Patch(b, base, 3)
		all = append(all, b...)
	}
	return all
}

func clone(recs []Record) []Record {
	for i := range recs {
		r := &recs[i]
		r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
		r.Headers = slices.Clone(r.Headers)
		for j := range r.Headers {
			r.Headers[j].Value = slices.Clone(r.Headers[j].Value)
			r.Headers[j].Key = string([]byte(r.Headers[j].Key))
		}
	}
	return recs
}

// TestCompactor removes random subsets of the records. Kept records and their offsets are
// unchanged, and so is the span.
func TestCompactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c Compactor
	for round := range 300 {
		codec := Compression(round % 5)
		b := keyed(t, 40, codec, 1+rng.IntN(6), 1+rng.IntN(9))
		before := must.Get(Verify(b))(t)
		drop := rng.Float64()
		if round%10 == 0 {
			drop = float64(round / 10 % 2)
		}
		gone := map[int64]bool{}
		var want []Record
		for _, r := range clone(readAll(t, b, 0)) {
			if gone[r.Offset] = rng.Float64() < drop; !gone[r.Offset] {
				want = append(want, r)
			}
		}
		prefix := []byte("before")
		out, sum, err := c.Append(prefix, b, func(e *CompactEntry) bool {
			if hasKey := e.Offset%3 != 0; hasKey != (e.Key != nil) || e.Null != (e.Offset%5 == 0) {
				t.Errorf("offset %d: key %q, null %v", e.Offset, e.Key, e.Null)
			}
			return !gone[e.Offset]
		})
		if err != nil || !bytes.HasPrefix(out, prefix) {
			t.Fatalf("round %d: %v", round, err)
		}
		out = out[len(prefix):]
		if got, err := Verify(out); err != nil || got != sum || sum.Span != before.Span || sum.Records != len(want) {
			t.Fatalf("round %d: %+v, %+v, %v; was %+v, %d left", round, got, sum, err, before, len(want))
		}
		if got := clone(readAll(t, out, 0)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d:\n%v\nwant\n%v", round, got, want)
		}
		if len(want) == before.Records && !bytes.Equal(out, b) {
			t.Errorf("round %d: the bytes changed, but no record was removed", round)
		}
		if len(want) == 0 && sum.Batches != 1 {
			t.Errorf("round %d: %d empty batches in a row", round, sum.Batches)
		}
		if again, _, err := c.Append(nil, out, func(*CompactEntry) bool { return true }); err != nil || !bytes.Equal(again, out) {
			t.Errorf("round %d: compacted again, other bytes: %v", round, err)
		}
	}
}

// TestCompactorKeepsTimes: the largest timestamp is that of the kept records, and the base
// timestamp is unchanged.
func TestCompactorKeepsTimes(t *testing.T) {
	var c Compactor
	b := keyed(t, 0, Zstd, 1, 10)
	out, sum, err := c.Append(nil, b, func(e *CompactEntry) bool { return e.Offset == 4 })
	if err != nil || sum.MaxTimestamp != 1004 || sum.MinTimestamp != 1000 || Batch(out).ProducerID() != 7 || Batch(out).LeaderEpoch() != 3 {
		t.Errorf("%+v, %v", sum, err)
	}
	if got := readAll(t, out, 0); len(got) != 1 || got[0].Offset != 4 || got[0].Timestamp != 1004 {
		t.Errorf("%+v", got)
	}
}

// TestCompactorRefusesDamage: a flipped bit that a Reader detects ends the compaction, and dst is
// unchanged.
func TestCompactorRefusesDamage(t *testing.T) {
	var c Compactor
	b := keyed(t, 0, None, 2, 3)
	for at := batchDamageFrom; at < len(b); at++ {
		bad := slices.Clone(b)
		bad[at] ^= 4
		out, _, err := c.Append([]byte("x"), bad, func(e *CompactEntry) bool { return e.Offset%2 == 0 })
		if at >= posAttributes && at < Batch(b).lenOfFirst() && !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", at, err)
		}
		if err != nil && string(out) != "x" {
			t.Errorf("byte %d: dst is %q", at, out)
		}
	}
}

// TestCompactorAndMarkers: a marker stays as it is until Drop drops it, and a dropped batch loses all its
// records without a question. What is left of a batch without records is part of no transaction.
func TestCompactorAndMarkers(t *testing.T) {
	inTransaction := func(b []byte) []byte {
		Batch(b).restamp(func() { b[posAttributes+1] |= AttrTransactional })
		return b
	}
	marker := func(commit bool, at int64) []byte {
		b := AppendMarker(nil, &Marker{Commit: commit, ProducerID: 7, ProducerEpoch: 1, Timestamp: 9000})
		Patch(b, at, 3)
		return b
	}
	plain, aborted, abort := keyed(t, 40, Zstd, 1, 3), inTransaction(keyed(t, 43, Zstd, 1, 3)), marker(false, 46)
	commit, last := marker(true, 47), keyed(t, 48, None, 1, 2)
	b := slices.Concat(plain, aborted, abort, commit, last)
	sum := must.Get(Verify(b))(t)
	must.Equalf(t, sum.Records, 8, "records besides the markers")
	must.Equal(t, sum.Span, 10)

	var c Compactor
	asked := 0
	keep := func(e *CompactEntry) bool {
		asked++
		return e.Offset != 40
	}
	out, sum := must.Get2(c.Append(nil, b, keep))(t)
	must.Equalf(t, asked, 8, "asked for the records, not for the markers")
	must.Equal(t, sum.Records, 7)
	if !bytes.HasSuffix(out, slices.Concat(aborted, abort, commit, last)) {
		t.Error("without Drop, a marker or another batch that loses nothing has changed")
	}

	asked = 0
	c.Drop = func(b Batch) bool { return b.BaseOffset() == 43 || b.BaseOffset() == 47 }
	out, sum = must.Get2(c.Append(nil, b, keep))(t)
	must.Equal(t, asked, 5)
	must.Equal(t, sum.Records, 4)
	must.Equal(t, sum.Span, 10)
	_, out, _ = Split(out)
	empty, out := must.Get2(Split(out))(t)
	must.Equal(t, empty.Count(), 0)
	must.Equalf(t, empty.Attributes(), int16(0), "attributes of a batch without records")
	kept, _ := must.Get2(Split(out))(t)
	if !bytes.Equal(kept, abort) {
		t.Errorf("the marker that stays has changed: %x, was %x", kept, abort)
	}

	c.Drop = func(b Batch) bool { return b.BaseOffset() == 43 || b.Control() }
	out, sum = must.Get2(c.Append(nil, b, keep))(t)
	must.Equal(t, sum.Batches, 3)
	_, out, _ = Split(out)
	empty, out = must.Get2(Split(out))(t)
	must.Equalf(t, empty.Span(), 5, "offsets of the header that is left of a batch and two markers")
	must.Equal(t, empty.Attributes(), int16(0))
	if !bytes.Equal(out, last) {
		t.Error("the batch behind the markers has changed")
	}
}

const batchDamageFrom = posLength

// lenOfFirst is the length of the first of concatenated batches.
func (b Batch) lenOfFirst() int { return int(b.i32(posLength)) + lengthBase }
