package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README promises that the data folder can be deleted.
func TestRecordsSurviveTheLossOfTheDataFolder(t *testing.T) {
	for _, args := range [][]string{nil, {"--data-dir", "d1"}, {"--data-dir", "."}} {
		p := newPlace(t)
		p.dir = filepath.Join(p.dir, "work")
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		data := "seb-data"
		if args != nil {
			data = args[1]
		}
		b := p.serve(args...)
		p.mustWith("one\n", append([]string{"produce", "demo"}, args...)...)
		b.term()
		if err := os.RemoveAll(filepath.Join(p.dir, data)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b = p.serve(args...)
		if got := p.must(append([]string{"consume", "demo"}, args...)...); got != "one\n" {
			t.Errorf("%s: consumed %q after the data folder was deleted", args, got)
		}
		b.term()
		if got := p.must(append([]string{"fsck"}, args...)...); !strings.Contains(got, "damages     0") {
			t.Errorf("%s: fsck: %s", args, got)
		}
	}
}

// Older versions kept the default bucket inside the data folder.
func TestBucketInsideTheDataFolderIsFound(t *testing.T) {
	p := newPlace(t)
	b := p.serve("--bucket", "./seb-data/bucket")
	p.mustWith("old\n", "produce", "demo")
	b.term()
	b = p.serve()
	if got := p.must("consume", "demo"); got != "old\n" {
		t.Errorf("consumed %q", got)
	}
	if said := b.err.String(); !strings.Contains(said, "seb-data/bucket") || !strings.Contains(said, "level=WARN") {
		t.Errorf("does not say that the records are inside the data folder: %s", said)
	}
	b.term()
	p.must("fsck")
	p.must("check-store")
	if _, err := os.Stat(filepath.Join(p.dir, "seb-bucket")); !os.IsNotExist(err) {
		t.Errorf("a second bucket was made: %v", err)
	}

	b = p.serve("--bucket", "./seb-bucket") // both hold records now
	b.term()
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		r := p.run(command)
		if r.code != 2 || !strings.Contains(r.err, "seb-data/bucket") || !strings.Contains(r.err, " seb-bucket") {
			t.Errorf("%s: exit code %d: %s", command, r.code, r.err)
		}
	}
	if r := p.run("inspect", "meta/cluster"); r.code != 2 || !strings.Contains(r.err, "seb-data/bucket") {
		t.Errorf("inspect: exit code %d: %s", r.code, r.err)
	}
}

func TestEmptyBucketIsRefused(t *testing.T) {
	p := newPlace(t)
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		p.refused(2, "--bucket: is empty", command, "--bucket", "")
	}
	p.env = []string{"SEB_BUCKET="}
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		p.refused(2, "$SEB_BUCKET: is empty", command)
	}
}
