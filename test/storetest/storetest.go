// Package storetest is the contract of objstore.Store as a test suite: every store passes it, and so does every wrapper
// that claims to be one.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/objstore"
)

// Run tests the contract. open returns an empty store, a new one each time it is called; it may register its own cleanup.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, objstore.Store)
	}{
		{"put is refused when the name is taken", putIfAbsent},
		{"one of 16 racers for a name wins", racers},
		{"a name whose object was deleted is free for one racer", racersAfterDelete},
		{"a put is read back at once by get and list", readAfterWrite},
		{"list is in byte order", listOrder},
		{"list begins after a name", listAfter},
		{"list gives pages", listPages},
		{"list takes a prefix that ends within an element", listPrefix},
		{"list hides what was deleted", listAfterDelete},
		{"deleting what is not there is no error", deleteMissing},
		{"delete takes more than a page of names", deleteMany},
		{"ranges", ranges},
		{"ranges of an empty object", emptyObject},
		{"a missing name is not found", notFound},
		{"keys against the rules are refused", badKeys},
		{"a body that lies about its size is refused", badBody},
		{"an ended context is no verdict", endedContext},
		{"a body of many parts keeps their order", manyParts},
		{"the parts are the caller's again after put", partsReused},
		{"many kinds of calls at once", mixed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// within bounds a test against a store that hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, s objstore.Store, key, value string) {
	t.Helper()
	if err := s.Put(within(t), key, objstore.NewBody([]byte(value))); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func get(ctx context.Context, s objstore.Store, key string, r objstore.Range) ([]byte, int64, error) {
	o, err := s.Get(ctx, key, r)
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(o.Body)
	return data, o.Size, errors.Join(err, o.Body.Close())
}

func wantObject(t *testing.T, s objstore.Store, key, want string) {
	t.Helper()
	data, size, err := get(within(t), s, key, objstore.Whole)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if string(data) != want || size != int64(len(want)) {
		t.Fatalf("get %s: %d bytes of %d, want the %d that were put", key, len(data), size, len(want))
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
	classes := 0
	for _, class := range []error{objstore.ErrExists, objstore.ErrNotFound, objstore.ErrNoVerdict, objstore.ErrRefused} {
		if errors.Is(err, class) {
			classes++
		}
	}
	if classes != 1 {
		t.Fatalf("%v is of %d classes", err, classes)
	}
}

// listAll walks all pages.
func listAll(t *testing.T, s objstore.Store, o objstore.ListOptions) []objstore.Entry {
	t.Helper()
	var all []objstore.Entry
	for {
		page, more, err := s.List(within(t), o)
		if err != nil {
			t.Fatalf("list %+v: %v", o, err)
		}
		all = append(all, page...)
		if !more {
			return all
		}
		if len(page) == 0 {
			t.Fatalf("list %+v: an empty page, and more to come", o)
		}
		o.After = page[len(page)-1].Key
	}
}

func wantKeys(t *testing.T, s objstore.Store, o objstore.ListOptions, want ...string) {
	t.Helper()
	var got []string
	for _, e := range listAll(t, s, o) {
		got = append(got, e.Key)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("list %+v gives %q, want %q", o, got, want)
	}
}

// pattern is n bytes that tell where they are.
func pattern(n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%08d,", b.Len())
	}
	return b.Bytes()[:n]
}
