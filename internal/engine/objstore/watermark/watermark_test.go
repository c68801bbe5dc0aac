package watermark_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

func open(t testing.TB, name string) *watermark.Mark {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	m, err := watermark.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func content(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func set(t testing.TB, m *watermark.Mark, record string) {
	t.Helper()
	if err := m.Set([]byte(record)); err != nil {
		t.Fatal(err)
	}
}

func check(t testing.TB, b []byte, want string) {
	t.Helper()
	got, ok := watermark.Decode(b)
	if string(got) != want || ok != (want != "") {
		t.Errorf("the record is %q, %v, want %q", got, ok, want)
	}
}

func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mark")
	m := open(t, name)
	check(t, content(t, name), "")
	for i := range 5 {
		want := fmt.Sprint("record ", i)
		set(t, m, want)
		check(t, content(t, name), want)
	}
	if err := m.Sync(); err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), watermark.RecordBytesMax)
	set(t, m, string(long))
	check(t, content(t, name), string(long))

	t.Run("is kept and replaced by a later process", func(t *testing.T) {
		again := open(t, name)
		check(t, content(t, name), string(long))
		set(t, again, "later")
		check(t, content(t, name), "later")
	})
	t.Run("is not set after Close", func(t *testing.T) {
		for range 2 {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if m.Set([]byte("closed")) == nil || m.Sync() == nil {
			t.Error("Set and Sync of a closed mark return no error")
		}
		check(t, content(t, name), "later")
	})
}

// A kill in the middle of Set leaves a part of the bytes of one slot, a power failure any bytes of
// one sector.
func TestTornRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mark")
	m := open(t, name)
	before := content(t, name)
	was := ""
	for _, want := range []string{"first", "second one", "3"} {
		set(t, m, want)
		after := content(t, name)
		for at := range after {
			torn := append(bytes.Clone(after[:at]), before[at:]...)
			if got, _ := watermark.Decode(torn); string(got) != was && string(got) != want {
				t.Errorf("with %d bytes of the new content the record is %q, want %q or %q", at, got, was, want)
			}
			flipped := bytes.Clone(after)
			flipped[at] ^= 0x10
			if got, _ := watermark.Decode(flipped); string(got) != was && string(got) != want {
				t.Errorf("with a flipped bit in byte %d the record is %q, want %q or %q", at, got, was, want)
			}
		}
		before, was = after, want
	}
}

func TestFileOfAnotherSize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mark")
	for _, size := range []int{1, watermark.FileBytes - 1, watermark.FileBytes + 1} {
		if err := os.WriteFile(name, bytes.Repeat([]byte("S"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		m := open(t, name)
		check(t, content(t, name), "")
		set(t, m, "record")
		check(t, content(t, name), "record")
	}
	check(t, content(t, name)[:700], "")
}

// The memory access to a page that the file lacks is an error of Set, and not the end of the process.
func TestCutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mark")
	m := open(t, name)
	set(t, m, "record")
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	err := m.Set([]byte("next"))
	if err == nil {
		t.Fatal("Set into a cut file returns no error")
	}
	if again := m.Set([]byte("next")); again == nil || again.Error() != err.Error() {
		t.Errorf("the next Set returns %v, want %v", again, err)
	}
	if m.Sync() == nil {
		t.Error("Sync after the error returns no error")
	}
}

func BenchmarkSet(b *testing.B) {
	m := open(b, filepath.Join(b.TempDir(), "mark"))
	record := []byte("sixteen bytes or")
	for b.Loop() {
		if err := m.Set(record); err != nil {
			b.Fatal(err)
		}
	}
}
