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
)

// Memory is a bucket in this process's memory, for tests, examples and brokers without durability.
// It is unbounded and safe for concurrent use.
type Memory struct {
	mu       sync.RWMutex      // guards the fields below
	objects  map[string][]byte // values are immutable
	names    []string          // the keys of objects, ascending
	held     int64             // bytes of all objects
	reported int64             // last value passed to grown
	grown    func(bytes int64)
}

// growthStep is the change in size after which Watch's function is called.
const growthStep = 16 << 20

// Watch calls f with the bytes of all objects whenever they have grown or shrunk by 16 MiB. They
// count for debug.SetMemoryLimit in addition to the program's other memory. f must not call the
// store.
func (m *Memory) Watch(f func(bytes int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grown = f
}

// changeLocked adds n bytes, which may be negative.
func (m *Memory) changeLocked(n int) {
	m.held += int64(n)
	if m.grown != nil && (m.held-m.reported >= growthStep || m.reported-m.held >= growthStep) {
		m.reported = m.held
		m.grown(m.held)
	}
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{objects: map[string][]byte{}}
}

// Put implements Store. The bytes are copied.
func (m *Memory) Put(ctx context.Context, key string, body Body) error {
	if err := Begin(ctx, "put", key); err != nil {
		return err
	}
	if err := CheckBody(key, body); err != nil {
		return err
	}
	if m.has(key) { // before the parts are copied
		return fmt.Errorf("put %s: %w", key, ErrExists)
	}
	data := slices.Concat(body.Parts...)
	m.mu.Lock()
	defer m.mu.Unlock()
	i, taken := slices.BinarySearch(m.names, key)
	if taken {
		return fmt.Errorf("put %s: %w", key, ErrExists)
	}
	m.names = slices.Insert(m.names, i, key)
	m.objects[key] = data
	m.changeLocked(len(data))
	return nil
}

func (m *Memory) has(key string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.objects[key]
	return ok
}

// Get implements Store. Reading the body ignores ctx.
func (m *Memory) Get(ctx context.Context, key string, r Range) (Object, error) {
	if err := Begin(ctx, "get", key); err != nil {
		return Object{}, err
	}
	m.mu.RLock()
	data, ok := m.objects[key]
	m.mu.RUnlock()
	if !ok {
		return Object{}, fmt.Errorf("get %s: %w", key, ErrNotFound)
	}
	offset, length, err := r.Clip(int64(len(data)))
	if err != nil {
		return Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	body := &memoryBody{}
	body.left.Reset(data[offset : offset+length])
	return Object{Size: int64(len(data)), Body: body}, nil
}

// memoryBody reads an object, which may be deleted meanwhile.
type memoryBody struct {
	mu     sync.Mutex // guards the fields below; Close waits for a running read
	left   bytes.Reader
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

// Close ends reading. It may be called twice.
func (b *memoryBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, o ListOptions) ([]Entry, bool, error) {
	if err := Alive(ctx, "list"); err != nil {
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
		if len(entries) == PageSize(o.Max) {
			return entries, true, nil
		}
		entries = append(entries, Entry{Key: name, Size: int64(len(m.objects[name]))})
	}
	return entries, false, nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	if err := Begin(ctx, "delete", keys...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if i, ok := slices.BinarySearch(m.names, key); ok {
			m.names = slices.Delete(m.names, i, i+1)
			m.changeLocked(-len(m.objects[key]))
			delete(m.objects, key)
		}
	}
	return nil
}

// String implements Store.
func (m *Memory) String() string { return MemoryName }

// MemoryName is the name of every store in memory, although each is a different one.
const MemoryName = "mem:"
