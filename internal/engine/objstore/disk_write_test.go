package objstore

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// longParts returns a body of somewhat more than three steps, in parts of all sizes.
func longParts() (parts [][]byte) {
	size := 0
	for i := 0; size < 3*writeStep+5; i++ {
		part := bytes.Repeat([]byte{byte(i), byte(i >> 8), 7}, i*i%(writeStep/2))
		parts = append(parts, part)
		size += len(part)
	}
	return parts
}

// TestWriteBackStartsDuringWrite checks that write-back of each step starts once, when it is
// complete, and that everything is synced after that.
func TestWriteBackStartsDuringWrite(t *testing.T) {
	for name, short := range map[string]int{"whole": writeStep, "in short writes": writeStep / 3} {
		t.Run(name, func(t *testing.T) {
			d := tempDisk(t, t.TempDir())
			parts := longParts()
			all := bytes.Join(parts, nil)
			var written, begun, synced int64
			honest := d.calls
			d.calls.writev = func(fd int, vectors [][]byte) (int, error) {
				next := bytes.Join(vectors, nil)
				check.Equalf(t, written/writeStep, (written+int64(len(next))-1)/writeStep, "a write of %d bytes at %d crosses a step", len(next), written)
				n, err := unix.Write(fd, next[:min(len(next), short)])
				written += int64(n)
				return n, err
			}
			d.calls.writeBack = func(fd int, offset, size int64) error {
				if offset != begun || size != writeStep || begun+size != written {
					t.Errorf("write-back of %d bytes at %d after %d of %d", size, offset, begun, written)
				}
				begun += size
				return honest.writeBack(fd, offset, size)
			}
			d.calls.dataSync = func(fd int) error {
				synced = written
				return honest.dataSync(fd)
			}
			must.NoError(t, d.Put(t.Context(), "k", NewBody(parts...)))
			if size := int64(len(all)); written != size || synced != size || begun != size-size%writeStep {
				t.Errorf("of %d bytes: %d written, %d in write-back, %d synced", size, written, begun, synced)
			}
			if got, err := readString(t, d, "k"); err != nil || got != string(all) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestWriteBackErrorFailsPut checks that errors before the fdatasync count.
func TestWriteBackErrorFailsPut(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	honest := d.calls.writeBack
	d.calls.writeBack = func(int, int64, int64) error { return unix.EIO }
	if err := d.Put(t.Context(), "k", NewBody(longParts()...)); !errors.Is(err, ErrRefused) || !errors.Is(err, unix.EIO) {
		t.Errorf("put: %v", err)
	}
	check.ErrorIsf(t, check.Err(readString(t, d, "k")), ErrNotFound, "get")
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files %q remain", left)
	}
	d.calls.writeBack = honest
	check.NoError(t, d.Put(t.Context(), "k", NewBody(longParts()...)))
}

// TestNoSyncStartsNoWriteBack: the kernel decides when to write.
func TestNoSyncStartsNoWriteBack(t *testing.T) {
	d := must.Get(OpenDisk(t.TempDir(), DiskOptions{NoSync: true}))(t)
	d.calls.writeBack = func(int, int64, int64) error { return unix.EIO }
	check.NoError(t, d.Put(t.Context(), "k", NewBody(longParts()...)))
	check.NoError(t, d.Close())
}

// FuzzAdvance checks that writes of any size write the body unchanged.
func FuzzAdvance(f *testing.F) {
	f.Add([]byte("some bytes in parts"), []byte{3, 0, 4, 1, 200}, []byte{1, 5, 0, 9})
	d := &Disk{}
	f.Fuzz(func(t *testing.T, all, cuts, takes []byte) {
		var parts [][]byte
		rest := all
		for _, c := range cuts {
			n := min(int(c), len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		var got []byte
		i := 0
		d.calls.writev = func(_ int, vectors [][]byte) (int, error) {
			joined := bytes.Join(vectors, nil)
			n := len(joined)
			if i < len(takes) {
				n = min(n, 1+int(takes[i]))
				i++
			}
			got = append(got, joined[:n]...)
			return n, nil
		}
		if err := d.writeParts(0, append(parts, rest)); err != nil || !bytes.Equal(got, all) {
			t.Fatalf("%q was written as %q, %v", all, got, err)
		}
	})
}
