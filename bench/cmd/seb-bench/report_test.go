package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// measured makes a result file by short runs.
func measured(t *testing.T, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "r.json")
	args = append([]string{"run", "--warmup", "0s", "--duration", "600ms", "--timeout", "1m", "--size", "64B", "--floor", "0", "-q", "-o", out}, args...)
	if said, err := call(t, args...); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}

func TestReport(t *testing.T) {
	first := measured(t, "--rate", "2000", "-t", "noop label=one", "-t", "noop label=two", "--repeat", "2")
	second := measured(t, "--rate", "4000", "-t", "noop label=one", "--name", "faster")
	dir := t.TempDir()
	t.Run("the tables of several files go to the standard output", func(t *testing.T) {
		said := must.Get(call(t, "report", first, second))(t)
		for _, want := range []string{"2000 messages/s of 64B", "4000 messages/s of 64B", "| one | none | 2 × 1200 |", "| two |"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %q in\n%s", want, said)
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		page, tables := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.md")
		said := must.Get(call(t, "report", first, second, "--html", page, "--markdown", tables, "--svg", filepath.Join(dir, "pictures")+"/"))(t)
		for path, want := range map[string]string{page: "p99 over the rate", tables: "| system |", filepath.Join(dir, "pictures", "rates.svg"): "p99 over the rate"} {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), want) || !strings.Contains(said, "written to "+path) {
				t.Errorf("%s: error %v, no %q, or not said:\n%s", path, err, want, said)
			}
		}
		pictures, err := filepath.Glob(filepath.Join(dir, "pictures", "*.svg"))
		if err != nil || len(pictures) != 1+2*3 {
			t.Errorf("pictures %v, error %v", pictures, err)
		}
		for _, path := range pictures {
			wellFormed(t, path)
		}
	})
	t.Run("a prefix", func(t *testing.T) {
		must.Get(call(t, "report", second, "--svg", filepath.Join(dir, "p", "x")))(t)
		if _, err := os.Stat(filepath.Join(dir, "p", "x-01-faster-delivered.svg")); err != nil {
			t.Error(err)
		}
	})
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func TestCompareCommand(t *testing.T) {
	file := measured(t, "--rate", "2000", "-t", "noop label=one", "--repeat", "4")
	t.Run("a result compared with itself", func(t *testing.T) {
		said := must.Get(call(t, "compare", file, file, "--fail-if", "p90 > 10%", "--fail-if", "lost>0"))(t)
		for _, want := range []string{"one, custom, 2000 messages/s of 64B, 4 and 4 runs", "No difference is significant", "ok: not p90 > 10%", "not significant", "the same"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %q in\n%s", want, said)
			}
		}
	})
	t.Run("a condition that holds", func(t *testing.T) {
		said, err := call(t, "compare", file, file, "--fail-if", "p50 > 1ns", "--fail-if", "lost>0")
		if !errors.Is(err, errConditions) || !strings.HasSuffix(err.Error(), "p50 > 1ns") || !strings.Contains(said, "FAILED p50 > 1ns: one,") {
			t.Errorf("error %v, it says\n%s", err, said)
		}
		check.Equalf(t, run(context.Background(), []string{"compare", file, file, "--fail-if", "p50 > 1ns"}), exitHolds, "exit code")
	})
	t.Run("a figure that no run has samples for", func(t *testing.T) {
		said, err := call(t, "compare", file, file, "--fail-if", "p99.99 > 10%")
		if !errors.Is(err, errConditions) || !strings.Contains(said, "enough samples") {
			t.Errorf("error %v, it says\n%s", err, said)
		}
	})
	t.Run("another work", func(t *testing.T) {
		other := measured(t, "--rate", "1000", "-t", "noop label=one")
		if _, err := call(t, "compare", file, other); !errors.Is(err, errNoCommon) || !strings.Contains(err.Error(), "only in the first: one (none), custom, 2000 messages/s") {
			t.Errorf("error %v", err)
		}
	})
}

func TestBadResults(t *testing.T) {
	good, dir := measured(t, "--rate", "1000", "-t", "noop"), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	text := must.Get(os.ReadFile(good))(t)
	other := write("other.json", strings.Replace(string(text), `"schema": 1`, `"schema": 7`, 1))
	for word, path := range map[string]string{
		"no such file": filepath.Join(dir, "none.json"), "schema 7, this program reads 1": other, "no runs": write("empty.json", `{"schema":1}`),
		"invalid character": write("text.json", "hello"), "is a directory": dir,
	} {
		for _, args := range [][]string{{"report", path}, {"report", good, path}, {"compare", good, path}, {"compare", path, good}} {
			if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), path) {
				if word == "no runs" && args[0] == "report" && len(args) == 3 {
					continue // the other file has some
				}
				t.Errorf("%v: error %v, want one about %q that names the file", args, err, word)
			}
		}
	}
	for word, args := range map[string][]string{
		"--fail-if": {"compare", good, good, "--fail-if", "p98>1ms"}, "r.html": {"report", good, "--html", filepath.Join(dir, "none", "r.html")},
		"requires at least 1": {"report"}, "accepts 2": {"compare", good},
	} {
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v: error %v, want one about %q", args, err, word)
		}
	}
}
