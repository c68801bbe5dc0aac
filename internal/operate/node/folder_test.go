package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var allImages = flag.Bool("images", false, "try every image of the data folder, not a sample")

// remoteStore is a store in memory that a node treats as a remote one, so that it has a cache and a
// store check. It records deletions.
type remoteStore struct {
	objstore.Store
	mu      sync.Mutex // guards deleted
	deleted []string
}

func (s *remoteStore) Delete(ctx context.Context, keys ...string) error {
	s.mu.Lock()
	for _, k := range keys {
		if !strings.HasPrefix(k, "probe/") {
			s.deleted = append(s.deleted, k)
		}
	}
	s.mu.Unlock()
	return s.Store.Delete(ctx, keys...)
}

// clone returns a store with the same objects.
func (s *remoteStore) clone(t *testing.T) *remoteStore {
	t.Helper()
	out := &remoteStore{Store: objstore.NewMemory()}
	entries, _ := must.Get2(s.List(t.Context(), objstore.ListOptions{}))(t)
	for _, e := range entries {
		o := must.Get(s.Get(t.Context(), e.Key, objstore.Whole))(t)
		b, err := io.ReadAll(o.Body)
		must.NoError(t, errors.Join(err, o.Body.Close(), out.Put(t.Context(), e.Key, objstore.NewBody(b))))
	}
	return out
}

// folderImage has the files of a data folder by their relative path.
type folderImage map[string]string

func readFolder(t *testing.T, dir string) folderImage {
	t.Helper()
	files := folderImage{}
	must.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since it was listed
		}
		name, relErr := filepath.Rel(dir, path)
		files[name] = string(text)
		return errors.Join(err, relErr)
	}))
	return files
}

func (f folderImage) write(t *testing.T, dir string) {
	t.Helper()
	must.NoError(t, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)))
	for name, text := range f {
		path := filepath.Join(dir, name)
		must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
}

// written is the work of a node: the acknowledged records, and the data folder after a crash and
// after a stop.
type nodeImages struct {
	t       *testing.T
	bucket  *remoteStore
	values  []string // of topic t, by offset
	keys    map[string]int64
	keyed   record.ID
	crashed folderImage
	stopped folderImage
	dir     string
	tried   int
}

func (w *nodeImages) options(store objstore.Store) Options {
	return Options{Store: store, DataDir: w.dir, CacheDir: filepath.Join(w.dir, "cache"), CacheBytes: 1 << 20, BatchWait: BatchNone, NoMerge: true}
}

// newNodeImages runs a node that writes, reads through its cache, and indexes keys. seed
// distinguishes logs.
func newNodeImages(t *testing.T, seed string) *nodeImages {
	dir, err := os.MkdirTemp("/dev/shm", "images-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w := &nodeImages{t: t, bucket: &remoteStore{Store: objstore.NewMemory()}, keys: map[string]int64{}, dir: filepath.Join(dir, "data")}
	n := open(t, w.options(w.bucket))
	w.keyed = createKeyed(t, n, "keyed", 1)
	for i := range 12 {
		v := fmt.Sprintf("%s-%d-%s", seed, i, strings.Repeat("x", 300*i))
		produce(t, n, []byte(v))
		w.values = append(w.values, v)
		key := fmt.Sprint("key", i%4)
		w.keys[key] = put(t, n, "keyed", 0, key, v)
	}
	shut(t, n)
	n = open(t, w.options(w.bucket)) // reads come from the store, and fill the cache
	w.check("at first", n)
	w.crashed = readFolder(t, w.dir)
	shut(t, n)
	w.stopped = readFolder(t, w.dir)
	return w
}

// check reads all acknowledged records, and looks up each key.
func (w *nodeImages) check(what string, n *Node) {
	w.t.Helper()
	next := int64(0)
	end := brokertest.Each(w.t, n, "t", 0, 0, func(r *record.Record) {
		if next < int64(len(w.values)) && (r.Offset != next || string(r.Value) != w.values[next]) {
			w.t.Fatalf("%s: offset %d (want %d) has value %.40q", what, r.Offset, next, r.Value)
		}
		next++
	})
	if next != end || end < int64(len(w.values)) {
		w.t.Fatalf("%s: %d records up to %d, want %d", what, next, end, len(w.values))
	}
	for key, offset := range w.keys {
		must.Equalf(w.t, newest(w.t, n, w.keyed, key, 0, int64(len(w.values)-1)), fmt.Sprintf("0/%d false true", offset), "%s: key %s at", what, key)
	}
}

// try starts a node twice on the data folder and on a copy of the bucket. All records must exist,
// and nothing may be deleted.
func (w *nodeImages) try(what string) {
	w.t.Helper()
	w.tried++
	store := w.bucket.clone(w.t)
	for round := range 2 {
		n, err := Open(w.t.Context(), w.options(store))
		must.NoErrorf(w.t, err, "%s, start %d", what, round+1)
		w.check(fmt.Sprintf("%s, start %d", what, round+1), n)
		must.NoErrorf(w.t, n.Close(context.Background()), "%s: close", what)
	}
	if len(store.deleted) > 0 {
		w.t.Fatalf("%s: %q were deleted", what, store.deleted)
	}
}

// damages are possible damages of a file.
func damages(text string, sample int) map[string]string {
	n := len(text)
	out := map[string]string{
		"empty": "", "zeros": string(make([]byte, n)), "a byte longer": text + "\x00", "zeros at its beginning": string(make([]byte, n/3)) + text[n/3:],
		"its second half missing, as zeros": text[:n/2] + string(make([]byte, n-n/2)), "something else": "{\"no\": \"such thing\"}",
	}
	for i := range sample {
		at := n * i / sample
		out[fmt.Sprintf("cut at %d", at)] = text[:at]
		if b := []byte(text); at < n {
			b[at] ^= 1 << (i % 8)
			out[fmt.Sprintf("another bit in byte %d", at)] = string(b)
		}
	}
	return out
}

// TestImagesOfTheDataFolder: a node starts on any state of the data folder, and all acknowledged
// records exist.
func TestImagesOfTheDataFolder(t *testing.T) {
	t.Parallel()
	w := newNodeImages(t, "one")
	if len(w.crashed) < 6 || len(w.stopped) < 5 {
		t.Fatalf("%v, %v: too little to damage", slices.Sorted(maps.Keys(w.crashed)), slices.Sorted(maps.Keys(w.stopped)))
	}
	sample := 1
	if *allImages {
		sample = 40
	}
	for kind, files := range map[string]folderImage{"killed": w.crashed, "stopped": w.stopped} {
		files.write(t, w.dir)
		w.try(kind)
		for i, name := range slices.Sorted(maps.Keys(files)) {
			if i%sebtest.Runs(1, 3) != 0 {
				continue
			}
			less := maps.Clone(files)
			delete(less, name)
			less.write(t, w.dir)
			w.try(kind + ": " + name + " is missing")
			if !*allImages && kind == "stopped" && i%3 != 0 || i%sebtest.Runs(1, 10) != 0 {
				continue
			}
			for what, text := range damages(files[name], sample) {
				bad := maps.Clone(files)
				bad[name] = text
				bad.write(t, w.dir)
				w.try(fmt.Sprintf("%s: %s has %s", kind, name, what))
			}
		}
	}
	folderImage{}.write(t, w.dir)
	w.try("nothing is there")
	t.Logf("%d images", w.tried)
}

// TestForeignDataFolders uses files of another log's data folder, all and one by one, and exchanged
// files.
func TestForeignDataFolders(t *testing.T) {
	sebtest.Long(t, "TestImagesOfTheDataFolder remains")
	w, other := newNodeImages(t, "one"), newNodeImages(t, "two")
	other.crashed.write(t, w.dir)
	w.try("another log's folder")
	mixed := maps.Clone(other.crashed)
	maps.Copy(mixed, w.crashed)
	mixed.write(t, w.dir)
	w.try("another log's files among them")
	names := slices.Sorted(maps.Keys(w.crashed))
	for i, name := range names {
		if _, both := other.crashed[name]; both {
			one := maps.Clone(w.crashed)
			one[name] = other.crashed[name]
			one.write(t, w.dir)
			w.try(name + " is another log's")
		}
		swapped := maps.Clone(w.crashed)
		next := names[(i+1)%len(names)]
		swapped[name], swapped[next] = swapped[next], swapped[name]
		swapped.write(t, w.dir)
		w.try(name + " and " + next + " exchanged")
	}
	t.Logf("%d images", w.tried)
}

// TestOddDataFolders uses folders and links in the place of files. A node starts, or its error
// names the folder.
func TestOddDataFolders(t *testing.T) {
	w := newNodeImages(t, "one")
	for _, name := range []string{"lock", checksFile, checksFile + ".new", "cache", "cache/lock", "view", "view/keys.db", "view/keys.db-wal"} {
		for what, create := range map[string]func(path string) error{
			"a folder":         func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) },
			"a file":           func(p string) error { return os.WriteFile(p, []byte("a file"), 0o600) },
			"a link to itself": func(p string) error { return os.Symlink(filepath.Base(p), p) },
			"a link to a file": func(p string) error { return os.Symlink(filepath.Join(filepath.Dir(w.dir), "elsewhere"), p) },
		} {
			if what == "a folder" && !strings.Contains(filepath.Base(name), ".") && name != "lock" && name != "cache/lock" {
				continue // it is already of this kind
			}
			w.crashed.write(t, w.dir)
			path := filepath.Join(w.dir, name)
			must.NoError(t, errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700), create(path)))
			w.starts(name+" is "+what, path)
		}
	}
	must.NoError(t, errors.Join(os.RemoveAll(w.dir), os.WriteFile(w.dir, nil, 0o600)))
	w.starts("the folder is a file", w.dir)
}

// starts expects a start that works or an error that names the file, and lookups that work or
// return an error.
func (w *nodeImages) starts(what, path string) {
	w.t.Helper()
	store := w.bucket.clone(w.t)
	o := w.options(store)
	var log sebtest.Log
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n, err := Open(w.t.Context(), o)
	if err != nil {
		if !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), w.dir) {
			w.t.Errorf("%s: %v does not name the file", what, err)
		}
		return
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			w.t.Errorf("%s: close: %v", what, err)
		}
	}()
	if size := fetch(w.t, n); size < 10_000 {
		w.t.Errorf("%s: %d bytes", what, size)
	}
	// without an index there is nothing to wait for
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	err = n.Keys().WaitFor(ctx, w.keyed, 0, int64(len(w.values)-1))
	if err != nil && log.String() == "" { // a busy machine
		err = n.Keys().WaitFor(w.t.Context(), w.keyed, 0, int64(len(w.values)-1))
	}
	if err == nil {
		w.check(what, n)
	} else if log.String() == "" {
		w.t.Errorf("%s: no index, and no error: %v", what, err)
	}
	if len(store.deleted) > 0 {
		w.t.Errorf("%s: %q were deleted", what, store.deleted)
	}
}
