package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// produceAndStop serves a bucket, produces lines, and stops.
func (p *workDir) produceAndStop(lines ...string) {
	p.t.Helper()
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0")
	for _, line := range lines {
		p.mustWith(line+"\n", "produce", "demo")
	}
	if code := b.term(); code != 0 {
		p.t.Fatalf("exit code %d: %s", code, b.err.String())
	}
}

// refusesToServe starts a broker that must end with exit code 5. It returns the arguments of the
// command in the error.
func (p *workDir) refusesToServe(command string) []string {
	p.t.Helper()
	b := p.launch("--http-port", "0", "--kafka-listen", "", "--bucket", "./bucket")
	if code := b.wait(); code != 5 {
		p.t.Fatalf("exit code %d: %s%s", code, b.out.String(), b.err.String())
	}
	named := regexp.MustCompile(`seb (recover ` + command + `)`).FindStringSubmatch(b.err.String())
	if named == nil {
		p.t.Fatalf("the error does not name the command: %s", b.err.String())
	}
	return append(strings.Fields(named[1]), "--bucket", "./bucket")
}

// sealOf returns the SEAL of an epoch.
func (p *workDir) sealOf(epoch uint32) string {
	p.t.Helper()
	names, _ := filepath.Glob(filepath.Join(p.dir, "bucket", "s0000", "wal", "*", "*"))
	for _, name := range names {
		data := must.Get(os.ReadFile(name))(p.t)
		if h, err := record.DecodeHead(data); err == nil && h.Kind == record.KindSeal && h.Epoch == epoch {
			return name
		}
	}
	p.t.Fatalf("no SEAL of epoch %d among %q", epoch, names)
	return ""
}

// TestALostSealIsRefusedAndAccepted: one object is lost. The broker's error names the command that
// accepts the loss, and the broker serves or acknowledges nothing before.
func TestALostSealIsRefusedAndAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.produceAndStop("a", "b")
	p.produceAndStop("c", "d")
	p.produceAndStop("e")
	seal := p.sealOf(1)
	kept := must.Get(os.ReadFile(seal))(t)
	must.NoError(t, os.Remove(seal))
	must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
	recover := p.refusesToServe(`--accept-loss \d+:\d+`)
	if r := p.run("fsck", "--bucket", "./bucket"); r.code != 5 || !strings.Contains(r.out+r.err, "lost records") {
		t.Errorf("fsck: exit code %d: %s%s", r.code, r.out, r.err)
	}

	if err := os.WriteFile(seal, kept, 0o600); err != nil { // an operator has restored it
		t.Fatal(err)
	}
	p.produceAndStop("f")
	must.NoError(t, os.Remove(seal))
	must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
	p.refusesToServe(`--accept-loss \d+:\d+`)
	check.Containsf(t, p.must(recover...), "demo/0: offsets 2 to ", "recover")
	p.produceAndStop("g")
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket")
	check.Equalf(t, p.must("consume", "demo"), "a\nb\ng\n", "consumed")
	b.term()
	check.Containsf(t, p.must("recover", "--discard", "--bucket", "./bucket"), "deleted ", "discard")
	p.must("fsck", "--bucket", "./bucket")
}

// TestAnOlderCopyIsRefusedAndAccepted: the bucket is an earlier copy, and the data folder knows a
// later position.
func TestAnOlderCopyIsRefusedAndAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.produceAndStop("a")
	bucket, older := filepath.Join(p.dir, "bucket"), filepath.Join(p.dir, "older")
	must.NoError(t, os.CopyFS(older, os.DirFS(bucket)))
	p.produceAndStop("b", "c")
	must.NoError(t, os.RemoveAll(bucket))
	must.NoError(t, os.Rename(older, bucket))
	recover := p.refusesToServe("--accept-older-copy")
	p.must(recover...)
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket", "--batch-wait-time", "0")
	p.mustWith("d\n", "produce", "demo")
	check.Equalf(t, p.must("consume", "demo"), "a\nd\n", "consumed")
	var last struct{ Offset int64 }
	if err := json.Unmarshal([]byte(p.must("consume", "demo", "--offset", "1", "--format", "json")), &last); err != nil || last.Offset < 3 {
		t.Errorf("offset %d was assigned twice, %v", last.Offset, err)
	}
	b.term()
	p.must("fsck", "--bucket", "./bucket")
}

// TestAnOlderCopyAtAnotherAddressIsRefused: the data folder knows a later position of the log, under
// the bucket's previous name.
func TestAnOlderCopyAtAnotherAddressIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.produceAndStop("a")
	bucket, older := filepath.Join(p.dir, "bucket"), filepath.Join(p.dir, "older")
	must.NoError(t, os.CopyFS(older, os.DirFS(bucket)))
	p.produceAndStop("b", "c")
	must.NoError(t, os.Rename(bucket, filepath.Join(p.dir, "moved")))
	must.NoError(t, os.Rename(older, filepath.Join(p.dir, "renamed")))
	b := p.launch("--http-port", "0", "--kafka-listen", "", "--bucket", "./renamed")
	if code := b.wait(); code != 5 || !strings.Contains(b.err.String(), "seb recover --accept-older-copy") {
		t.Fatalf("exit code %d: %s", code, b.err.String())
	}
	b = p.serve("--kafka-listen", "", "--bucket", "./moved") // the whole log at another address
	check.Equalf(t, p.must("consume", "demo"), "a\nb\nc\n", "consumed")
	b.term()
	p.must("recover", "--accept-older-copy", "--bucket", "./renamed")
	b = p.serve("--kafka-listen", "", "--bucket", "./renamed")
	check.Equalf(t, p.must("consume", "demo"), "a\n", "consumed")
	b.term()
}

// TestOriginalOfARestoredBucket: a restored copy was led with the data directory of its original, which
// has started several times since the backup. The original is no older copy.
func TestOriginalOfARestoredBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.produceAndStop("a")
	p.must("backup", "--bucket", "./bucket", "--to", "./backup")
	for range 4 {
		p.produceAndStop("b")
	}
	for range 2 {
		p.must("restore", "--from", "./backup", "--bucket", "./restored")
		b := p.serve("--kafka-listen", "", "--bucket", "./restored")
		check.Equalf(t, p.must("consume", "demo"), "a\n", "consumed from the restored copy")
		b.term()
		p.produceAndStop("c")
		must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "restored")))
	}
}
