package storetest

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Counts are numbers of requests and bytes. A request counts when it is made, whatever its outcome.
type Counts struct {
	Puts, Gets, Lists, Deletes int64 // calls
	KeysDeleted                int64 // names in all calls of Delete
	BytesPut                   int64 // sizes of all bodies of Put
	BytesGot                   int64 // bytes read from bodies; for a section of a file, its length
}

// Requests is the number of calls.
func (c Counts) Requests() int64 { return c.Puts + c.Gets + c.Lists + c.Deletes }

// Sub returns the counts since an earlier reading.
func (c Counts) Sub(earlier Counts) Counts {
	return Counts{
		Puts: c.Puts - earlier.Puts, Gets: c.Gets - earlier.Gets, Lists: c.Lists - earlier.Lists, Deletes: c.Deletes - earlier.Deletes,
		KeysDeleted: c.KeysDeleted - earlier.KeysDeleted, BytesPut: c.BytesPut - earlier.BytesPut, BytesGot: c.BytesGot - earlier.BytesGot,
	}
}

// Counter is a store that counts requests. Safe for concurrent use.
type Counter struct {
	inner objstore.Store

	puts, gets, lists, deletes, keysDeleted, bytesPut, bytesGot atomic.Int64
}

// NewCounter wraps inner.
func NewCounter(inner objstore.Store) *Counter { return &Counter{inner: inner} }

// Counts returns the counts so far.
func (c *Counter) Counts() Counts {
	return Counts{
		Puts: c.puts.Load(), Gets: c.gets.Load(), Lists: c.lists.Load(), Deletes: c.deletes.Load(),
		KeysDeleted: c.keysDeleted.Load(), BytesPut: c.bytesPut.Load(), BytesGot: c.bytesGot.Load(),
	}
}

// Unwrap implements objstore.Unwrapper.
func (c *Counter) Unwrap() objstore.Store { return c.inner }

// String implements objstore.Store.
func (c *Counter) String() string { return c.inner.String() }

// Put implements objstore.Store.
func (c *Counter) Put(ctx context.Context, key string, body objstore.Body) error {
	c.puts.Add(1)
	c.bytesPut.Add(body.Size)
	return c.inner.Put(ctx, key, body)
}

// Get implements objstore.Store. A *objstore.Section stays one.
func (c *Counter) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	c.gets.Add(1)
	object, err := c.inner.Get(ctx, key, r)
	if err != nil {
		return object, err
	}
	if section, ok := object.Body.(*objstore.Section); ok {
		c.bytesGot.Add(section.Len)
	} else {
		object.Body = &countedBody{object.Body, &c.bytesGot}
	}
	return object, nil
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// List implements objstore.Store.
func (c *Counter) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	c.lists.Add(1)
	return c.inner.List(ctx, o)
}

// Delete implements objstore.Store.
func (c *Counter) Delete(ctx context.Context, keys ...string) error {
	c.deletes.Add(1)
	c.keysDeleted.Add(int64(len(keys)))
	return c.inner.Delete(ctx, keys...)
}
