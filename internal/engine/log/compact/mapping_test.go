package compact

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestMappedPagesAreDropped checks that pages are dropped while the mapping is in use, and keep
// their bytes.
func TestMappedPagesAreDropped(t *testing.T) {
	const size = 32 << 20
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "mapped")))(t)
	defer f.Close()
	must.NoError(t, f.Truncate(size))
	m := must.Get(mapFile(f, size))(t)
	defer m.close()
	whole := make([]byte, size)
	for i := range whole {
		whole[i] = byte(i / 1000)
	}
	must.Get(f.WriteAt(whole, 0))(t)
	if !bytes.Equal(whole, m.data) {
		t.Fatal("the mapping differs from the file")
	}
	sebtest.Eventually(t, "mapped pages are dropped", func() bool { return resident(t, "mapped") <= 1<<20 })
	if !bytes.Equal(whole, m.data) {
		t.Fatal("the bytes have changed")
	}
}

// resident is the resident size of the mappings of files with that name, in bytes.
func resident(t *testing.T, name string) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	of := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], ":") {
			of = strings.HasSuffix(strings.TrimSpace(line), "/"+name)
		} else if of && fields[0] == "Rss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(fmt.Errorf("%s: %w", line, err))
			}
			n += kib << 10
		}
	}
	return n
}
