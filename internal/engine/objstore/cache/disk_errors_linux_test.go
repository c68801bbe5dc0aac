package cache

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// mount mounts a small file system; the test is skipped where that is not allowed.
func mount(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() { check.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mount(t, "size=64k")
	b := newBucket()
	data := pattern(200<<10, 1)
	b.fill(t, "large", data)
	b.fill(t, "small", []byte("x"))
	c := mustOpen(t, dir, b, options())
	for range 2 {
		want(t, c, "large", data)
		want(t, c, "small", []byte("x"))
	}
	if s := c.Stats(); s.WriteErrors != 2 || s.Blocks != 1 || s.Bytes != pageBytes {
		t.Errorf("stats %+v", s)
	}
	mustClose(t, c)
}

func TestReadOnlyFolder(t *testing.T) {
	dir := mount(t, "size=1m")
	b := newBucket()
	b.fill(t, "k", []byte("x"))
	b.fill(t, "new", []byte("y"))
	c := mustOpen(t, dir, b, options())
	want(t, c, "k", []byte("x"))
	mustClose(t, c)
	must.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	b.asked()
	c = mustOpen(t, dir, b, options())
	want(t, c, "k", []byte("x"))
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("cached content was requested: %q", asked)
	}
	for range 3 {
		want(t, c, "new", []byte("y"))
	}
	if s := c.Stats(); s.WriteErrors != 3 || s.Bytes != pageBytes {
		t.Errorf("stats %+v", s)
	}
	c.Forget("k")
	want(t, c, "k", []byte("x"))
	mustClose(t, c)
}

// TestDisksOfEverySize fills the disk at every possible write.
func TestDisksOfEverySize(t *testing.T) {
	for pages := 1; pages <= 10; pages++ {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			if failures := script(t, mount(t, fmt.Sprintf("size=%dk", 4*pages)), nil); (failures > 0) != (pages < 6) {
				t.Errorf("%d errors", failures)
			}
		})
	}
}

// TestFewDescriptors leaves the process so few file descriptors that it runs out of them at every
// possible step.
func TestFewDescriptors(t *testing.T) {
	var before syscall.Rlimit
	must.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	t.Cleanup(func() { check.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
	dir, failures := t.TempDir(), uint64(0)
	for spare := range uint64(10) {
		must.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		// The limit applies to descriptor numbers, not to their count; the used numbers are low.
		few := syscall.Rlimit{Cur: uint64(len(open)) - 1 + spare, Max: before.Max}
		must.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
		failures += script(t, dir, nil)
	}
	if failures < 10 {
		t.Errorf("%d errors: there were enough descriptors", failures)
	}
}
