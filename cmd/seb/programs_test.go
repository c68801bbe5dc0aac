package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// TestOtherPrograms: `seb bench` and `seb migrate` run programs of their own.
func TestOtherPrograms(t *testing.T) {
	p := newWorkDir(t)
	t.Run("says how to get the program that is not there", func(t *testing.T) {
		p.env = []string{"PATH=" + t.TempDir()}
		p.refused(2, "go build -C bench", "bench", "run", "article-a")
		p.refused(2, "go build -C migrate", "migrate", "check")
	})
	t.Run("hands everything on to it", func(t *testing.T) {
		dir := t.TempDir()
		script := "#!/bin/sh\necho \"${0##*/}\"\nfor a in \"$@\"; do echo \"$a\"; done\nexit 7\n"
		for _, name := range []string{"seb-bench", "seb-migrate"} {
			must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
		}
		p.env = []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")}
		for _, command := range []string{"bench", "migrate"} {
			r := p.run(command, "run", "--target", "kafka address=x", "--help")
			if want := "seb-" + command + "\nrun\n--target\nkafka address=x\n--help\n"; r.code != 7 || r.out != want || r.err != "" {
				t.Errorf("%s: %d, %q, %q", command, r.code, r.out, strings.TrimSpace(r.err))
			}
		}
	})
}
