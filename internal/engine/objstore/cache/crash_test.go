package cache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var allImages = flag.Bool("images", false, "try every image of the cache folder that a crash can leave, not a sample")

// image is a folder's content by file name.
type image map[string]string

// crash is a run of a cache whose folder is recorded before each step on disk.
type crash struct {
	t    *testing.T
	b    *bucket
	tune tuning
	o    Options

	mu     sync.Mutex       // guards images and ever during the run
	images []image          // one for each step
	ever   image            // every file that ever existed
	gone   map[string]bool  // deleted objects
	seen   map[[32]byte]int // images already tried
	dir    string           // for images
	tried  int
}

// shoot records the content of the folder.
func (c *crash) shoot(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := image{}
	entries := must.Get(os.ReadDir(dir))(c.t)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		// the lock is empty and belongs to the running process
		if err == nil && e.Name() != lockName {
			now[e.Name()] = string(text)
			c.ever[e.Name()] = string(text)
		}
	}
	if n := len(c.images); n == 0 || !maps.Equal(c.images[n-1], now) {
		c.images = append(c.images, now)
	}
}

// memoryDir is a temporary folder in memory, if available, because there are many images.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "images-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { check.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// newCrash runs a cache through everything that changes its folder: fills of several blocks,
// objects of Keep, evictions, deletions, a close and an open.
func newCrash(t *testing.T) *crash {
	c := &crash{t: t, b: newBucket(), o: options(), ever: image{}, gone: map[string]bool{}, seen: map[[32]byte]int{}, dir: filepath.Join(memoryDir(t), "image")}
	c.o.Bytes, c.tune = 6*pageBytes, tuning{block: 64, openMax: 2}
	dir := t.TempDir()
	tune := c.tune
	tune.hook = func(string) error { c.shoot(dir); return nil }
	for i, n := range []int{200, 64, 10, 130} {
		c.b.fill(t, fmt.Sprintf("s0000/wal/%d", i), pattern(n, i))
	}
	k := mustTune(t, dir, c.b, c.o, tune)
	want(t, k, "s0000/wal/0", pattern(200, 0))
	kept := make(chan struct{})
	k.Keep("s0000/wal/1", [][]byte{pattern(64, 1)[:30], pattern(64, 1)[30:]}, func() { close(kept) })
	<-kept
	want(t, k, "s0000/wal/2", pattern(10, 2))
	want(t, k, "s0000/wal/3", pattern(130, 3)) // evicts the oldest blocks
	must.NoError(t, k.Delete(t.Context(), "s0000/wal/2"))
	c.gone["s0000/wal/2"] = true
	mustClose(t, k)
	c.shoot(dir)
	k = mustTune(t, dir, c.b, c.o, tune)
	want(t, k, "s0000/wal/0", pattern(200, 0))
	mustClose(t, k)
	c.shoot(dir)
	return c
}

// try opens a cache on a folder with these files, and checks that it returns the bucket's content
// twice, and once more after a restart.
func (c *crash) try(what string, files image) {
	id := files.id()
	if c.seen[id]++; c.seen[id] > 1 {
		return
	}
	c.tried++
	must.NoError(c.t, errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o700)))
	for name, text := range files {
		must.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
	}
	c.answers(what, c.tune)
}

// answers checks that a cache on the folder returns the bucket's content.
func (c *crash) answers(what string, tune tuning) {
	for round := range 2 {
		k, err := open(c.dir, c.b, c.o, tune)
		must.NoErrorf(c.t, err, "%s: open", what)
		for i := range 4 {
			key := fmt.Sprintf("s0000/wal/%d", i)
			for _, r := range []objstore.Range{objstore.Whole, {Offset: 60, Length: 10}} {
				c.answer(fmt.Sprintf("%s, round %d", what, round), k, key, r)
			}
		}
		used := k.Stats().Bytes
		must.NoErrorf(c.t, k.Close(), "%s: close", what)
		if got := c.regular(); got > c.o.Bytes && got > used {
			c.t.Fatalf("%s: %d bytes on disk, %d counted, the bound is %d", what, got, used, c.o.Bytes)
		}
	}
}

// regular is the disk space of the folder's files, without folders and pipes, which do not belong
// to the cache.
func (c *crash) regular() (sum int64) {
	entries := must.Get(os.ReadDir(c.dir))(c.t)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += pages(info.Size())
		}
	}
	return sum
}

func (c *crash) answer(what string, k *Cache, key string, r objstore.Range) {
	got, size, err := read(c.t.Context(), k, key, r)
	wanted, wantSize, wantErr := read(c.t.Context(), c.b.Store, key, r)
	if c.gone[key] && err == nil {
		// A deleted object may reappear with the folder. Nothing requests it, and its content is
		// correct.
		if all := pattern(10, 2); r != objstore.Whole || !bytes.Equal(got, all) {
			c.t.Fatalf("%s: %s %+v: %q", what, key, r, got)
		}
		return
	}
	if c.gone[key] && errors.Is(err, objstore.ErrRefused) && r != objstore.Whole {
		return // also a deleted object: a range beyond its end
	}
	if !bytes.Equal(got, wanted) || size != wantSize || verdict(err) != verdict(wantErr) {
		c.t.Fatalf("%s: %s %+v: %d bytes of %d, %v; without the cache %d of %d, %v", what, key, r, len(got), size, err, len(wanted), wantSize, wantErr)
	}
}

func (f image) id() [32]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%q %q\n", name, f[name])
	}
	return [32]byte(h.Sum(nil))
}

// fates are the possible states of an unsynced file. The first few are tried in all combinations
// across files.
var fates = []struct {
	name string
	of   func(text string) string // nil: missing
}{
	{"whole", func(s string) string { return s }},
	{"missing", nil},
	{"torn", func(s string) string { return s[:len(s)/2] }},
	// pages reach the disk in any order
	{"zeros at the start", func(s string) string { return string(make([]byte, len(s)/4)) + s[len(s)/4:] }},
	{"zeros", func(s string) string { return string(make([]byte, len(s))) }},
	{"empty", func(string) string { return "" }},
	{"zeros at the end", func(s string) string { return s[:len(s)/2] + string(make([]byte, len(s)-len(s)/2)) }},
}

const mixedFates = 4

// unsynced is an image in which each file has the fate that is encoded in number, in base
// mixedFates.
func (f image) unsynced(number int) (image, string) {
	out, what := image{}, ""
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fate := fates[number%mixedFates]
		number /= mixedFates
		what += fmt.Sprintf(" %.8s is %s,", name, fate.name)
		if fate.of != nil {
			out[name] = fate.of(f[name])
		}
	}
	return out, what
}

func power(base, n int) int {
	p := 1
	for range n {
		p *= base
	}
	return p
}

// TestCrashImages stops the machine at every step of a run. Any file may then be complete, missing,
// empty, torn or contain zeros. A removed file may be back, and a renamed file may have its old
// name.
func TestCrashImages(t *testing.T) {
	c := newCrash(t)
	step := 509 // a sample in which every file has every fate
	if *allImages {
		step = 1
	}
	for i, files := range c.images {
		if i%sebtest.Runs(1, 24) > 0 {
			continue
		}
		c.try(fmt.Sprintf("step %d", i), files)
		for n := i * 7 % step; n < power(mixedFates, len(files)); n += step {
			torn, what := files.unsynced(n)
			c.try(fmt.Sprintf("step %d:%s", i, what), torn)
		}
		for name := range files {
			for _, fate := range fates {
				one := maps.Clone(files)
				if delete(one, name); fate.of != nil {
					one[name] = fate.of(files[name])
				}
				c.try(fmt.Sprintf("step %d: %s is %s", i, name, fate.name), one)
			}
		}
		back := maps.Clone(c.ever)
		maps.Copy(back, files)
		c.try(fmt.Sprintf("step %d, all removed files are back", i), back)
		for name, text := range files {
			renamed := maps.Clone(files)
			delete(renamed, name)
			renamed[tempPrefix+"9"] = text
			c.try(fmt.Sprintf("step %d, %s has its old name", i, name), renamed)
		}
	}
	if len(c.images) < 15 || len(c.ever) < 8 {
		t.Errorf("%d images of %d files: the run is too short", len(c.images), len(c.ever))
	}
	t.Logf("%d steps, %d images", len(c.images), c.tried)
}

// fullest is the image with the most blocks.
func (c *crash) fullest() image {
	return slices.MaxFunc(c.images, func(a, b image) int { return a.blocks() - b.blocks() })
}

func (f image) blocks() (n int) {
	for name := range f {
		if _, ok := parseName(name); ok {
			n++
		}
	}
	return n
}

// TestTornWrites truncates each file at each byte, and fills the rest with zeros or with bytes of
// another file.
func TestTornWrites(t *testing.T) {
	c := newCrash(t)
	full := c.fullest()
	names := slices.Sorted(maps.Keys(full))
	step := sebtest.Runs(5, 23)
	if *allImages {
		step = 1
	}
	for i, name := range names {
		text, other := full[name], full[names[(i+1)%len(names)]]
		for at := i % step; at < len(text); at += step {
			for how, end := range map[string]string{"": "", " and zeros": string(make([]byte, len(text)-at)), " and bytes of another file": other[min(at, len(other)):]} {
				torn := maps.Clone(full)
				torn[name] = text[:at] + end
				c.try(fmt.Sprintf("%s cut at %d%s", name, at, how), torn)
			}
			late := maps.Clone(full)
			late[name] = string(make([]byte, at)) + text[at:]
			c.try(fmt.Sprintf("%s with zeros up to %d", name, at), late)
		}
	}
	t.Logf("%d images", c.tried)
}

// TestForeignImages covers files under another name, of another cluster, of a newer version, of
// another block size, and names that are folders, links and pipes.
func TestForeignImages(t *testing.T) {
	c := newCrash(t)
	full := c.fullest()
	for a := range full {
		for b := range full {
			swapped := maps.Clone(full)
			swapped[a], swapped[b] = full[b], full[a]
			c.try("two files have changed places", swapped)
			copied := maps.Clone(full)
			copied[a] = full[b]
			c.try("a file is a copy of another", copied)
		}
		for what, change := range map[string]func(*Cache, *content){
			"of another cluster":    func(k *Cache, _ *content) { k.o.Cluster = "cluster-2" },
			"of another block size": func(k *Cache, _ *content) { k.block = 63 },
			"of another object":     func(_ *Cache, x *content) { x.key = "s0000/wal/9" },
		} {
			n, _ := parseName(a)
			x := content{key: "s0000/wal/0", name: n, size: 200, parts: [][]byte{pattern(64, 99)}}
			k := fuzzCache(c.o.Cluster, c.tune.block)
			change(k, &x)
			foreign := maps.Clone(full)
			foreign[a] = string(pattern(64, 99)) + string(k.trailerOf(x))
			c.try("a file is "+what, foreign)
		}
		newer := maps.Clone(full)
		newer[a] = newVersion(full[a])
		c.try("a file is of a newer version", newer)
		long := maps.Clone(full)
		long[a] += string(make([]byte, 2*(int(c.tune.block)+trailerMax)))
		c.try("a file is longer than any", long)
	}
	t.Logf("%d images", c.tried)
	c.oddFiles(full)
}

// newVersion is a file with the magic of a newer version and a correct checksum.
func newVersion(text string) string {
	b := []byte(text)
	fixed := b[len(b)-fixedBytes:]
	copy(fixed, "sebcach2")
	return string(b)
}

// oddFiles replaces files by other kinds of entries.
func (c *crash) oddFiles(full image) {
	names := slices.Sorted(maps.Keys(full))
	for what, make := range map[string]func(path string) error{
		"a folder":            func(p string) error { return os.Mkdir(p, 0o700) },
		"a folder with files": func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) },
		"a link to nothing":   func(p string) error { return os.Symlink("nowhere", p) },
		"a link to itself":    func(p string) error { return os.Symlink(filepath.Base(p), p) },
		"a link to outside":   func(p string) error { return os.Symlink("/dev/zero", p) },
		"a pipe":              mkfifo,
	} {
		for _, name := range []string{names[0], tempPrefix + "1", lockName} {
			must.NoError(c.t, errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o700)))
			for n, text := range full {
				if n != name {
					must.NoError(c.t, os.WriteFile(filepath.Join(c.dir, n), []byte(text), 0o600))
				}
			}
			must.NoError(c.t, make(filepath.Join(c.dir, name)))
			c.answers(fmt.Sprintf("%s is %s", name, what), c.tune)
		}
	}
}

// script runs a cache and checks that it returns the bucket's content whatever the disk does. It
// returns the number of disk errors.
func script(t *testing.T, dir string, hook func(string) error) (failures uint64) {
	b, o := newBucket(), options()
	o.Bytes = 6 * pageBytes
	tune := tuning{block: 64, openMax: 1, hook: hook}
	for i, n := range []int{200, 64, 10, 130} {
		b.fill(t, fmt.Sprint(i), pattern(n, i))
	}
	for range 2 {
		k := must.Get(open(dir, b, o, tune))(t)
		for round := range 2 {
			for i, n := range []int{200, 64, 10, 130} {
				want(t, k, fmt.Sprint(i), pattern(n, i))
			}
			kept := make(chan struct{})
			k.Keep("1", [][]byte{pattern(64, 1)}, func() { close(kept) })
			<-kept
			k.Forget(fmt.Sprint(round))
		}
		settle(k)
		if failures += k.Stats().WriteErrors; k.folder == nil {
			failures++
		}
		if err := k.Close(); err != nil && hook == nil {
			t.Fatal(err)
		}
	}
	return failures
}

// TestEveryDiskCallFails fails each step on disk of a run, alone and together with all later ones.
// The content is always the bucket's, and the next run works normally.
func TestEveryDiskCallFails(t *testing.T) {
	var mu sync.Mutex
	steps := 0
	count := func(string) error {
		mu.Lock()
		defer mu.Unlock()
		steps++
		return nil
	}
	if failures := script(t, t.TempDir(), count); steps < 60 || failures > 0 {
		t.Fatalf("%d steps, %d errors", steps, failures)
	}
	dir := filepath.Join(memoryDir(t), "cache")
	faults := []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.EROFS}
	for n := 1; n <= steps; n += sebtest.Runs(1, 9) {
		for _, forever := range []bool{false, true} {
			at := 0
			script(t, dir, func(string) error {
				mu.Lock()
				defer mu.Unlock()
				if at++; at == n || forever && at > n {
					return faults[n%len(faults)]
				}
				return nil
			})
			if n%8 == 0 {
				script(t, dir, nil)
			}
		}
	}
}
