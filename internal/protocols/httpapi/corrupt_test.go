package httpapi

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// flipped copies a store and flips a bit at each occurrence of text.
func flipped(t *testing.T, from objstore.Store, text []byte) objstore.Store {
	t.Helper()
	to := objstore.NewMemory()
	entries, more, err := from.List(t.Context(), objstore.ListOptions{})
	if err != nil || more {
		t.Fatal(err, more)
	}
	found := false
	for _, e := range entries {
		o := must.Get(from.Get(t.Context(), e.Key, objstore.Whole))(t)
		data := must.Get(io.ReadAll(o.Body))(t)
		if at := bytes.Index(data, text); at >= 0 {
			data = bytes.Clone(data)
			data[at] ^= 1
			found = true
		}
		must.NoError(t, to.Put(t.Context(), e.Key, objstore.NewBody(data)))
	}
	if !found {
		t.Fatal("the text does not occur in the store")
	}
	return to
}

func TestCorruptDataIsNamed(t *testing.T) {
	t.Parallel()
	inner := objstore.NewMemory()
	first := start(t, func(c *setup) { c.store = inner })
	first.mustPost("topic-name=t", api.TextPlain, "good")
	first.mustPost("topic-name=t", api.TextPlain, "bad bad bad")
	first.mustPost("topic-name=other", api.TextPlain, "fine")
	must.NoError(t, first.b.Close(t.Context()))
	store := flipped(t, inner, []byte("bad bad bad"))
	s := start(t, func(c *setup) { c.store = store })
	if got := s.values("other", 0); len(got) != 1 || got[0] != "fine" {
		t.Errorf("the other topic gives %v", got)
	}
	// The intact records come first, then an error that names the damage.
	if got := s.get("/records?topic-name=t&offset=0").unform(t); len(got) != 1 || got[0] != "good" {
		t.Errorf("before the damaged record: %v", got)
	}
	for _, path := range []string{"/records?topic-name=t&offset=1", "/record?topic-name=t&offset=1"} {
		for _, accept := range []string{"*/*", api.JSON, api.RecordBatch} {
			a := s.get(path, accept)
			if p := a.problem(t); p.Code != api.CorruptData || strings.Contains(string(a.body), "wal/") {
				t.Errorf("%s: %s", path, a)
			}
		}
	}
	check.Containsf(t, s.log.String(), "corrupt", "no log line about the damage")
}
