package v1_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func put(t *testing.T, s objstore.Store, key string, b []byte) {
	t.Helper()
	must.NoError(t, s.Put(t.Context(), key, objstore.NewBody(b)))
}

// plainFile is a batch file in bytes: AAA, BBBBB, C at the time 0x0102030405060708.
func plainFile(t *testing.T) []byte {
	t.Helper()
	b := must.Get(hex.DecodeString("73656221" + "0100" + "0807060504030201" + "03000000" + strings.Repeat("00", 14) +
		"00000000" + "03000000" + "08000000" + "414141" + "4242424242" + "43"))(t)
	return b
}

func offsetsFile(offsets ...uint64) []byte {
	b := append([]byte("seb@\x01\x00"), make([]byte, 26)...)
	binary.LittleEndian.PutUint32(b[14:], uint32(len(offsets)))
	for _, o := range offsets {
		b = binary.LittleEndian.AppendUint64(b, o)
	}
	return b
}

func TestReadAndWrite(t *testing.T) {
	s := objstore.NewMemory()
	put(t, s, "t/000000000000.record_batch", plainFile(t))
	put(t, s, "t/x/000000000000.record_batch", plainFile(t))
	put(t, s, "t/000000000003.record_batch", []byte("seb!"))
	put(t, s, "t/3.record_batch", nil)
	put(t, s, "t2/000000000009.record_batch", nil)
	put(t, s, "t/1000000000000000.record_batch", nil) // a number with more than twelve digits
	put(t, s, "t/offsets_000000000000.offsets", nil)
	put(t, s, "t/offsets_000000000001.offsets", offsetsFile(0))
	l := must.Get(v1.List(t.Context(), s, "t"))(t)
	if len(l.Files) != 3 || l.Files[0].First != 0 || l.Files[1].First != 3 || l.Files[2].First != 1e15 || l.Nested != 1 || l.Unknown != 1 {
		t.Errorf("%+v", l)
	}
	if o, err := v1.ReadOffsets(t.Context(), s, l.Offsets); err != nil || len(o) != 1 || !strings.HasSuffix(l.Offsets, "1.offsets") {
		t.Errorf("%s: %v %v", l.Offsets, o, err)
	}
	f, err := v1.Read(t.Context(), s, "t", 0)
	if err != nil || f.Len() != 3 || string(f.Value(1)) != "BBBBB" || f.Time != 0x0102030405060708 {
		t.Errorf("%+v %v", f, err)
	}
	check.ErrorIsf(t, check.Err(v1.Read(t.Context(), s, "t", 3)), record.ErrCorrupt, "a damaged file")
	check.ErrorIsf(t, check.Err(v1.Read(t.Context(), s, "t", 4)), objstore.ErrNotFound, "a missing file")
	values := [][]byte{[]byte("AAA"), []byte("BBBBB"), []byte("C")}
	same := v1.Batch{TimeMicros: 0x0102030405060708, Values: values}
	check.NoErrorf(t, v1.Write(t.Context(), s, v1.Name("t", 0), same), "the same file again")
	same.TimeMicros++
	check.ErrorIsf(t, v1.Write(t.Context(), s, v1.Name("t", 0), same), v1.ErrDiffers, "another file of that name")
	for _, name := range []string{"", "a/b", "../x", "a b", "."} {
		check.Error(t, check.Err(v1.List(t.Context(), s, name)), "topic %q: no error", name)
	}
}

// TestFaultyStore: a store that loses its answers does not fail a write, and an existing file with
// other content is still detected.
func TestFaultyStore(t *testing.T) {
	inner := objstore.NewMemory()
	rates := storetest.Rates{storetest.Before: .04, storetest.Lost: .08, storetest.Throttle: .04, storetest.Truncate: .04}
	s := storetest.NewFaulty(inner, 7, storetest.Faults{Put: rates, Get: rates, List: rates})
	want := bytes.Repeat([]byte("v"), 100_000)
	for i := range int64(20) {
		f := v1.Batch{TimeMicros: i, Values: [][]byte{want}, Gzipped: true}
		must.NoError(t, v1.Write(context.Background(), s, v1.Name("t", i), f))
		got, err := v1.Read(context.Background(), s, "t", i)
		if err != nil || got.Len() != 1 || !bytes.Equal(got.Value(0), want) {
			t.Fatal(i, err)
		}
	}
	if l, err := v1.List(context.Background(), s, "t"); err != nil || len(l.Files) != 20 {
		t.Error(l, err)
	}
}
