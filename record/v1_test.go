package record

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
)

// unhex reads hex digits, ignoring spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b := must.Get(hex.DecodeString(strings.Join(strings.Fields(s), "")))(t)
	return b
}

// The layout in bytes: three records, and two offsets.
const (
	fileV1 = `73656221 0100 0807060504030201 03000000 0000000000000000000000000000
		00000000 03000000 08000000 414141 4242424242 43`
	offsetsV1 = `73656240 0100 0807060504030201 02000000 0000000000000000000000000000
		0000000000000000 0500000000000001`
)

func valuesV1(f *FileV1) []string {
	var out []string
	for i := range f.Len() {
		out = append(out, string(f.Value(i)))
	}
	return out
}

func gzipped(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, p := range parts {
		w := stdgzip.NewWriter(&out)
		must.Get(w.Write(p))(t)
		must.NoError(t, w.Close())
	}
	return out.Bytes()
}

func TestVersion1File(t *testing.T) {
	plain := unhex(t, fileV1)
	for name, b := range map[string][]byte{"plain": plain, "gzip": gzipped(t, plain)} {
		f, err := DecodeV1(b, 0)
		must.NoErrorf(t, err, "%s", name)
		if diff := cmp.Diff([]string{"AAA", "BBBBB", "C"}, valuesV1(f)); diff != "" || f.Time != 0x0102030405060708 {
			t.Errorf("%s: time %x, %s", name, f.Time, diff)
		}
	}
	values := [][]byte{[]byte("AAA"), []byte("BBBBB"), []byte("C")}
	var out bytes.Buffer
	if err := EncodeV1(&out, 0x0102030405060708, values, false); err != nil || !bytes.Equal(out.Bytes(), plain) {
		t.Errorf("%x, %v", out.Bytes(), err)
	}
	out.Reset()
	must.NoError(t, EncodeV1(&out, 0x0102030405060708, values, true))
	if f, err := DecodeV1(out.Bytes(), 0); err != nil || f.Len() != 3 || out.Bytes()[0] != 0x1f {
		t.Errorf("%x, %v", out.Bytes(), err)
	}
	if _, err := DecodeHead(plain); !errors.Is(err, ErrVersion1) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("DecodeHead of version 1: %v", err)
	}
}

func TestVersion1Refuses(t *testing.T) {
	with := func(pos int, bytes ...byte) []byte {
		b := unhex(t, fileV1)
		copy(b[pos:], bytes)
		return b
	}
	good := unhex(t, fileV1)
	for name, b := range map[string][]byte{
		"nothing":                {},
		"half a head":            good[:20],
		"half an index":          good[:40],
		"another magic":          with(3, '@'),
		"version 2":              with(4, 2),
		"4 billion records":      with(14, 0xff, 0xff, 0xff, 0xff),
		"data, no records":       with(14, 0, 0, 0, 0),
		"first start not 0":      with(32, 1),
		"starts that go back":    with(40, 2),
		"start beyond the data":  with(40, 10),
		"cut before last start":  good[:len(good)-2],
		"gzip cut off":           gzipped(t, good)[:30],
		"gzip of nothing":        gzipped(t, nil),
		"bytes after the gzip":   append(gzipped(t, good), 0),
		"two gzip streams":       gzipped(t, good, []byte("more")),
		"gzip, its checksum bad": append(gzipped(t, good)[:len(gzipped(t, good))-8], 0, 0, 0, 0, 45, 0, 0, 0),
	} {
		if _, err := DecodeV1(b, 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bomb := gzipped(t, append(unhex(t, fileV1), make([]byte, 1<<20)...))
	if _, err := DecodeV1(bomb, 1<<20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := DecodeV1(bomb, 1<<20+int64(len(good))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestVersion1Offsets(t *testing.T) {
	good := unhex(t, offsetsV1)
	want := OffsetsV1{Time: 0x0102030405060708, Offsets: []uint64{0, 0x0100000000000005}}
	got := must.Get(DecodeOffsetsV1(good))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b := EncodeOffsetsV1(nil, want); !bytes.Equal(b, good) {
		t.Errorf("%x", b)
	}
	many := bytes.Clone(good)
	binary.LittleEndian.PutUint32(many[14:], 1<<31)
	again := bytes.Clone(good)
	copy(again[40:], again[32:40])
	for name, b := range map[string][]byte{
		"nothing": {}, "cut off": good[:len(good)-1], "a byte more": append(bytes.Clone(good), 0),
		"a record file": unhex(t, fileV1), "2 billion offsets": many, "the same offset twice": again,
	} {
		if _, err := DecodeOffsetsV1(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
