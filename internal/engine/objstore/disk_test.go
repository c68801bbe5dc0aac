package objstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestDiskKeepsObjectsWhenOpenedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	first := openDisk(t, dir, objstore.DiskOptions{})
	must.NoError(t, first.Put(t.Context(), "a/b", objstore.NewBody([]byte("x"))))
	for range 2 {
		must.NoError(t, first.Close())
	}
	must.ErrorIsf(t, first.Put(t.Context(), "a/c", objstore.NewBody([]byte("x"))), objstore.ErrRefused, "Put in a closed store")
	second := openDisk(t, dir, objstore.DiskOptions{})
	must.ErrorIs(t, second.Put(t.Context(), "a/b", objstore.NewBody([]byte("y"))), objstore.ErrExists)
}

func TestDiskStaysBelowItsFolder(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	must.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	d := openDisk(t, dir, objstore.DiskOptions{})
	must.Error(t, check.Err(d.Get(t.Context(), "link/secret", objstore.Whole)), "read a file outside")
	must.Error(t, d.Put(t.Context(), "link/new", objstore.NewBody([]byte("x"))), "wrote a file outside")
	must.Error(t, d.Delete(t.Context(), "link/secret"), "deleted a file outside")
	entries, _, err := d.List(t.Context(), objstore.ListOptions{})
	if err != nil || len(entries) != 0 {
		t.Fatalf("%v, %v", entries, err)
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 {
		t.Fatalf("%v, %v", left, err)
	}
}

func TestDiskNamesOfFoldersAreRefused(t *testing.T) {
	d := openDisk(t, t.TempDir(), objstore.DiskOptions{})
	for _, key := range []string{"a/b/c", "a/b", "a/b/c/d"} {
		err := d.Put(t.Context(), key, objstore.NewBody([]byte("x")))
		if key == "a/b/c" && err != nil || key != "a/b/c" && !errors.Is(err, objstore.ErrRefused) {
			t.Fatalf("%s: %v", key, err)
		}
	}
}

func TestDiskBodyIsASectionOfAFile(t *testing.T) {
	d := openDisk(t, t.TempDir(), objstore.DiskOptions{})
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	must.NoError(t, d.Put(t.Context(), "k", objstore.NewBody(data)))
	o := must.Get(d.Get(t.Context(), "k", objstore.Range{Offset: 7, Length: 400_000}))(t)
	section, ok := o.Body.(*objstore.Section)
	if !ok || section.Off != 7 || section.Len != 400_000 {
		t.Fatalf("%T %+v", o.Body, o.Body)
	}
	head := make([]byte, 5)
	must.Get(io.ReadFull(section, head))(t)
	got := throughTCP(t, section)
	if !bytes.Equal(append(head, got...), data[7:400_007]) {
		t.Fatalf("read %d bytes", len(got))
	}
	if n, err := section.Read(head); n != 0 || err != io.EOF {
		t.Fatalf("after the end: %d, %v", n, err)
	}
	for range 2 {
		must.NoError(t, section.Close())
	}
}

// throughTCP sends the rest of r over a TCP connection, like a front end.
func throughTCP(t *testing.T, r io.Reader) []byte {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	received := make(chan []byte, 1)
	go func() {
		defer close(received)
		if c, err := l.Accept(); err == nil {
			data, _ := io.ReadAll(c)
			_ = c.Close()
			received <- data
		}
	}()
	c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	_, err = io.Copy(c, r)
	must.NoError(t, errors.Join(err, c.Close()))
	return <-received
}

// TestDiskFoldersComeAndGo lets puts race with deletes that remove their empty folders.
func TestDiskFoldersComeAndGo(t *testing.T) {
	dir := t.TempDir()
	stores := []*objstore.Disk{openDisk(t, dir, objstore.DiskOptions{NoSync: true}), openDisk(t, dir, objstore.DiskOptions{NoSync: true})}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range sebtest.Runs(200, 20) {
				d := stores[(w+i)%2]
				key := fmt.Sprintf("x/%d/y/%d-%d", i%2, w, i)
				err := d.Put(t.Context(), key, objstore.NewBody([]byte(key)))
				if errors.Is(err, objstore.ErrNoVerdict) {
					continue // lost the race eight times
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := d.Get(t.Context(), key, objstore.Whole); err != nil {
					t.Error(err)
				}
				check.NoError(t, d.Delete(t.Context(), key))
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Fatalf("remaining entries except the temporary folder: %v, %v", left, err)
	}
}

func TestDiskManyFolders(t *testing.T) {
	d := openDisk(t, t.TempDir(), objstore.DiskOptions{NoSync: true})
	for round := range 2 {
		for i := range 100 {
			must.NoError(t, d.Put(t.Context(), fmt.Sprintf("f%d/%d", i, round), objstore.NewBody([]byte("x"))))
		}
	}
}
