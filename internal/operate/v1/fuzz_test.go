package v1_test

import (
	"math"
	"path"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/test/must"
)

// FuzzListing: a name counts as a batch file only if it has the form of one, with an offset; every
// name is counted once.
func FuzzListing(f *testing.F) {
	f.Add("t/000000000000.record_batch\nt/000000000007.record_batch\nt/offsets_000000000007.offsets\nt/x/000000000000.record_batch\nt/other")
	f.Add("t/-00000000001.record_batch\nt/9223372036854775807.record_batch\nt/9223372036854775808.record_batch\nt/+00000000001.record_batch\nt/7.record_batch")
	f.Fuzz(func(t *testing.T, names string) {
		store, keys := objstore.NewMemory(), map[string]bool{}
		for key := range strings.SplitSeq(names, "\n") {
			if !strings.HasPrefix(key, "t/") || !objstore.ValidKey(key) || keys[key] {
				continue // a listing has no other names
			}
			must.NoError(t, store.Put(t.Context(), key, objstore.NewBody(make([]byte, 10))))
			keys[key] = true
		}
		l := must.Get(v1.List(t.Context(), store, "t"))(t)
		n, offsets := len(keys), 0
		for _, f := range l.Files {
			if key := v1.Name("t", f.First); f.First < 0 || f.Size != 10 || !keys[key] {
				t.Fatalf("no file of offset %d", f.First)
			}
			delete(keys, v1.Name("t", f.First))
		}
		for key := range keys {
			if strings.HasPrefix(path.Base(key), "offsets_") && strings.HasSuffix(key, ".offsets") && strings.Count(key, "/") == 1 {
				offsets++
			}
		}
		if len(l.Files)+l.Nested+l.Unknown+offsets != n || l.Bytes != int64(10*len(l.Files)) || (l.Offsets != "") != (offsets > 0) {
			t.Fatalf("%d names: %+v", n, l)
		}
	})
}

// FuzzCheckTopic: every file of a topic with a valid name can be found.
func FuzzCheckTopic(f *testing.F) {
	for _, s := range []string{"t", "a/b", "..", "", "a b", "ä", "x/", strings.Repeat("x", 500)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, topic string) {
		if err := v1.CheckTopic(topic); err != nil {
			return
		}
		if key := v1.Name(topic, math.MaxInt64); !objstore.ValidKey(key) || strings.Count(key, "/") != 1 {
			t.Fatalf("%q is allowed", topic)
		}
	})
}
