package objstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/slab"
)

// Memory is a bucket in this process's memory: for tests, examples and brokers that may forget. It has no limit of its
// own and is safe for concurrent use.
type Memory struct {
	arena slab.Arena

	mu      sync.RWMutex // guards the fields below
	objects map[string]stored
	names   []string // the keys of objects, ascending
	heap    int64    // bytes of the objects that are not in slabs
	told    int64    // what grown was told last
	grown   func(bytes int64)
}

// stored is an object. It never changes.
type stored struct {
	data []byte
	slab *slab.Slab // that data lies in, the object being one of its users; nil: data is Go's
}

// growthStep is by how much a store's size has changed when it tells.
const growthStep = 16 << 20

// Watch has f called with the bytes that objects take of Go's heap whenever they have become 16 MiB more or fewer: memory
// that a program holds beside what it works with, and that counts for debug.SetMemoryLimit. Objects from 64 KiB on are
// not in the heap. f must not call the store.
func (m *Memory) Watch(f func(bytes int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grown = f
}

// changeLocked counts an object that came (sign 1) or went (-1).
func (m *Memory) changeLocked(o stored, sign int) {
	if o.slab != nil {
		return
	}
	m.heap += int64(sign * len(o.data))
	if m.grown != nil && (m.heap-m.told >= growthStep || m.told-m.heap >= growthStep) {
		m.told = m.heap
		m.grown(m.heap)
	}
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{objects: map[string]stored{}}
}

// Put implements Store. The bytes are copied.
func (m *Memory) Put(ctx context.Context, key string, body Body) error {
	if err := begin(ctx, "put", key); err != nil {
		return err
	}
	if err := checkBody(key, body); err != nil {
		return err
	}
	if m.has(key) { // before room is taken for it
		return fmt.Errorf("put %s: %w", key, ErrExists)
	}
	var o stored
	o.data, o.slab = m.arena.Take(int(body.Size))
	to := o.data
	for _, p := range body.Parts {
		to = to[copy(to, p):]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i, taken := slices.BinarySearch(m.names, key)
	if taken {
		o.slab.Release()
		return fmt.Errorf("put %s: %w", key, ErrExists)
	}
	m.names = slices.Insert(m.names, i, key)
	m.objects[key] = o
	m.changeLocked(o, 1)
	return nil
}

func (m *Memory) has(key string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.objects[key]
	return ok
}

// Get implements Store. Reading the body does not look at ctx.
func (m *Memory) Get(ctx context.Context, key string, r Range) (Object, error) {
	if err := begin(ctx, "get", key); err != nil {
		return Object{}, err
	}
	m.mu.RLock()
	o, ok := m.objects[key]
	if ok {
		o.slab.Retain()
	}
	m.mu.RUnlock()
	if !ok {
		return Object{}, fmt.Errorf("get %s: %w", key, ErrNotFound)
	}
	offset, length, err := clip(r, int64(len(o.data)))
	if err != nil {
		o.slab.Release()
		return Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	body := &memoryBody{slab: o.slab}
	body.left.Reset(o.data[offset : offset+length])
	return Object{Size: int64(len(o.data)), Body: body}, nil
}

// memoryBody reads an object, which may be deleted meanwhile.
type memoryBody struct {
	mu     sync.Mutex // guards the fields below: who closes it waits for who reads
	left   bytes.Reader
	slab   *slab.Slab // what left reads from
	closed bool
}

// Read implements io.Reader.
func (b *memoryBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, os.ErrClosed
	}
	return b.left.Read(p)
}

// WriteTo implements io.WriterTo.
func (b *memoryBody) WriteTo(w io.Writer) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, os.ErrClosed
	}
	return b.left.WriteTo(w)
}

// Close ends the reading. Closing twice is no error.
func (b *memoryBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.slab.Release()
	}
	return nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, o ListOptions) ([]Entry, bool, error) {
	if err := alive(ctx, "list"); err != nil {
		return nil, false, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	from, _ := slices.BinarySearch(m.names, o.Prefix)
	after, found := slices.BinarySearch(m.names, o.After)
	if found {
		after++
	}
	var entries []Entry
	for _, name := range m.names[max(from, after):] {
		if !strings.HasPrefix(name, o.Prefix) {
			break
		}
		if len(entries) == pageSize(o.Max) {
			return entries, true, nil
		}
		entries = append(entries, Entry{Key: name, Size: int64(len(m.objects[name].data))})
	}
	return entries, false, nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	if err := begin(ctx, "delete", keys...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if i, ok := slices.BinarySearch(m.names, key); ok {
			m.names = slices.Delete(m.names, i, i+1)
			o := m.objects[key]
			m.changeLocked(o, -1)
			o.slab.Release()
			delete(m.objects, key)
		}
	}
	return nil
}

// String implements Store.
func (m *Memory) String() string { return MemoryName }

// MemoryName is what every store in memory is called: each is another one.
const MemoryName = "mem:"
