package main_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestFilesThatHaveLostBytes cuts the file of an object of more than 1 MiB. While its head is there, the
// broker serves every other record, and names the damage to readers and in all commands. Otherwise it
// ends with the command that accepts the loss.
func TestFilesThatHaveLostBytes(t *testing.T) {
	p := newWorkDir(t)
	large := make([]byte, 524_200) // in hexadecimal digits just below max-batch-bytes
	_, _ = rand.Read(large)
	p.produceAndStop("value-1", hex.EncodeToString(large), "value-2")
	found := must.Get(filepath.Glob(filepath.Join(p.dir, "bucket", "s0000", "wal", "*+journal", "+large", "*")))(t)
	if len(found) != 1 {
		t.Fatalf("files of large objects: %q", found)
	}
	file := found[0]
	size := must.Get(os.Stat(file))(t).Size()
	key := "s0000/wal/" + strings.TrimSuffix(filepath.Base(filepath.Dir(filepath.Dir(file))), "+journal") + "/" + filepath.Base(file)

	must.NoError(t, os.Truncate(file, size/2))
	b := p.serve("--kafka-listen", "", "--bucket", "./bucket")
	lengths := fmt.Sprintf("want %d, got %d", size, size/2)
	if r := p.run("consume", "demo"); r.code != 5 || r.out != "value-1\n" || !strings.Contains(r.err, "corrupt") {
		t.Errorf("consume: %+v", r)
	}
	check.Equalf(t, p.must("consume", "demo", "--offset", "2"), "value-2\n", "behind the damage")
	p.mustWith("value-3\n", "produce", "demo")
	check.Equalf(t, strings.Contains(b.err.String(), "object store request failed"), false, "the broker says that the store fails")
	check.Equalf(t, b.term(), 0, "exit code")
	for _, args := range [][]string{{"fsck"}, {"fsck", "--secrets"}} {
		r := p.run(append(args, "--bucket", "./bucket")...)
		if r.code != 5 || !strings.Contains(r.out, "damage: corrupt batches "+key) || !strings.Contains(r.out, lengths) ||
			!strings.Contains(r.out, "lost: demo/0 offsets 1 to 1") || !strings.Contains(r.out, "damages     1") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	p.refused(5, key, "inspect", key, "--bucket", "./bucket")
	p.refused(5, key, "backup", "--to", "./copy", "--bucket", "./bucket")

	must.NoError(t, os.Truncate(file, 10))
	if r := p.run("fsck", "--bucket", "./bucket"); r.code != 5 || !strings.Contains(r.out, "damage: corrupt object "+key) || !strings.Contains(r.out, "accept-loss") {
		t.Errorf("fsck: %+v", r)
	}
	recover := p.refusesToServe(`--accept-loss \d+:\d+`)
	p.must(append(recover, "--accept-older-copy")...)
	p.serve("--kafka-listen", "", "--bucket", "./bucket")
	check.Equalf(t, p.must("consume", "demo"), "value-1\n", "after the recovery")
}
