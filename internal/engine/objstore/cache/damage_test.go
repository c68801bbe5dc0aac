package cache

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// onFile is a test on the only file of a cache with one block of key.
type onFile struct {
	t    *testing.T
	b    *bucket
	dir  string
	key  string
	data []byte
	path string
	good []byte
}

func newOnFile(t *testing.T, data []byte) *onFile {
	t.Helper()
	d := &onFile{t: t, b: newBucket(), dir: t.TempDir(), key: "s0000/wal/0-a/7", data: data}
	d.b.fill(t, d.key, d.data)
	d.reread()
	d.path = files(t, d.dir)[0]
	good := must.Get(os.ReadFile(d.path))(t)
	d.good = good
	return d
}

// reread opens the cache and reads the object, which must be correct whatever the file contains. It
// returns the number of requests to the bucket.
func (d *onFile) reread() (asked int, s Stats) {
	d.t.Helper()
	d.b.asked()
	c := mustOpen(d.t, d.dir, d.b, options())
	want(d.t, c, d.key, d.data)
	asked, s = len(d.b.asked()), c.Stats()
	want(d.t, c, d.key, d.data)
	if again := d.b.asked(); len(again) != 0 {
		d.t.Errorf("the second read made requests %q", again)
	}
	mustClose(d.t, c)
	return asked, s
}

// is replaces the content of the file and checks that it is detected as damaged.
func (d *onFile) is(what string, bytes []byte) {
	d.t.Helper()
	must.NoError(d.t, os.WriteFile(d.path, bytes, 0o600))
	if asked, s := d.reread(); asked != 1 || s.Damaged != 1 {
		d.t.Fatalf("%s: asked %d times, %d found damaged", what, asked, s.Damaged)
	}
	if now, err := os.ReadFile(d.path); err != nil || string(now) != string(d.good) {
		d.t.Fatalf("%s: the file was not rewritten: %v", what, err)
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	d := newOnFile(t, []byte("twelve bytes"))
	for i := 0; i < len(d.good)*8; i += sebtest.Runs(1, 3) {
		bad := bytes.Clone(d.good)
		bad[i/8] ^= 1 << (i % 8)
		d.is(fmt.Sprintf("bit %d flipped", i), bad)
	}
	if asked, s := d.reread(); asked != 0 || s.Damaged != 0 {
		t.Errorf("the good file: asked %d times, %d found damaged", asked, s.Damaged)
	}
}

// TestDamageOfLargeFilesIsFound checks files that are longer than the buffer, or nearly so.
func TestDamageOfLargeFilesIsFound(t *testing.T) {
	for _, size := range []int{copyBytes - 100, copyBytes, 3*copyBytes + 1} {
		d := newOnFile(t, pattern(size, 1))
		for _, i := range []int{0, size / 2, size - 1, size, len(d.good) - 1} {
			bad := bytes.Clone(d.good)
			bad[i] ^= 1
			d.is(fmt.Sprintf("bit of byte %d of %d flipped", i, size), bad)
		}
		d.is("cut", d.good[:len(d.good)-1])
		d.is("longer", append(bytes.Clone(d.good), 0))
		if asked, s := d.reread(); asked != 0 || s.Damaged != 0 {
			t.Errorf("the good file of %d bytes: asked %d times, %d found damaged", size, asked, s.Damaged)
		}
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	d := newOnFile(t, []byte("twelve bytes"))
	for n := range d.good {
		d.is("cut", d.good[:n])
		d.is("cut at the front", d.good[n+1:])
	}
}

func TestOtherContentIsFound(t *testing.T) {
	d := newOnFile(t, []byte("twelve bytes"))
	d.is("zeros", make([]byte, len(d.good)))
	d.is("longer", append(bytes.Clone(d.good), 0))
	d.is("twice", append(bytes.Clone(d.good), d.good...))
	d.is("trailer alone", d.good[len(d.data):])
	c := mustOpen(t, d.dir, d.b, options())
	x := content{key: d.key, name: name{c.object(d.key), 0}, size: 12, parts: [][]byte{[]byte("other bytes!")}}
	file := func(change func(*content)) []byte {
		y := x
		change(&y)
		return append(bytes.Join(y.parts, nil), c.trailerOf(y)...)
	}
	mustClose(t, c)
	d.is("another object", file(func(x *content) { x.key = "s0000/wal/0-a/8" }))
	d.is("another block", file(func(x *content) { x.name.number = 1 }))
	d.is("a wrong object size", file(func(x *content) { x.size = 13 }))
	d.is("no size", file(func(x *content) { x.size = 0 }))
	d.is("a negative size", file(func(x *content) { x.size = -1 }))
	c.o.Cluster = "cluster-2"
	d.is("another cluster", file(func(*content) {}))
	c.o.Cluster, c.block = "cluster-1", c.block*2
	d.is("another block size", file(func(*content) {}))
}

func TestSwappedFilesAreFound(t *testing.T) {
	d := newOnFile(t, []byte("twelve bytes"))
	d.b.fill(t, "other", []byte("OTHER BYTES!"))
	c := mustOpen(t, d.dir, d.b, options())
	want(t, c, "other", []byte("OTHER BYTES!"))
	mustClose(t, c)
	both := files(t, d.dir)
	temp := d.path + "x"
	for _, move := range [][2]string{{both[0], temp}, {both[1], both[0]}, {temp, both[1]}} {
		must.NoError(t, os.Rename(move[0], move[1]))
	}
	c = mustOpen(t, d.dir, d.b, options())
	want(t, c, "other", []byte("OTHER BYTES!"))
	want(t, c, d.key, d.data)
	if n := c.Stats().Damaged; n != 2 {
		t.Errorf("%d of 2 swapped files found", n)
	}
}

func TestDamageIsLoggedOnce(t *testing.T) {
	d := newOnFile(t, []byte("twelve bytes"))
	for _, key := range []string{"a", "b", "c"} {
		d.b.fill(t, key, []byte(key))
		c := mustOpen(t, d.dir, d.b, options())
		want(t, c, key, []byte(key))
		mustClose(t, c)
	}
	for _, path := range files(t, d.dir) {
		must.NoError(t, os.Truncate(path, 3))
	}
	var book sebtest.Log
	o := options()
	o.Logger = book.Logger()
	c := mustOpen(t, d.dir, d.b, o)
	for _, key := range []string{"a", "b", "c"} {
		want(t, c, key, []byte(key))
	}
	if lines := book.Lines(); len(lines) != 1 || c.Stats().Damaged != 3 {
		t.Errorf("%d found damaged, logged %q", c.Stats().Damaged, lines)
	}
}

func TestFileThatShrinksWhileItIsOpen(t *testing.T) {
	for _, way := range []string{"read", "send"} {
		d := newOnFile(t, []byte("twelve bytes"))
		c := mustOpen(t, d.dir, d.b, options())
		got, err := c.Get(t.Context(), d.key, objstore.Whole)
		must.NoError(t, err)
		must.NoError(t, os.Truncate(d.path, 5))
		var buf bytes.Buffer
		if way == "read" {
			_, err = buf.ReadFrom(struct{ io.Reader }{got.Body})
		} else {
			_, err = got.Body.(io.WriterTo).WriteTo(&buf)
		}
		if err != nil || buf.String() != string(d.data) {
			t.Errorf("%s: %q, %v", way, buf.String(), err)
		}
		check.NoError(t, got.Body.Close())
		want(t, c, d.key, d.data)
		mustClose(t, c)
	}
}
