package v1_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// twoOffsets is an offsets file in bytes, of the time 0x0102030405060708.
func twoOffsets() []byte {
	b := offsetsFile(0, 0x0100000000000005)
	copy(b[6:], "\x08\x07\x06\x05\x04\x03\x02\x01")
	return b
}

func texts(f *v1.BatchFile) []string {
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
	plain := plainFile(t)
	for name, b := range map[string][]byte{"plain": plain, "gzip": gzipped(t, plain)} {
		f, err := v1.Decode(b, 0)
		must.NoErrorf(t, err, "%s", name)
		if diff := cmp.Diff([]string{"AAA", "BBBBB", "C"}, texts(f)); diff != "" || f.Time != 0x0102030405060708 {
			t.Errorf("%s: time %x, %s", name, f.Time, diff)
		}
	}
	values := [][]byte{[]byte("AAA"), []byte("BBBBB"), []byte("C")}
	var out bytes.Buffer
	if err := v1.Encode(&out, 0x0102030405060708, values, false); err != nil || !bytes.Equal(out.Bytes(), plain) {
		t.Errorf("%x, %v", out.Bytes(), err)
	}
	out.Reset()
	must.NoError(t, v1.Encode(&out, 0x0102030405060708, values, true))
	if f, err := v1.Decode(out.Bytes(), 0); err != nil || f.Len() != 3 || out.Bytes()[0] != 0x1f {
		t.Errorf("%x, %v", out.Bytes(), err)
	}
	if _, err := record.DecodeHead(plain); !errors.Is(err, record.ErrVersion1) || !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("record.DecodeHead of version 1: %v", err)
	}
}

func TestVersion1Refuses(t *testing.T) {
	with := func(pos int, bytes ...byte) []byte {
		b := plainFile(t)
		copy(b[pos:], bytes)
		return b
	}
	good := plainFile(t)
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
		if _, err := v1.Decode(b, 0); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bomb := gzipped(t, append(plainFile(t), make([]byte, 1<<20)...))
	if _, err := v1.Decode(bomb, 1<<20); !errors.Is(err, record.ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := v1.Decode(bomb, 1<<20+int64(len(good))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestVersion1Offsets(t *testing.T) {
	good := twoOffsets()
	want := v1.OffsetsFile{Time: 0x0102030405060708, Offsets: []uint64{0, 0x0100000000000005}}
	got := must.Get(v1.DecodeOffsets(good))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b := v1.EncodeOffsets(nil, want); !bytes.Equal(b, good) {
		t.Errorf("%x", b)
	}
	many := bytes.Clone(good)
	binary.LittleEndian.PutUint32(many[14:], 1<<31)
	again := bytes.Clone(good)
	copy(again[40:], again[32:40])
	for name, b := range map[string][]byte{
		"nothing": {}, "cut off": good[:len(good)-1], "a byte more": append(bytes.Clone(good), 0),
		"a record file": plainFile(t), "2 billion offsets": many, "the same offset twice": again,
	} {
		if _, err := v1.DecodeOffsets(b); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// golden returns the bytes of testdata/name.hex: hex digits, with comments from # to the end of the
// line. The original program has written such files, so they never change.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name+".hex")))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	return must.Get(hex.DecodeString(digits.String()))(t)
}

func TestGoldenFiles(t *testing.T) {
	values := [][]byte{[]byte("AAA"), []byte("BBBBB"), {}, []byte("C")}
	var made bytes.Buffer
	must.NoError(t, v1.Encode(&made, 1_700_000_000_000_123, values, false))
	if !bytes.Equal(golden(t, "record_batch"), made.Bytes()) {
		t.Errorf("Encode makes %x", made.Bytes())
	}
	for _, name := range []string{"record_batch", "record_batch-gzip"} {
		f := must.Get(v1.Decode(golden(t, name), 0))(t)
		if diff := cmp.Diff([]string{"AAA", "BBBBB", "", "C"}, texts(f)); diff != "" || f.Time != 1_700_000_000_000_123 {
			t.Errorf("%s: %d, %s", name, f.Time, diff)
		}
	}
	offsets := v1.OffsetsFile{Time: 1_700_000_000_000_123, Offsets: []uint64{0, 3, 1 << 40}}
	b := golden(t, "offsets")
	f, err := v1.DecodeOffsets(b)
	if err != nil || !bytes.Equal(b, v1.EncodeOffsets(nil, offsets)) || !cmp.Equal(offsets, f) {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestClaimedCounts: a count that the bytes do not have allocates nothing for it.
func TestClaimedCounts(t *testing.T) {
	for name, b := range map[string][]byte{
		"record file": plainFile(t), "offsets file": twoOffsets(),
		"empty record file":  append([]byte(record.Magic+"\x01\x00"), make([]byte, 34)...),
		"empty offsets file": append([]byte(v1.MagicOffsets+"\x01\x00"), make([]byte, 34)...),
	} {
		binary.LittleEndian.PutUint32(b[14:], 16<<20)
		sebtest.Allocates(t, sebtest.DecoderBound(b), nil, func() {
			_, err := v1.Decode(b, 0)
			_, err2 := v1.DecodeOffsets(b)
			if !errors.Is(err, record.ErrCorrupt) || !errors.Is(err2, record.ErrCorrupt) {
				t.Errorf("%s: %v, %v", name, err, err2)
			}
		})
	}
}
