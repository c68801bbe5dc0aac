package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

func TestBench(t *testing.T) {
	p := newWorkDir(t)
	t.Run("says how to get the program that is not there", func(t *testing.T) {
		p.env = []string{"PATH=" + t.TempDir()}
		p.refused(1, "go build -C bench", "bench", "run", "article-a")
	})
	t.Run("hands everything on to it", func(t *testing.T) {
		dir := t.TempDir()
		script := "#!/bin/sh\nfor a in \"$@\"; do echo \"$a\"; done\nexit 7\n"
		must.NoError(t, os.WriteFile(filepath.Join(dir, "seb-bench"), []byte(script), 0o700))
		p.env = []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")}
		r := p.run("bench", "run", "--target", "kafka address=x", "--help")
		if want := "run\n--target\nkafka address=x\n--help\n"; r.code != 7 || r.out != want || r.err != "" {
			t.Errorf("%d, %q, %q", r.code, r.out, strings.TrimSpace(r.err))
		}
	})
}
