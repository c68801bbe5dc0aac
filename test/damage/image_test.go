package damage_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// image is a bucket in a folder: its files, and those folders that are empty.
type image struct {
	files   map[string]content // by their path in the bucket
	folders []string
}

// content is a file without the zeros at its end. The bytes never change.
type content struct {
	used []byte
	size int64
}

func contentOf(b []byte) content { return content{bytes.TrimRight(b, "\x00"), int64(len(b))} }

func (c content) bytes() []byte {
	return append(slices.Clone(c.used), make([]byte, c.size-int64(len(c.used)))...)
}

// truncated is the first n bytes.
func (c content) truncated(n int64) content {
	return content{bytes.TrimRight(c.used[:min(n, int64(len(c.used)))], "\x00"), min(n, c.size)}
}

// zeroed has zeros from byte n on.
func (c content) zeroed(n int64) content { return content{c.truncated(n).used, c.size} }

// flipped has one other bit.
func (c content) flipped(at int64, bit int) content {
	used := slices.Concat(c.used, make([]byte, max(0, at+1-int64(len(c.used)))))
	used[at] ^= 1 << bit
	return content{bytes.TrimRight(used, "\x00"), c.size}
}

func readImage(t testing.TB, dir string) *image {
	t.Helper()
	img := &image{files: map[string]content{}}
	must.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if name == "+tmp" { // temporary files
			return fs.SkipDir
		}
		if e.IsDir() {
			img.folders = append(img.folders, name)
			return nil
		}
		b, err := os.ReadFile(path)
		img.files[name] = contentOf(b)
		return err
	}))
	return img
}

// write writes the bucket into a folder, which it makes.
func (img *image) write(t testing.TB, dir string) {
	t.Helper()
	for _, name := range img.folders {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	for name, c := range img.files {
		path := filepath.Join(dir, name)
		must.NoError(t, errors.Join(os.WriteFile(path, c.used, 0o600), os.Truncate(path, c.size)))
	}
}

func (img *image) clone() *image {
	return &image{files: maps.Clone(img.files), folders: slices.Clone(img.folders)}
}

// remove removes the files and folders whose path begins so.
func (img *image) remove(prefix string) {
	gone := func(name string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }
	maps.DeleteFunc(img.files, func(name string, _ content) bool { return gone(name) })
	img.folders = slices.DeleteFunc(img.folders, gone)
}

// equal reports whether two buckets have the same files.
func (img *image) equal(o *image) bool {
	return slices.Equal(img.folders, o.folders) && maps.EqualFunc(img.files, o.files, func(a, b content) bool {
		return a.size == b.size && bytes.Equal(a.used, b.used)
	})
}

var epochFolder = regexp.MustCompile(`s0000/wal/0*([0-9]+)-[0-9a-f]{32}`)

// title names a file without the random parts of its path, so that a case has the same name in every
// run.
func (img *image) title(name string) string {
	for _, kind := range []string{"snap", "pack", "peer"} {
		prefix := map[string]string{"peer": "peer/"}[kind]
		if prefix == "" {
			prefix = "s0000/" + kind + "/"
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		n := 0
		for other := range img.files {
			if strings.HasPrefix(other, prefix) && other <= name {
				n++
			}
		}
		return kind + "/" + strconv.Itoa(n)
	}
	return epochFolder.ReplaceAllString(name, "epoch$1")
}

// kind classifies a file.
func kind(name string) string {
	base := filepath.Base(name)
	switch {
	case strings.HasPrefix(name, "meta/"):
		return "meta"
	case strings.HasPrefix(name, "s0000/snap/"):
		return "snapshot"
	case strings.HasPrefix(name, "s0000/pack/"):
		return "pack"
	case strings.Contains(name, "+large/"):
		return "large object"
	case base == "+end":
		return "end"
	case strings.Contains(name, "+late/"):
		return "late object"
	case strings.HasSuffix(name, "+position"):
		return "position"
	case strings.HasSuffix(name, ".gone"):
		return "tombstones"
	case strings.Contains(name, "+journal/"):
		return "journal"
	case strings.HasPrefix(name, "s0000/wal/") && strings.Count(name, "/") == 2:
		return "claim"
	case strings.HasPrefix(name, "s0000/wal/"):
		return "slot"
	}
	return "other"
}
