package objstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func tempDisk(t *testing.T, dir string) *Disk {
	t.Helper()
	d := must.Get(OpenDisk(dir, DiskOptions{}))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestReadingCreatesNothing checks that a store opened with Existing creates nothing before the
// first Put, which succeeds nevertheless.
func TestReadingCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	check.ErrorIsf(t, check.Err(OpenDisk(missing, DiskOptions{Existing: true})), fs.ErrNotExist, "missing folder")
	check.ErrorIsf(t, check.Err(os.Stat(missing)), fs.ErrNotExist, "the missing folder was created")
	must.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("there"), fileMode))
	d := must.Get(OpenDisk(dir, DiskOptions{Existing: true}))(t)
	if got, err := readString(t, d, "a"); got != "there" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if entries, _, err := d.List(t.Context(), ListOptions{}); len(entries) != 1 || err != nil {
		t.Errorf("%v %v", entries, err)
	}
	check.NoError(t, d.Delete(t.Context(), "b"))
	if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
		t.Errorf("after reading the folder has %v, %v", files, err)
	}
	mustPut(t, d, "b/c", "put")
	if got, err := readString(t, d, "b/c"); got != "put" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	check.NoError(t, d.Close())
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func putString(t *testing.T, s Store, key, value string) error {
	t.Helper()
	return s.Put(t.Context(), key, NewBody([]byte(value)))
}

func mustPut(t *testing.T, s Store, key, value string) {
	t.Helper()
	must.NoError(t, putString(t, s, key, value))
}

func readString(t *testing.T, s Store, key string) (string, error) {
	t.Helper()
	o, err := s.Get(t.Context(), key, Whole)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(o.Body)
	return string(data), errors.Join(err, o.Body.Close())
}

// tempFiles lists the files in the temporary folders of dir.
func tempFiles(t *testing.T, dir string) []string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, tempRoot, "*", "*")))(t)
	return files
}

func TestFailedSyncRefusesAllWrites(t *testing.T) {
	boom := unix.EIO
	for name, sabotage := range map[string]func(*diskCalls){
		"of the data":   func(c *diskCalls) { c.dataSync = func(int) error { return boom } },
		"of the folder": func(c *diskCalls) { c.folderSync = func(*os.File) error { return boom } },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := tempDisk(t, dir)
			mustPut(t, d, "a/before", "x")
			honest := d.calls
			sabotage(&d.calls)
			if err := putString(t, d, "a/during", "x"); !errors.Is(err, ErrRefused) || !errors.Is(err, boom) {
				t.Fatalf("a failed fsync gives %v", err)
			}
			select {
			case <-d.Broken():
			default:
				t.Error("Broken is not closed")
			}
			if err := d.BrokenBy(); !errors.Is(err, ErrBroken) || !errors.Is(err, boom) {
				t.Errorf("broken by %v", err)
			}
			d.calls = honest // the disk reports success again
			if err := putString(t, d, "a/after", "x"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "fsync") {
				t.Fatalf("Put after a failed fsync: %v", err)
			}
			must.ErrorIsf(t, d.Delete(t.Context(), "a/before"), ErrRefused, "Delete after a failed fsync")
			if v, err := readString(t, d, "a/before"); v != "x" || err != nil {
				t.Fatalf("Get after a failed fsync: %v", err)
			}
			again := tempDisk(t, dir)
			mustPut(t, again, "a/after", "x")
		})
	}
}

func TestWhatIsSyncedBeforeAPutReturns(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	var mu sync.Mutex
	var synced []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		synced = append(synced, s)
	}
	d.calls.dataSync = func(fd int) error { note("data"); return dataSync(fd) }
	d.calls.folderSync = func(f *os.File) error {
		name, err := filepath.Rel(dir, f.Name())
		note(name)
		return errors.Join(err, f.Sync())
	}
	expect := func(want ...string) {
		t.Helper()
		must.Equalf(t, fmt.Sprint(synced), fmt.Sprint(want), "synced %q, want %q", synced, want)
		synced = nil
	}
	mustPut(t, d, "a/b/1", "x")
	expect("data", "a", ".", "a/b")
	mustPut(t, d, "a/b/2", "x")
	expect("data", "a/b")
	must.ErrorIs(t, putString(t, d, "a/b/2", "y"), ErrExists)
	expect("data", "a/b") // before the store reports that it exists
	mustPut(t, d, "top", "x")
	expect("data", ".")
	must.NoError(t, d.Delete(t.Context(), "a/b/1", "a/b/2"))
	expect()
	mustPut(t, d, "a/b/3", "x") // the folder is new
	expect("data", "a", ".", "a/b")
}

func TestNoSyncNeverSyncs(t *testing.T) {
	d := must.Get(OpenDisk(t.TempDir(), DiskOptions{NoSync: true}))(t)
	defer d.Close()
	d.calls.dataSync = func(int) error { t.Error("data"); return nil }
	d.calls.folderSync = func(*os.File) error { t.Error("folder"); return nil }
	mustPut(t, d, "a/b", "x")
	must.Containsf(t, d.String(), "fsync=false", "String() of a store without fsync is %s", d)
}

func TestErrorsOfTheSystem(t *testing.T) {
	for _, c := range []struct {
		err   error
		class error
		text  string
	}{
		{unix.ENOSPC, ErrRefused, "disk is full"},
		{unix.EDQUOT, ErrRefused, "disk is full"},
		{unix.EIO, ErrRefused, ""},
		{unix.EROFS, ErrRefused, ""},
		{unix.EFBIG, ErrRefused, ""},
		{unix.EMFILE, ErrNoVerdict, ""},
		{unix.ENOMEM, ErrNoVerdict, ""},
	} {
		dir := t.TempDir()
		d := tempDisk(t, dir)
		honest := d.calls
		d.calls.writev = func(int, [][]byte) (int, error) { return 0, c.err }
		err := putString(t, d, "k", "value")
		if !errors.Is(err, c.class) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v while writing gives %v", c.err, err)
		}
		d.calls = honest
		d.calls.move = func(*os.File, string, *os.File, string) error { return c.err }
		check.ErrorIsf(t, putString(t, d, "k", "value"), c.class, "%v while moving", c.err)
		d.calls = honest
		if left := tempFiles(t, dir); len(left) != 0 {
			t.Errorf("%v leaves %q", c.err, left)
		}
		mustPut(t, d, "k", "value") // succeeds again without the error
	}
}

func TestShortWritesAreContinued(t *testing.T) {
	d := tempDisk(t, t.TempDir())
	calls := 0
	d.calls.writev = func(fd int, vectors [][]byte) (int, error) {
		calls++
		switch calls % 3 {
		case 0:
			return 0, unix.EINTR
		case 1:
			return unix.Write(fd, vectors[0][:(len(vectors[0])+1)/2])
		}
		return unix.Writev(fd, vectors)
	}
	var parts [][]byte
	for i := range 3000 {
		parts = append(parts, bytes.Repeat([]byte{byte(i)}, i%5))
	}
	must.NoError(t, d.Put(t.Context(), "k", NewBody(parts...)))
	if got, err := readString(t, d, "k"); err != nil || got != string(bytes.Join(parts, nil)) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
}

func TestMoveFallback(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	d.calls.move = linkNoReplace
	mustPut(t, d, "a/b", "first")
	must.ErrorIs(t, putString(t, d, "a/b", "second"), ErrExists)
	if got, err := readString(t, d, "a/b"); got != "first" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Fatalf("temporary files %q remain", left)
	}
}

func TestOnlyLeftoversOfEndedProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, tempRoot, "dead")
	must.NoError(t, os.MkdirAll(dead, 0o700))
	must.NoError(t, os.WriteFile(filepath.Join(dead, "1"), []byte("half an obj"), 0o600))
	first := tempDisk(t, dir)
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Fatalf("temporary files %q remain", left)
	}
	// A second store is opened while the first one is between writing and moving.
	honest := first.calls.dataSync
	first.calls.dataSync = func(fd int) error {
		tempDisk(t, dir)
		return honest(fd)
	}
	mustPut(t, first, "key", "value")
	entries, _, err := first.List(t.Context(), ListOptions{})
	if err != nil || len(entries) != 1 {
		t.Fatalf("temporary files are listed: %v, %v", entries, err)
	}
}

// TestAKilledWriter checks that a writer that is killed at any moment leaves no object or a
// complete one.
func TestAKilledWriter(t *testing.T) {
	const variable = "OBJSTORE_TEST_WRITER"
	value := strings.Repeat("0123456789", 100_000)
	if dir := os.Getenv(variable); dir != "" {
		d := tempDisk(t, dir)
		fmt.Println("ready")
		for i := 0; ; i++ {
			mustPut(t, d, fmt.Sprintf("%d/%d", i%3, i), value)
		}
	}
	dir := t.TempDir()
	for round := range 3 {
		command := exec.Command(os.Args[0], "-test.run=^TestAKilledWriter$")
		command.Env = append(os.Environ(), variable+"="+filepath.Join(dir, fmt.Sprint(round)))
		out := must.Get(command.StdoutPipe())(t)
		must.NoError(t, command.Start())
		must.Get(io.ReadFull(out, make([]byte, 5)))(t)
		for done := false; !done; { // until it has written a few
			found, _ := filepath.Glob(filepath.Join(dir, fmt.Sprint(round), "*", fmt.Sprint(5+round)))
			done = len(found) > 0
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		d := tempDisk(t, filepath.Join(dir, fmt.Sprint(round)))
		entries, _, err := d.List(t.Context(), ListOptions{})
		if err != nil || len(entries) < 5 {
			t.Fatalf("%d objects, %v", len(entries), err)
		}
		for _, e := range entries {
			if got, err := readString(t, d, e.Key); got != value || err != nil {
				t.Fatalf("%s: %d bytes, %v", e.Key, len(got), err)
			}
		}
		if left := tempFiles(t, filepath.Join(dir, fmt.Sprint(round))); len(left) != 0 {
			t.Fatalf("temporary files %q remain", left)
		}
	}
}
