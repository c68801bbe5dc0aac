package objstore

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// stageBytes creates a staged file of n bytes.
func stageBytes(t *testing.T, d *Disk, n int) (file *Staged, content string) {
	t.Helper()
	file = must.Get(d.Stage(t.Context(), int64(n)))(t)
	t.Cleanup(func() { _ = file.Close() })
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i / 251)
	}
	must.Get(file.File.Write(b))(t)
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
	check.ErrorIsf(t, first.Publish(t.Context(), "a/b"), ErrNoVerdict, "published")
	d.calls.move = honest
	check.NoError(t, first.Publish(t.Context(), "a/b"))
	check.ErrorIsf(t, second.Publish(t.Context(), "a/b"), ErrExists, "published over another")
	for _, file := range []*Staged{first, second} {
		check.NoError(t, file.Close())
	}
	if got, err := readString(t, d, "a/b"); got != content || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files %q remain", left)
	}
	late, _ := stageBytes(t, d, 1)
	must.NoError(t, d.Close())
	check.ErrorIsf(t, late.Publish(t.Context(), "late"), ErrRefused, "published in a closed store")
	check.ErrorIsf(t, check.Err(d.Stage(t.Context(), 1)), ErrRefused, "staged in a closed store")
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
	check.EqualSlices(t, calls, []string{"settle 0 1", "settle 1 1", "settle 2 1", "data", "move"})
}

// TestStagedFilesLeaveTheDiskToOthers: after each step of a staged file the disk is free for as long as
// the step took, and no longer than settlePause.
func TestStagedFilesLeaveTheDiskToOthers(t *testing.T) {
	for step, pause := range map[time.Duration]time.Duration{2 * time.Millisecond: 2 * time.Millisecond, time.Second: settlePause} {
		synctest.Test(t, func(t *testing.T) {
			d := tempDisk(t, t.TempDir())
			file, _ := stageBytes(t, d, 2*writeStep)
			d.calls.settle = func(int, int64, int64) error { time.Sleep(step); return nil }
			begin := time.Now()
			must.NoError(t, file.Publish(t.Context(), "k"))
			check.Equalf(t, time.Since(begin), 2*(step+pause), "time of two steps of %v", step)
			must.NoError(t, d.Close())
		})
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
			check.ErrorIsf(t, file.Publish(t.Context(), "k2"), ErrRefused, "published after that")
			check.ErrorIsf(t, putString(t, d, "k3", "x"), ErrRefused, "put after that")
		})
	}
}
