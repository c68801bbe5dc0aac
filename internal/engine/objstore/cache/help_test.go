package cache

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is a memory store that counts reads and runs a function before a read.
type bucket struct {
	objstore.Store
	mu     sync.Mutex
	gets   []string
	before func(ctx context.Context, key string) error
}

func newBucket() *bucket { return &bucket{Store: objstore.NewMemory()} }

func (b *bucket) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	b.mu.Lock()
	b.gets = append(b.gets, fmt.Sprintf("%s %d+%d", key, r.Offset, r.Length))
	before := b.before
	b.mu.Unlock()
	if before != nil {
		if err := before(ctx, key); err != nil {
			return objstore.Object{}, err
		}
	}
	return b.Store.Get(ctx, key, r)
}

// asked returns the reads since its last call.
func (b *bucket) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	gets := b.gets
	b.gets = nil
	return gets
}

func (b *bucket) fill(t testing.TB, key string, data []byte) {
	t.Helper()
	must.NoError(t, b.Put(t.Context(), key, objstore.NewBody(data)))
}

// pattern returns n bytes that differ from those of another seed and from their neighbors.
func pattern(n, seed int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8 + seed*31)
	}
	return data
}

const plenty = 64 << 20

func options() Options {
	return Options{Bytes: plenty, Cluster: "cluster-1", Logger: slog.New(slog.DiscardHandler)}
}

func mustOpen(t testing.TB, dir string, remote objstore.Store, o Options) *Cache {
	t.Helper()
	return mustTune(t, dir, remote, o, tuning{block: blockBytes, openMax: openMax})
}

func mustTune(t testing.TB, dir string, remote objstore.Store, o Options, tune tuning) *Cache {
	t.Helper()
	c := must.Get(open(dir, remote, o, tune))(t)
	t.Cleanup(func() { mustClose(t, c) })
	return c
}

func mustClose(t testing.TB, c *Cache) {
	t.Helper()
	check.NoErrorf(t, c.Close(), "close")
}

func read(ctx context.Context, s objstore.Store, key string, r objstore.Range) ([]byte, int64, error) {
	o, err := s.Get(ctx, key, r)
	if err != nil {
		return nil, 0, err
	}
	defer o.Body.Close()
	data, err := io.ReadAll(o.Body)
	return data, o.Size, err
}

// want reads a whole object and compares it.
func want(t testing.TB, s objstore.Store, key string, data []byte) {
	t.Helper()
	got, size, err := read(t.Context(), s, key, objstore.Whole)
	must.NoErrorf(t, err, "get %s", key)
	if !bytes.Equal(got, data) || size != int64(len(data)) {
		t.Fatalf("get %s: %d bytes of %d with other content than the %d stored", key, len(got), size, len(data))
	}
}

// onDisk is the disk space of the files of a folder, in pages.
func onDisk(t testing.TB, dir string) (sum int64) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += pages(info.Size())
		}
	}
	return sum
}

// files lists the blocks in a folder.
func files(t testing.TB, dir string) (paths []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		if _, ok := parseName(e.Name()); ok {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// trailerOf returns the trailer of a file with the given parts.
func (c *Cache) trailerOf(x content) []byte {
	var sum uint32
	for _, p := range x.parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return c.trailer(x, sum)
}

// failing makes reads fail, or work again with nil.
func (b *bucket) failing(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = func(context.Context, string) error { return err }
}
