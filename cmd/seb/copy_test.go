package main_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCopyRefusesABucketWithStandbys: a standby would take over after the copy has fenced the leader.
func TestCopyRefusesABucketWithStandbys(t *testing.T) {
	p := newWorkDir(t)
	bucket := filepath.Join(p.dir, "bucket")
	b := p.serve("--bucket", bucket, "--advertise", "127.0.0.1", "--kafka-listen", "")
	p.mustWith("one\n", "produce", "demo")
	copied := []string{"copy", "--from", bucket, "--to", filepath.Join(p.dir, "new"), "--yes"}
	if r := p.run(copied...); r.code != 1 || !strings.Contains(r.err, "is registered and would take over again") {
		t.Fatalf("copy beside a broker that can be a standby: %+v", r)
	}
	p.mustWith("two\n", "produce", "demo")
	if code := b.term(); code != 0 {
		t.Fatalf("exit code %d: %s", code, b.err.String())
	}
	if r := p.run(copied...); r.code != 0 {
		t.Errorf("copy after the broker has stopped: %+v", r)
	}
}
