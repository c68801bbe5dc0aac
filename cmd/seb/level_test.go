package main_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// folder opens the bucket in a folder.
func folder(t *testing.T, dir string) objstore.Store {
	t.Helper()
	return must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{}))(t)
}

func contents(t *testing.T, store objstore.Store) map[string]uint32 {
	t.Helper()
	sums := must.Get(storetest.Checksums(t.Context(), store))(t)
	return sums
}

// newest returns the last object of a forged bucket, which has the level.
func newest(objects map[string]uint32) string {
	last := ""
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if last = key; strings.Contains(key, "/snap/") {
			break
		}
	}
	return last
}

// TestCommandsRefuseANewerBucket: with one sentence and exit code 2, and without writing.
func TestCommandsRefuseANewerBucket(t *testing.T) {
	found := map[string]func(context.Context, objstore.Store) error{"in its layout": forged.NewerLayout}
	for _, n := range forged.NewerBuckets {
		found[n.Name] = n.Found
	}
	for name, f := range found {
		t.Run(name, func(t *testing.T) {
			p := newWorkDir(t)
			store := folder(t, filepath.Join(p.dir, "bucket"))
			must.NoError(t, f(t.Context(), store))
			before := contents(t, store)
			says := fmt.Sprintf("format level %d, which needs Seb 9.9.9 or newer", state.LevelMax+1)
			if name == "in its layout" {
				says = "layout 2, which needs a newer Seb"
			}
			p.refused(2, says, "fsck", "--bucket", "./bucket")
			p.refused(2, says, "fsck", "--bucket", "./bucket", "--repair", "--quiet-time", "1ms")
			p.refused(2, says, "inspect", newest(before), "--bucket", "./bucket")
			for _, more := range [][]string{nil, {"--read-only"}, {"--hold-upgrade"}} {
				r := p.run(append([]string{"serve", "--http-port", "0", "--kafka-listen", "", "--bucket", "./bucket"}, more...)...)
				lines := strings.Split(strings.TrimSpace(r.err), "\n")
				last := lines[len(lines)-1]
				if r.code != 2 || r.out != "" || !strings.HasPrefix(last, "seb serve: the bucket ") || !strings.Contains(last, says) {
					t.Errorf("serve %v: exit code %d, %q: %s", more, r.code, r.out, r.err)
				}
			}
			if after := contents(t, store); !maps.Equal(before, after) {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

func TestUpgradeCommand(t *testing.T) {
	highest := strconv.Itoa(state.LevelMax)
	p := newWorkDir(t)
	must.Get(forged.OldBucket(t.Context(), folder(t, filepath.Join(p.dir, "bucket"))))(t)
	flags := []string{"--kafka-listen", "", "--bucket", "./bucket"}
	b := p.serve(append(flags, "--hold-upgrade")...)
	sebtest.Eventually(t, "the level is held", func() bool { // a line of another goroutine than that of "serving"
		return strings.Contains(b.err.String(), `"format level held" level=1 highest=`+highest)
	})
	if got := p.must("upgrade"); !strings.Contains(got, "at format level 1;") || !strings.Contains(got, "no write raises it") {
		t.Errorf("held: %s", got)
	}
	b.term()
	b = p.serve(flags...)
	sebtest.Eventually(t, "hold-upgrade is lifted", func() bool {
		return strings.Contains(b.err.String(), `"format level raised by the first write after a time" level=1 highest=`+highest)
	})
	check.Containsf(t, p.must("upgrade"), "until the first write at or after ", "hold-upgrade not lifted")
	check.Equalf(t, p.must("upgrade", "--finalize"), "the bucket is now at format level "+highest+"; it was at 1\n", "finalized")
	check.Equalf(t, p.must("upgrade", "--finalize"), "the bucket is already at format level "+highest+"\n", "finalized again")
	check.Equalf(t, p.must("upgrade"), "the bucket is at format level "+highest+", the highest that the broker knows\n", "after")
	b.term()
	b = p.serve(flags...)
	if log := b.err.String(); strings.Contains(log, "format level") {
		t.Errorf("at the highest level: %s", log)
	}
	check.Containsf(t, p.must("fsck", "--bucket", "./bucket"), "damages     0", "fsck")
}
