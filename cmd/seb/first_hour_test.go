package main_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
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

// TestAStoreThatDoesNotAnswerIsNoVerdict: a service manager tries again after exit code 1, and not after 4.
func TestAStoreThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("b"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(backend).Server()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter) // to PUT
		code   int
	}{
		"reset":       {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1},
		"unavailable": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 1},
		"internal":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 1},
		"forbidden":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					c.answer(w)
					return
				}
				fake.ServeHTTP(w, r)
			}))
			defer srv.Close()
			p := newPlace(t)
			p.env = []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
			bucket := "s3://b/x?endpoint=" + srv.URL + "&region=us-east-1&path-style=true"
			p.refused(c.code, "store check", "check-store", bucket)
			if name != "reset" && name != "forbidden" {
				return // serve is the same, and takes its time
			}
			if r := p.run("serve", "--bucket", bucket, "--http-port", "0", "--kafka-listen", ""); r.code != c.code {
				t.Errorf("serve: exit code %d, want %d: %s", r.code, c.code, r.err)
			}
		})
	}
}
