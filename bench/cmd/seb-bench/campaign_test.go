package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/test/must"
)

func TestCampaign(t *testing.T) {
	root := must.Get(peers.Repository())(t)
	dir := t.TempDir()
	document := filepath.Join(dir, "latency.md")
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "reports", "latency-figures.md")))(t)
	must.NoError(t, os.WriteFile(document, text, 0o600))
	begin := []string{"campaign", "--document", document, "--results", filepath.Join(dir, "raw")}
	t.Run("dry run", func(t *testing.T) {
		said := must.Get(call(t, append(begin, "--dry-run", "--only", "seb-s3,Redis streams", "--runs", "b")...))(t)
		for _, want := range []string{
			"runs: Seb S3, 3000/s of 1KiB, open loop", "batch-wait: Seb S3, 250ms, 3000/s", "loops: Redis streams, 3000/s of 1KiB, closed loop", " runs, about ",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("no %q in\n%s", want, said)
			}
		}
	})
	t.Run("measures and writes", func(t *testing.T) {
		said := must.Get(call(t, append(begin, "--only", "nothing", "--runs", "a", "--duration", "200ms", "--repeats", "1")...))(t)
		text, err := os.ReadFile(document)
		if err != nil || !strings.Contains(string(text), "](latency/article-a-memory.svg)") || !strings.Contains(said, "written to "+document) {
			t.Errorf("error %v, the document is\n%s\nit says\n%s", err, text, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "latency", "article-a-memory.svg")); err != nil {
			t.Error(err)
		}
	})
	for word, args := range map[string][]string{
		"no runs were measured": append(begin, "--report", "--duration", "7s"), "systems: Seb memory": append(begin, "--only", "abacus"),
		"repeats": append(begin, "--repeats", "-3"), "none.md": {"campaign", "--document", filepath.Join(dir, "none.md"), "--dry-run"},
	} {
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v: error %v, want one about %q", args, err, word)
		}
	}
}
