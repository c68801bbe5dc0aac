package record

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// golden returns the bytes of testdata/name.hex: hex digits, with comments from # to the end of the
// line. With -update it first writes b.
func golden(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *sebtest.Update {
		var s strings.Builder
		for i := 0; i < len(b); i += 16 {
			fmt.Fprintf(&s, "% -48x # %d\n", b[i:min(i+16, len(b))], i)
		}
		must.NoError(t, os.WriteFile(path, []byte(s.String()), 0o644))
	}
	text := must.Get(os.ReadFile(path))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	out := must.Get(hex.DecodeString(digits.String()))(t)
	return out
}

func TestGoldenBatches(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			recs := sampleRecords()
			made, _ := must.Get2(Append(nil, recs, EncodeOptions{Compression: codec, Producer: &Producer{4660, 2, 40}}))(t)
			Patch(made, 1000, 3)
			b := golden(t, "batch-"+codec.String(), made)
			// the output of a compressor may change, but earlier output must stay readable
			if codec == None && !bytes.Equal(b, made) {
				t.Errorf("Append makes %x", made)
			}
			for i := range recs {
				recs[i].Offset = 1000 + int64(i)
			}
			if diff := cmp.Diff(recs, readAll(t, b, 0), sameBytes); diff != "" {
				t.Error(diff)
			}
			s, err := Check(b, Limits{})
			want := Summary{
				Batches: 1, Records: 4, Span: 4, MinTimestamp: 990, MaxTimestamp: 1010, ProducerID: 4660, ProducerEpoch: 2, BaseSequence: 40,
			}
			if diff := cmp.Diff(want, s); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestGoldenObjects(t *testing.T) {
	for _, kind := range []Kind{KindData, KindSeal, KindPack} {
		t.Run(kind.String(), func(t *testing.T) {
			h, state, index, made := testObject(t, kind)
			b := golden(t, "object-v2-"+kind.String(), made)
			if !bytes.Equal(b, made) {
				t.Error("EncodeObject makes other bytes")
			}
			o := must.Get(DecodeObject(b))(t)
			if o.Head != h || !bytes.Equal(o.State, state) || len(o.Index) != len(index) {
				t.Errorf("%+v", o)
			}
			for i := range index {
				if o.Index[i] != index[i] {
					t.Errorf("entry %d: %+v", i, o.Index[i])
				}
			}
		})
	}
}
