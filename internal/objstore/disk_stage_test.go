package objstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/must"
)

// stageBytes creates a staged file of n bytes.
func stageBytes(t *testing.T, d *Disk, n int) (file *Staged, content string) {
	t.Helper()
	file, err := d.Stage(t.Context(), int64(n))
	must.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i / 251)
	}
	if _, err := file.File.Write(b); err != nil {
		t.Fatal(err)
	}
	return file, string(b)
}

// TestStagedFiles checks that a staged file is invisible before it is published, and gone if it is
// not. Publish may be repeated.
func TestStagedFiles(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	first, content := stageBytes(t, d, 100)
	second, _ := stageBytes(t, d, 7)
	if entries, _, err := d.List(t.Context(), ListOptions{}); len(entries) != 0 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
	honest := d.calls.move
	d.calls.move = func(*os.File, string, *os.File, string) error { return unix.EMFILE }
	if err := first.Publish(t.Context(), "a/b"); !errors.Is(err, ErrNoVerdict) {
		t.Errorf("published: %v", err)
	}
	d.calls.move = honest
	if err := first.Publish(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if err := second.Publish(t.Context(), "a/b"); !errors.Is(err, ErrExists) {
		t.Errorf("published over another: %v", err)
	}
	for _, file := range []*Staged{first, second} {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, err := readString(t, d, "a/b"); got != content || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files %q remain", left)
	}
	late, _ := stageBytes(t, d, 1)
	must.NoError(t, d.Close())
	if err := late.Publish(t.Context(), "late"); !errors.Is(err, ErrRefused) {
		t.Errorf("published in a closed store: %v", err)
	}
	if _, err := d.Stage(t.Context(), 1); !errors.Is(err, ErrRefused) {
		t.Errorf("staged in a closed store: %v", err)
	}
}

// TestStagedFilesAreSyncedInSteps checks that all steps precede the name.
func TestStagedFilesAreSyncedInSteps(t *testing.T) {
	d := tempDisk(t, t.TempDir())
	file, _ := stageBytes(t, d, 2*writeStep+1)
	var calls []string
	honest := d.calls
	d.calls.settle = func(fd int, offset, size int64) error {
		calls = append(calls, fmt.Sprint("settle ", offset/writeStep, " ", size/writeStep))
		return honest.settle(fd, offset, size)
	}
	d.calls.dataSync = func(fd int) error { calls = append(calls, "data"); return honest.dataSync(fd) }
	d.calls.move = func(from *os.File, fromName string, to *os.File, toName string) error {
		calls = append(calls, "move")
		return honest.move(from, fromName, to, toName)
	}
	must.NoError(t, file.Publish(t.Context(), "k"))
	if want := []string{"settle 0 1", "settle 1 1", "settle 2 1", "data", "move"}; !slices.Equal(calls, want) {
		t.Errorf("%q, want %q", calls, want)
	}
}

// TestStagedFileSyncErrors checks that a failed sync refuses all writes, whichever call reports it.
func TestStagedFileSyncErrors(t *testing.T) {
	for name, sabotage := range map[string]func(*diskCalls){
		"step":   func(c *diskCalls) { c.settle = func(int, int64, int64) error { return unix.EIO } },
		"sync":   func(c *diskCalls) { c.dataSync = func(int) error { return unix.EIO } },
		"folder": func(c *diskCalls) { c.folderSync = func(*os.File) error { return unix.EIO } },
	} {
		t.Run(name, func(t *testing.T) {
			d := tempDisk(t, t.TempDir())
			file, _ := stageBytes(t, d, 10)
			honest := d.calls
			sabotage(&d.calls)
			if err := file.Publish(t.Context(), "k"); !errors.Is(err, ErrRefused) || !errors.Is(err, unix.EIO) {
				t.Errorf("published: %v", err)
			}
			d.calls = honest
			if err := file.Publish(t.Context(), "k2"); !errors.Is(err, ErrRefused) {
				t.Errorf("published after that: %v", err)
			}
			if err := putString(t, d, "k3", "x"); !errors.Is(err, ErrRefused) {
				t.Errorf("put after that: %v", err)
			}
		})
	}
}
