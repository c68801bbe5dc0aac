package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// acknowledged produces records one after the other, and returns the offset of the first one.
func (p *workDir) acknowledged(b *running, values ...string) int64 {
	p.t.Helper()
	c := must.Get(client.New(b.address(), client.Options{APIKey: p.keyOf("seb-data")}))(p.t)
	defer c.Close()
	first := int64(-1)
	for _, v := range values {
		r := must.Get(c.ProduceValues(p.t.Context(), "demo", [][]byte{[]byte(v)}, client.ProduceOptions{}))(p.t)
		if first < 0 {
			first = r[0].First
		}
	}
	return first
}

func numbered(n int) (values []string) {
	for i := range n {
		values = append(values, fmt.Sprint("value-", i))
	}
	return values
}

// refused waits for a broker, which must end with exit code 5, and returns the command that its error
// names.
func (b *running) refused() []string {
	b.t.Helper()
	if !b.ends() {
		b.kill()
		b.t.Fatalf("the broker serves: %s", b.err.String())
	}
	must.Equalf(b.t, b.wait(), 5, "exit code: %s", b.err.String())
	named := regexp.MustCompile(`seb (recover [^"\\]+)`).FindStringSubmatch(b.err.String())
	if named == nil {
		b.t.Fatalf("the error does not name a command: %s", b.err.String())
	}
	return strings.Fields(named[1])
}

// ends waits until a broker serves or ends, and reports whether it has ended.
func (b *running) ends() bool {
	b.t.Helper()
	ended := false
	waitFor(b.t, func() bool {
		select {
		case <-b.done:
			ended = true
		default:
		}
		return ended || b.serves()
	})
	return ended
}

// killedFolder serves a folder until it has acknowledged 30 records, and kills the broker. It returns
// the path of the journal file.
func (p *workDir) killedFolder() string {
	p.t.Helper()
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0")
	p.acknowledged(b, numbered(30)...)
	b.kill()
	return journalFile(p.t, filepath.Join(p.dir, "bucket"))
}

// TestACutJournalIsRefused: the journal of the newest epoch is cut, as by a file system that lost its
// end. A machine with or without the data directory must not continue before the cut, and the command
// that the refusal names helps.
func TestACutJournalIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("data directory kept %t", kept), func(t *testing.T) { cutJournal(t, kept) })
	}
}

func cutJournal(t *testing.T, kept bool) {
	p := newWorkDir(t)
	file := p.killedFolder()
	must.NoError(t, os.Truncate(file, 20480))
	if !kept {
		must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
	}
	if r := p.run("fsck", "--bucket", "./bucket"); r.code != 5 || !strings.Contains(r.out, "+journal/00000001") {
		t.Errorf("fsck: exit code %d, want 5 and the file: %s%s", r.code, r.out, r.err)
	}
	named := p.launch("--http-port", "0", "--kafka-listen", "", "--bucket", "./bucket").refused()
	p.must(append(named, "--bucket", "./bucket")...)
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0")
	if offset := p.acknowledged(b, "next"); offset < 30 {
		t.Errorf("offset %d is given twice", offset)
	}
	b.term()
	p.must("fsck", "--bucket", "./bucket")
}

// TestAMovedBucketHasItsDataDirectory: bucket and data directory were moved to another path, and the
// bucket has lost its newest journal. The data directory still knows the end of the log.
func TestAMovedBucketHasItsDataDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0").term() // saves a position
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0")
	p.acknowledged(b, numbered(5)...)
	waitFor(t, func() bool { // the position is saved after the acknowledgements
		text := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "positions.json")))(t)
		return regexp.MustCompile(`"highest_offset": 5\b`).Match(text)
	})
	b.kill()
	files := must.Get(filepath.Glob(filepath.Join(p.dir, "bucket", "s0000", "wal", "0000000002-*+journal", "00000001")))(t)
	must.Equalf(t, len(files), 1, "journal files %q", files)
	must.NoError(t, os.Remove(files[0]))
	if r := p.run("fsck", "--bucket", "./bucket"); r.code != 5 {
		t.Errorf("fsck: exit code %d, want 5: %s%s", r.code, r.out, r.err)
	}
	for _, path := range must.Get(filepath.Glob(filepath.Join(p.dir, "bucket", "s0000", "wal", "0000000002-*")))(t) {
		must.NoError(t, os.RemoveAll(path)) // then only the data directory knows that the epoch had records
	}
	must.NoError(t, os.Rename(filepath.Join(p.dir, "bucket"), filepath.Join(p.dir, "moved")))
	must.NoError(t, os.Rename(filepath.Join(p.dir, "seb-data"), filepath.Join(p.dir, "moved-data")))
	named := p.launch("--http-port", "0", "--kafka-listen", "", "--bucket", "./moved", "--data-dir", "moved-data").refused()
	if !slices.Contains(named, "--accept-older-copy") {
		t.Errorf("the error names %q", named)
	}
}

// TestALostObjectBehindACacheIsRefused: a leader whose disk cache has every object must not lead a
// bucket that has lost one.
func TestALostObjectBehindACacheIsRefused(t *testing.T) {
	p := newWorkDir(t)
	p.env = append(p.env, "AWS_ACCESS_KEY_ID="+testenv.AccessKey, "AWS_SECRET_ACCESS_KEY="+testenv.SecretKey)
	bucket := testenv.S3ForTest(t).Spec("lost")
	serve := []string{"--http-port", "0", "--kafka-listen", "", "--bucket", bucket, "--batch-wait-time", "0"}
	b := p.serve(serve...)
	p.acknowledged(b, numbered(5)...)
	b.kill()
	store := must.Get(anystore.Open(t.Context(), bucket, anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(t)
	entries, _ := must.Get2(store.List(t.Context(), objstore.ListOptions{Prefix: "s0000/wal/0000000001-"}))(t)
	must.Equalf(t, filepath.Base(entries[2].Key), "00000000000000000002", "third object of epoch 1")
	must.NoError(t, store.Delete(t.Context(), entries[2].Key))
	named := p.launch(serve...).refused()
	check.Containsf(t, strings.Join(named, " "), "1:2", "position in the command")
	if r := p.run("fsck", "--bucket", bucket); r.code != 5 {
		t.Errorf("fsck: exit code %d, want 5: %s%s", r.code, r.out, r.err)
	}
}
