package sebtest

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// failing records the failures that Allocates reports for f.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Fatalf(string, ...any) { f.failed = true }

var kept []byte

func TestAllocates(t *testing.T) {
	for _, c := range []struct {
		size int
		want bool
	}{{100, false}, {10 << 20, true}, {6000, true}} {
		caught := false
		for i := range 1 << 10 { // some of them are measured exactly
			f := failing{TB: t}
			Allocates(&f, 4<<10, []byte{byte(i), byte(i >> 8)}, func() { kept = make([]byte, c.size) })
			if c.size > 1<<20 && !f.failed {
				t.Fatalf("input %d: %d bytes were not detected", i, c.size)
			}
			if caught = caught || f.failed; caught {
				break
			}
		}
		if caught != c.want {
			t.Errorf("%d bytes: noticed %v", c.size, caught)
		}
	}
}

func TestCut(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 300)
	pieces := map[int]bool{}
	for cuts := range uint64(100) {
		must.NoError(t, iotest.TestReader(Cut(want, cuts), want))
		r, buf := Cut(want, cuts), make([]byte, 5000)
		for {
			n, err := r.Read(buf)
			pieces[n] = true
			if cuts == 0 && n > 1 {
				t.Errorf("%d bytes at a time", n)
			}
			if err == io.EOF {
				break
			}
		}
	}
	if len(pieces) < 20 {
		t.Errorf("only %d lengths of pieces", len(pieces))
	}
}

func TestSource(t *testing.T) {
	s := Source{B: []byte{7, 1, 200, 2, 1, 2, 18, 5, 5, 3, 'a', 'b'}}
	check.Equal(t, s.Byte(), 7)
	if !s.Bool() {
		t.Error("no bit")
	}
	check.Equal(t, s.Int(100), 0)
	if v := s.Uint64(); v != 0x0201 {
		t.Errorf("%x", v)
	}
	if v := s.Uint64(); v != 1<<16-0x0505 {
		t.Errorf("%x", v)
	}
	if v := s.Bytes(10); string(v) != "ab" || !s.Done() {
		t.Errorf("%q", v)
	}
	if s.Byte() != 0 || s.Uint64() != 0 || s.Bytes(3) != nil || Pick(&s, "x", "y") != "x" {
		t.Error("not zeros at the end")
	}
}
