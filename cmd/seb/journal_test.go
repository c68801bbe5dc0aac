package main_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// journalFile returns the only journal file of a bucket in a folder.
func journalFile(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "s0000", "wal", "*+journal", "00000001"))
	if err != nil || len(found) != 1 {
		t.Fatalf("journal files %q, %v", found, err)
	}
	return found[0]
}

func TestInspectJournal(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--bucket", "./b")
	p.mustWith("k:hello\n", "produce", "t", "--key-separator", ":")
	file := journalFile(t, filepath.Join(p.dir, "b"))
	if got := p.must("inspect", file); !strings.Contains(got, "batch at 0, ") || !strings.Contains(got, "unused from ") || strings.Contains(got, "hello") {
		t.Errorf("of a running broker: %s", got)
	}
	b.term()
	shown := p.must("inspect", file, "--records")
	for _, want := range []string{"journal file 00000001, ", "batch at 0, ", "object 00000000000000000000: ", "topic create: t", `key "k" value "hello"`, "all checksums are correct"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in: %s", want, shown)
		}
	}
	inBucket := must.Get(filepath.Rel(filepath.Join(p.dir, "b"), file))(t)
	check.Equalf(t, p.must("inspect", inBucket, "--records", "--bucket", "./b"), shown, "by the name in the bucket")
	claim, _ := strings.CutSuffix(filepath.Dir(file), "+journal")
	end := filepath.Join(claim+"+late", "+end")
	check.Containsf(t, p.must("inspect", claim), "claim of run ", "claim")
	if got := p.must("inspect", end); !strings.Contains(got, "end of the journal of run ") || !strings.Contains(got, "of file 00000001") {
		t.Errorf("end: %s", got)
	}

	content := must.Get(os.ReadFile(file))(t)
	at := bytes.Index(content, []byte("hello"))
	damage(t, file, at)
	p.refused(5, "the checksum of object ", "inspect", file)
	damage(t, file, at) // repairs it
	damage(t, file, 50)
	p.refused(5, "4096 bytes at offset 0: no valid batch", "inspect", file)
	damage(t, file, 50)
	last := at &^ 4095
	damage(t, file, last)
	p.refused(5, fmt.Sprintf("4096 bytes at offset %d: no valid batch before the end of the journal", last), "inspect", file)
	damage(t, claim, 20)
	p.refused(5, "not the claim of a journal", "inspect", claim)
	damage(t, end, 30)
	p.refused(5, "not the end of a journal", "inspect", end)
	must.NoError(t, os.Remove(end))
	check.Containsf(t, p.must("inspect", file), "the last write was torn, or is damaged", "without an end")
}

// TestDamagedJournalStopsTheBroker: the error names the file, the offset and the command that accepts
// the loss. After it the broker serves what is left.
func TestDamagedJournalStopsTheBroker(t *testing.T) {
	p := newWorkDir(t)
	p.produceAndStop("value-1", "value-2", "value-3", "value-4")
	p.must("fsck", "--bucket", "./bucket")
	file := journalFile(t, filepath.Join(p.dir, "bucket"))
	content := must.Get(os.ReadFile(file))(t)
	batch := bytes.Index(content, []byte("value-3")) &^ 4095
	damage(t, file, batch+50)
	recover := p.refusesToServe(`--accept-loss \d+:\d+`)
	where := fmt.Sprintf("+journal/00000001: 4096 bytes at offset %d", batch)
	if r := p.run("fsck", "--bucket", "./bucket"); r.code != 5 || !strings.Contains(r.out, "damage: damaged journal s0000/wal/0000000001-") || !strings.Contains(r.out, where) {
		t.Errorf("fsck: %+v", r)
	}
	if r := p.run("inspect", "s0000/wal/"+filepath.Base(strings.TrimSuffix(filepath.Dir(file), "+journal"))+"/00000000000000009999", "--bucket", "./bucket"); r.code != 5 || !strings.Contains(r.err, where) {
		t.Errorf("inspect of a name that may be lost: %+v", r)
	}
	p.refused(1, "add --accept-older-copy", recover...) // the data folder knows a later position
	check.Containsf(t, p.must(append(recover, "--accept-older-copy")...), "demo/0: offsets 2 to ", "recover")
	p.produceAndStop("value-5")
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket")
	check.Equalf(t, p.must("consume", "demo"), "value-1\nvalue-2\nvalue-5\n", "consumed")
	b.term()
	check.Containsf(t, p.must("fsck", "--bucket", "./bucket"), "a recovery has accepted the loss", "fsck after the recovery")
}
