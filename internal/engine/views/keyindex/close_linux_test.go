package keyindex

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// TestClosedViewsKeepNoFilesOpen: SQLite keeps a file open as long as a statement exists.
func TestClosedViewsKeepNoFilesOpen(t *testing.T) {
	dir := t.TempDir()
	l := newLog()
	topic := l.create(1)
	l.append(topic, 0, rec("a", "1", 1))
	v := open(t, filepath.Join(dir, "keys.db"), l)
	v.caughtUp(l)
	if got := v.get(topic, "a", 0); got != "a@0/0" {
		t.Errorf("got %s", got)
	}
	must.NoError(t, v.Close())
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			t.Errorf("%s is open", to)
		}
	}
}
