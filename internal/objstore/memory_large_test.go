package objstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/slab"
)

// TestSlabsGoWithTheirLastUser: neither before whoever reads is done, nor ever after.
func TestSlabsGoWithTheirLastUser(t *testing.T) {
	m := NewMemory()
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i), 1, 2}, slab.Size/8) }
	for i := range 5 {
		if err := m.Put(t.Context(), fmt.Sprint(i), NewBody(body(i)[:7], body(i)[7:])); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := m.objects["0"].slab, m.objects["2"].slab, m.objects["4"].slab
	users := func(want ...int64) {
		t.Helper()
		if got := []int64{first.Users(), second.Users(), third.Users()}; !slices.Equal(got, want) {
			t.Errorf("the slabs have %d users, want %d", got, want)
		}
	}
	users(2, 2, 2) // two objects in each, and the last is being filled
	if err := m.Put(t.Context(), "1", NewBody(body(7))); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := m.Get(t.Context(), "1", Range{Offset: 1 << 40}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	users(2, 2, 2)
	o, err := m.Get(t.Context(), "1", Whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(t.Context(), "0", "1", "4", "none"); err != nil {
		t.Fatal(err)
	}
	users(1, 2, 1)
	if got, err := io.ReadAll(o.Body); err != nil || !bytes.Equal(got, body(1)) {
		t.Errorf("%d bytes of an object deleted while it was read, %v", len(got), err)
	}
	for range 2 {
		if err := o.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	users(0, 2, 1)
	if n, err := o.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed body gives %d bytes, %v", n, err)
	}
	if n, err := o.Body.(io.WriterTo).WriteTo(io.Discard); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed body writes %d bytes, %v", n, err)
	}
	for i := 2; i < 4; i++ {
		if got, err := readString(t, m, fmt.Sprint(i)); err != nil || got != string(body(i)) {
			t.Errorf("object %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// TestLargeObjects: what does not fit into a slab has one of its own, and little things have none.
func TestLargeObjects(t *testing.T) {
	m := NewMemory()
	for _, size := range []int{slab.Min - 1, slab.Min, slab.Size, slab.Size + 1, slab.Size - slab.Min + 1} {
		value := bytes.Repeat([]byte{7}, size)
		key := fmt.Sprint(size)
		if err := m.Put(t.Context(), key, NewBody(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := readString(t, m, key); err != nil || got != string(value) {
			t.Errorf("%d bytes of %d came back, %v", len(got), size, err)
		}
		if in := m.objects[key].slab != nil; in != (size >= slab.Min) {
			t.Errorf("%d bytes lie in a slab: %v", size, in)
		}
	}
}

// BenchmarkMemoryPut keeps 256 MiB, as a store does.
func BenchmarkMemoryPut(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			m := NewMemory()
			body := NewBody(make([]byte, size/2), make([]byte, size/2))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			keep := 256 << 20 / size
			for i := 0; b.Loop(); i++ {
				if err := m.Put(b.Context(), fmt.Sprintf("wal/%09d", i), body); err != nil {
					b.Fatal(err)
				}
				if err := m.Delete(b.Context(), fmt.Sprintf("wal/%09d", i-keep)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
