package core_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/record"
)

// FuzzDecodeMeta checks that decoding meta/cluster gives an ID or an error, and that a decoded ID
// survives encoding.
func FuzzDecodeMeta(f *testing.F) {
	good := core.EncodeMeta(record.ID{1, 2, 3})
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("1"), []byte("2"), 1))
	f.Add([]byte(strings.ToUpper(string(good))))
	f.Add(core.EncodeMeta(record.ID{}))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, _, err := core.DecodeMeta(b)
		if err != nil {
			return
		}
		if id.IsZero() {
			t.Fatalf("%q decodes to a zero cluster ID", b)
		}
		if again, checked, err := core.DecodeMeta(core.EncodeMeta(id)); err != nil || !checked || again != id {
			t.Fatalf("%q: %s comes back as %s, %v", b, id, again, err)
		}
	})
}
