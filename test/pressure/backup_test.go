package pressure

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestBackups copies a bucket with a pack of 64 MiB between S3 and folders. Each command stays within
// its limit, and names a damaged object.
func TestBackups(t *testing.T) {
	beside(t)
	b := start(t, "--batch-wait-time", "0", "--merge-interval", "1s")
	run := func(args ...string) (string, error) {
		t.Helper()
		out, peak, err := command(t, args...)
		t.Logf("%s: peak %s", args[0], mib(peak))
		if peak > limit {
			t.Errorf("%s used %s, limit %s", args[0], mib(peak), mib(limit))
		}
		return out, err
	}
	done := func(args ...string) {
		t.Helper()
		out, err := run(args...)
		must.NoErrorf(t, err, "%v\n%s", args, out)
	}
	out, _, err := command(t, "produce", "big", "--address", b.url, "--api-key", key, "--record-size", "1000", "--count", "75000")
	must.NoErrorf(t, err, "produce: %s", out)
	sebtest.Eventually(t, "a pack", func() bool { return b.metric("seb_merge_bytes_total") >= 60<<20 })
	dir := t.TempDir()
	second, third, restored := b.store.Spec("second"), b.store.Spec("third"), filepath.Join(dir, "restored")
	done("backup", "--bucket", b.store.Spec("pressure"), "--to", second, "--verify")
	done("restore", "--from", second, "--bucket", restored, "--data-dir", filepath.Join(dir, "data"))
	done("fsck", "--bucket", restored)
	done("copy", "--from", restored, "--to", third, "--yes")

	packs := must.Get(filepath.Glob(filepath.Join(restored, "s0000/pack/*")))(t)
	must.Equalf(t, len(packs) > 0, true, "a restored pack")
	f := must.Get(os.OpenFile(packs[0], os.O_WRONLY, 0))(t)
	_ = must.Get(f.WriteAt([]byte("damage"), 1<<20))(t)
	must.NoError(t, f.Close())
	out, err = run("backup", "--bucket", restored, "--to", b.store.Spec("fourth"))
	must.Error(t, err, "%s", out)
	check.Contains(t, out, filepath.Base(packs[0]))
}

// command runs a command of the program, with the limit of these tests. It returns the peak of its
// memory, with all pages of files.
func command(t *testing.T, args ...string) (out string, peak int64, err error) {
	t.Helper()
	var text bytes.Buffer
	c := exec.Command(seb(t), args...)
	c.Env = append(append(os.Environ(), testenv.S3Keys...), "TMPDIR="+t.TempDir(), "SEB_MEMORY_LIMIT="+strconv.Itoa(limit))
	c.Stdout, c.Stderr = &text, &text
	must.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return text.String(), peak, err
		case <-tick.C:
		}
		// Maxrss of its exit would count the memory of this process, which started it.
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			var kib int64
			_, _ = fmt.Sscan(rest, &kib)
			peak = max(peak, kib<<10)
		}
	}
}
