// Package storetest tests stores and their callers. Run is the contract of objstore.Store as a test
// suite: every store and every wrapper of a store must pass it. Faulty and Counter wrap a store to
// inject faults and to count requests.
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// Run tests the contract. Each call of open returns a new, empty store; it may register its own
// cleanup.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, objstore.Store)
	}{
		{"put is refused when the name exists", putIfAbsent},
		{"one of 16 racers for a name wins", racers},
		{"a name whose object was deleted is free for one racer", racersAfterDelete},
		{"get and list return an object immediately after put", readAfterWrite},
		{"list is in byte order", listOrder},
		{"list starts after a name", listAfter},
		{"list returns pages", listPages},
		{"list accepts a prefix that ends within an element", listPrefix},
		{"list omits deleted objects", listAfterDelete},
		{"deleting a missing object is not an error", deleteMissing},
		{"delete accepts more than a page of names", deleteMany},
		{"ranges", ranges},
		{"ranges of an empty object", emptyObject},
		{"a missing name is not found", notFound},
		{"invalid keys are refused", badKeys},
		{"a body of the wrong size is refused", badBody},
		{"an ended context gives no verdict", endedContext},
		{"a body of many parts keeps their order", manyParts},
		{"the caller may reuse the parts after put", partsReused},
		{"concurrent calls of all kinds", mixed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// within bounds the test of a store that hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, s objstore.Store, key, value string) {
	t.Helper()
	must.NoErrorf(t, s.Put(within(t), key, objstore.NewBody([]byte(value))), "put %s", key)
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
	must.NoErrorf(t, err, "get %s", key)
	if string(data) != want || size != int64(len(want)) {
		t.Fatalf("get %s: %d bytes of %d, want the %d that were put", key, len(data), size, len(want))
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	must.ErrorIsf(t, err, want, "error")
	classes := 0
	for _, class := range []error{objstore.ErrExists, objstore.ErrNotFound, objstore.ErrNoVerdict, objstore.ErrRefused} {
		if errors.Is(err, class) {
			classes++
		}
	}
	if classes != 1 {
		t.Fatalf("error %v belongs to %d classes", err, classes)
	}
}

// listAll lists all pages.
func listAll(t *testing.T, s objstore.Store, o objstore.ListOptions) []objstore.Entry {
	t.Helper()
	var all []objstore.Entry
	for {
		page, more, err := s.List(within(t), o)
		must.NoErrorf(t, err, "list %+v", o)
		all = append(all, page...)
		if !more {
			return all
		}
		if len(page) == 0 {
			t.Fatalf("list %+v: an empty page although more is true", o)
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
	must.EqualSlicesf(t, got, want, "list %+v", o)
}

// positions are bytes that contain their own positions.
var positions = sync.OnceValue(func() []byte {
	b := make([]byte, 0, patternMax)
	for len(b)+9 <= cap(b) {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(b))), ',')
	}
	return b
})

// patternMax is a multiple of 9, the length of a position.
const patternMax = 9 << 20

// pattern returns n bytes that contain their own positions. The caller must not change them.
func pattern(n int) []byte { return positions()[:n] }
