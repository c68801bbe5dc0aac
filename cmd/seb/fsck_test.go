package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// walFiles returns the commit objects of a bucket in a folder, sorted by name.
func walFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "s0000", "wal"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	must.NoError(t, err)
	slices.Sort(files)
	return files
}

// walObjects returns the commit objects of a bucket in a folder, sorted by name. They may lie in
// journals, and a broker may run.
func walObjects(t *testing.T, dir string) (keys []string, bodies map[string][]byte) {
	t.Helper()
	store := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{Existing: true}))(t)
	defer store.Close()
	bodies = map[string][]byte{}
	o := objstore.ListOptions{Prefix: "s0000/wal/"}
	for {
		entries, more := must.Get2(store.List(t.Context(), o))(t)
		for _, e := range entries {
			object := must.Get(store.Get(t.Context(), e.Key, objstore.Whole))(t)
			body, err := io.ReadAll(object.Body)
			must.NoError(t, errors.Join(err, object.Body.Close()))
			keys, bodies[e.Key], o.After = append(keys, e.Key), body, e.Key
		}
		if !more {
			return keys, bodies
		}
	}
}

// inFiles is the bucket of a test that changes the file of a commit object.
const inFiles = "?journal=false"

func TestFsck(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--bucket", "./seb-bucket"+inFiles)
	p.must("produce", "made", "--record-size", "100", "--count", "5000")
	if got := p.must("fsck"); !strings.Contains(got, "records     5000 in 1 topics") || !strings.Contains(got, "damages     0") {
		t.Errorf("with a running broker: %s", got)
	}
	b.kill()
	check.Containsf(t, p.must("fsck", "--bucket", "./seb-bucket"), "damages     0", "after a kill")
	p.refused(2, "does not exist", "fsck", "--bucket", "./nowhere")
	p.refused(2, "empty outside a broker", "fsck", "--bucket", "mem:")
	must.NoError(t, os.Mkdir(filepath.Join(p.dir, "empty"), 0o700))
	p.refused(1, "no Seb log", "fsck", "--bucket", "./empty")

	files := walFiles(t, filepath.Join(p.dir, "seb-bucket"))
	name := files[len(files)-1]
	data := must.Get(os.ReadFile(name))(t)
	data[len(data)-1] ^= 1
	must.NoError(t, os.WriteFile(name, data, 0o600))
	r := p.run("fsck")
	if r.code != 5 || !strings.Contains(r.out, "damage: corrupt batches s0000/wal/") || !strings.Contains(r.out, filepath.Base(name)) || !strings.Contains(r.out, "lost: made/0 offsets") {
		t.Errorf("damage: %+v", r)
	}
	if r := p.run("fsck", "--repair", "--quiet-time", "1ms"); r.code != 5 || !strings.Contains(r.err, "nothing was removed") {
		t.Errorf("repair of damage: %+v", r)
	}
	r = p.run("fsck", "--json")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var finding struct{ Severity, Key string }
	var last struct {
		Summary struct{ Damages, Records int }
	}
	if err := json.Unmarshal([]byte(lines[0]), &finding); err != nil || finding.Severity != "damage" || r.code != 5 {
		t.Errorf("%+v %v", r, err)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Summary.Damages != 1 || last.Summary.Records != 5000 {
		t.Errorf("%+v %v", last, err)
	}
}

func TestFsckRepair(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.mustWith("a\n", "produce", "t")
	b.term()
	leftover := filepath.Join(p.dir, "seb-bucket", "probe", "abc", "x")
	must.NoError(t, os.MkdirAll(filepath.Dir(leftover), 0o700))
	must.NoError(t, os.WriteFile(leftover, []byte("x"), 0o600))
	temporary := filepath.Join(p.dir, "seb-bucket", "+tmp")
	must.NoError(t, os.RemoveAll(temporary))
	check.Contains(t, p.must("fsck"), "orphan: probe probe/abc/x")
	p.must("inspect", "meta/cluster")
	if _, err := os.Stat(temporary); !os.IsNotExist(err) {
		t.Error("a reader has created a folder:", err)
	}
	check.Contains(t, p.must("fsck", "--repair", "--quiet-time", "1ms"), "removed     1 objects, 1 bytes")
	if _, err := os.Stat(leftover); !os.IsNotExist(err) {
		t.Error("the leftover still exists:", err)
	}
	p.serve()
	check.Equalf(t, p.must("consume", "t"), "a\n", "after the repair")
}
