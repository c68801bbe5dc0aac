package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

func TestEncodeObjectRefuses(t *testing.T) {
	a, sa := testBatches(t, 2, 3, 10, 7)
	b, sb := testBatches(t, 3, 3, 0, 7)
	type object struct {
		head  Head
		index []IndexEntry
		parts [][]byte
	}
	for name, change := range map[string]func(*object){
		"an entry too many":      func(o *object) { o.index = append(o.index, testEntry(ID{3}, 0, 0, b, sb)) },
		"an entry too few":       func(o *object) { o.index = o.index[:1] },
		"no entries":             func(o *object) { o.index = nil },
		"no parts":               func(o *object) { o.parts = nil },
		"a length too long":      func(o *object) { o.index[1].Len++ },
		"lengths mixed up":       func(o *object) { o.index[0].Len--; o.index[1].Len++ },
		"parts mixed up":         func(o *object) { o.parts[0], o.parts[1] = o.parts[1], o.parts[0] },
		"half a batch in a part": func(o *object) { o.parts = [][]byte{a[:50], a[50:], b} },
		"a wrong span":           func(o *object) { o.index[0].Span++ },
		"a wrong last span":      func(o *object) { o.index[1].Span++ },
		"wrong records":          func(o *object) { o.index[1].Records-- },
		"records above the span": func(o *object) { o.index[1].Records += 5 },
		"a wrong base":           func(o *object) { o.index[0].Base++ },
		"another epoch":          func(o *object) { o.head.Epoch = 8 },
		"no kind":                func(o *object) { o.head.Kind = 0 },
		"a next epoch":           func(o *object) { o.head.NextEpoch = 8 },
		"a seal of itself":       func(o *object) { o.head.Kind, o.head.NextEpoch, o.head.NextNonce = KindSeal, 7, ID{1} },
		"a seal without a nonce": func(o *object) { o.head.Kind, o.head.NextEpoch = KindSeal, 8 },
		"a pack not sorted":      func(o *object) { o.head.Kind = KindPack; o.index[0].Topic = ID{9} },
		"a pack of a later epoch": func(o *object) {
			o.head.Kind, o.head.Epoch = KindPack, 6
		},
		"over 4 GiB": func(o *object) { o.index[0].Len, o.index[1].Len = 1<<31, 1<<31 },
	} {
		o := object{
			head: Head{Kind: KindData, Epoch: 7}, parts: [][]byte{a, b},
			index: []IndexEntry{testEntry(ID{1}, 3, 10, a, sa), testEntry(ID{2}, 0, 0, b, sb)},
		}
		must.Get(EncodeObject(&o.head, nil, o.index, o.parts))(t)
		change(&o)
		if _, err := EncodeObject(&o.head, nil, o.index, o.parts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestEncodeObjectOf checks that EncodeObjectOf encodes as EncodeObject does, and refuses each flipped
// bit of a batch, except in its leader epoch, which may be any earlier one in a pack.
func TestEncodeObjectOf(t *testing.T) {
	h, _, index, _ := testObject(t, KindPack)
	var body []byte
	for i, size := range []int{2, 1} { // batches of both entries
		b, sum := testBatches(t, size, 300, int64(10*i), 7)
		index[i] = testEntry(ID{byte(i + 1)}, 0, int64(10*i), b, sum)
		body = append(body, b...)
	}
	want := must.Get(EncodeObject(&h, nil, index, [][]byte{body}))(t)
	encode := func(body []byte) ([]byte, error) {
		return EncodeObjectOf(&h, index, bytes.NewReader(body), make([]byte, 100))
	}
	for range 2 { // it can be repeated
		if got := must.Get(encode(body))(t); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	}
	for i := range body {
		at := i
		if i >= int(index[0].Len) {
			at -= int(index[0].Len)
		}
		if at >= posLeaderEpoch && at < posLeaderEpoch+4 {
			continue
		}
		for bit := range 8 {
			bad := bytes.Clone(body)
			bad[i] ^= 1 << bit
			if _, err := encode(bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
		if _, err := encode(body[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut off at byte %d: %v", i, err)
		}
	}
}

// DecodeMeta refuses values that no writer produces, even if all checksums are right.
func TestDecodeMetaRefuses(t *testing.T) {
	le := binary.LittleEndian
	h, _, _, good := testObject(t, KindPack)
	entry := func(i, pos int) int { return HeadSize + int(h.StateLen) + i*IndexEntrySize + pos }
	for name, change := range map[string]func(b []byte){
		"kind 0":                       func(b []byte) { b[18] = 0 },
		"kind 4":                       func(b []byte) { b[18] = 4 },
		"a head of 191 bytes":          func(b []byte) { b[20] = 191 },
		"reserved bytes after the CRC": func(b []byte) { b[28] = 1 },
		"reserved bytes at the end":    func(b []byte) { b[191] = 1 },
		"a next epoch":                 func(b []byte) { b[116] = 8 },
		"a next nonce":                 func(b []byte) { b[120] = 8 },
		"a seal of nothing":            func(b []byte) { b[18] = byte(KindSeal) },
		"an object longer by a byte":   func(b []byte) { le.PutUint64(b[88:], h.ObjectLen+1) },
		"an object without a body":     func(b []byte) { le.PutUint64(b[88:], HeadSize) },
		"an object over 4 GiB":         func(b []byte) { le.PutUint64(b[88:], 1<<32) },
		"more records":                 func(b []byte) { b[14]++ },
		"an entry elsewhere":           func(b []byte) { b[entry(1, 36)]++ },
		"an entry too long":            func(b []byte) { b[entry(1, 40)]++ },
		"an entry of no bytes":         func(b []byte) { le.PutUint32(b[entry(1, 40):], 0) },
		"an entry of no span":          func(b []byte) { le.PutUint32(b[entry(1, 28):], 0) },
		"records above the span":       func(b []byte) { le.PutUint32(b[entry(0, 28):], 1) },
		"a negative base":              func(b []byte) { b[entry(0, 27)] = 0x80 },
		"a base at the end":            func(b []byte) { le.PutUint64(b[entry(0, 20):], math.MaxInt64-1) },
		"entries not sorted":           func(b []byte) { b[entry(0, 0)] = 3 },
	} {
		b := bytes.Clone(good)
		repairObject(b)
		if _, _, _, _, err := DecodeMeta(b); err != nil {
			t.Fatal(err)
		}
		change(b)
		repairObject(b)
		end := min(len(b), int(h.metaEnd()))
		if _, _, _, _, err := DecodeMeta(b[:end]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pack may have several entries of one partition, with batches of lower epochs.
func TestPackOfSeveralEpochs(t *testing.T) {
	a, sa := testBatches(t, 2, 3, 0, 3)
	b, sb := testBatches(t, 2, 3, 2, 5)
	h := Head{Kind: KindPack, Epoch: 7}
	index := []IndexEntry{testEntry(ID{1}, 3, 0, a, sa), testEntry(ID{1}, 3, 2, b, sb)}
	prefix := must.Get(EncodeObject(&h, nil, index, [][]byte{a, b}))(t)
	o, err := DecodeObject(bytes.Join([][]byte{prefix, a, b}, nil))
	if err != nil || !bytes.Equal(o.Batches(0), a) || !bytes.Equal(o.Batches(1), b) || o.Head.Records != 4 {
		t.Fatalf("%+v, %v", o, err)
	}
}

// A batch that is damaged after its checksum was computed changes the object's bytes but not
// ObjectCRC32C, so that a store can detect it.
func TestObjectCRCRevealsDamage(t *testing.T) {
	a, sa := testBatches(t, 1, 20_000, 0, 7)
	h := Head{Kind: KindData, Epoch: 7}
	index := []IndexEntry{testEntry(ID{1}, 3, 0, a, sa)}
	a[10_000] ^= 4
	prefix := must.Get(EncodeObject(&h, nil, index, [][]byte{a}))(t)
	whole := append(prefix, a...)
	if ObjectCRC32C(prefix, [][]byte{a}) == CRC32C(whole) {
		t.Error("the checksum includes the damaged bytes")
	}
	whole[len(prefix)+10_000] ^= 4
	if ObjectCRC32C(prefix, [][]byte{a}) != CRC32C(whole) {
		t.Error("the checksum is not that of the undamaged object")
	}
}

func TestVersionsAreDistinguished(t *testing.T) {
	h := Head{Kind: KindData, ObjectLen: HeadSize}
	b := h.Encode(nil)
	b[versionPos] = 3
	if _, err := DecodeHead(b); !errors.Is(err, ErrUnknownVersion) || !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion1) {
		t.Errorf("version 3: %v", err)
	}
	if _, _, _, _, err := DecodeMeta(b[:10]); !errors.Is(err, ErrUnknownVersion) {
		t.Errorf("the first bytes of version 3: %v", err)
	}
	b[0] = 'x'
	if _, err := DecodeHead(b); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnknownVersion) {
		t.Errorf("another magic: %v", err)
	}
}

func TestID(t *testing.T) {
	id := NewID()
	if id.IsZero() || id == NewID() || len(id.String()) != 32 {
		t.Errorf("%v", id)
	}
	if back, err := ParseID(id.String()); err != nil || back != id {
		t.Errorf("%v, %v", back, err)
	}
	if got := fmt.Sprint(ID{0xab, 15: 1}); got != "ab000000000000000000000000000001" {
		t.Error(got)
	}
	for _, s := range []string{"", "ab", strings.Repeat("g", 32), strings.Repeat("AB", 16), strings.Repeat("a", 33)} {
		if _, err := ParseID(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

func BenchmarkObject(b *testing.B) {
	const partitions = 100
	var parts [][]byte
	var index []IndexEntry
	total := 0
	for i := range partitions {
		p, s := testBatches(b, 40, 1024, 0, 7)
		parts, index = append(parts, p), append(index, testEntry(ID{byte(i)}, 0, 0, p, s))
		total += len(p)
	}
	h := Head{Kind: KindData, Epoch: 7}
	prefix, err := EncodeObject(&h, nil, index, parts)
	must.NoError(b, err)
	whole := append(bytes.Clone(prefix), bytes.Join(parts, nil)...)
	for name, f := range map[string]func() error{
		"encode":    func() error { _, err := EncodeObject(&h, nil, index, parts); return err },
		"checksum":  func() error { ObjectCRC32C(prefix, parts); return nil },
		"decode":    func() error { _, err := DecodeObject(whole); return err },
		"meta only": func() error { _, _, _, _, err := DecodeMeta(prefix); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(total))
			b.ReportAllocs()
			for b.Loop() {
				must.NoError(b, f())
			}
		})
	}
}
