package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/must"
)

// call runs a command line and returns its output.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, _ := newRoot()
	var out, progress bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&progress)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// short is a workload that ends quickly.
const short = "name: short\nwarmup: 20ms\nduration: 100ms\ntimeout: 1m\nrate: 1000\nsize: 64B\ntargets: [noop label=first, noop label=second]\n"

func TestRun(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.yaml")
	must.NoError(t, os.WriteFile(path, []byte(short), 0o600))
	out := filepath.Join(dir, "r.json")
	said := must.Get(call(t, "run", path, "--publishers", "2", "--repeat", "2", "--floor", "50ms", "-o", out, "--hdr", filepath.Join(dir, "hdr")))(t)
	f := must.Get(result.Read(out))(t)
	if len(f.Runs) != 4 || f.Runs[0].Label != "first" || f.Runs[1].Label != "second" || f.Runs[2].Repeat != 2 {
		t.Errorf("%d runs", len(f.Runs))
	}
	for _, r := range f.Runs {
		if r.Counts.Sent != 120 || r.Counts.Measured != 100 || !r.Counts.Clean() || r.Workload.Publishers != 2 || r.System.System != "noop" {
			t.Errorf("%s: %+v", r.Label, r.Counts)
		}
	}
	for _, word := range []string{"second, run 2", "e2e_intended of 100", "first", "written to " + out} {
		if !strings.Contains(said, word) {
			t.Errorf("output has no %q:\n%s", word, said)
		}
	}
	for _, name := range []string{"001-first.hlog", "004-second-e2e_intended.hgrm"} {
		if text, err := os.ReadFile(filepath.Join(dir, "hdr", name)); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, error %v", name, len(text), err)
		}
	}
}

func TestOneTargetFails(t *testing.T) {
	out := filepath.Join(t.TempDir(), "r.json")
	said, err := call(t, "run", "--rate", "1000", "--size", "64B", "--warmup", "0s", "--duration", "100ms", "--timeout", "1m", "--floor", "0", "-q",
		"-t", "noop queue=none label=broken", "-t", "noop", "-o", out)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 runs") || !strings.Contains(said, "broken: NOT MEASURED") {
		t.Errorf("error %v, it says:\n%s", err, said)
	}
	f, err := result.Read(out)
	if err != nil || len(f.Runs) != 1 || len(f.Failures) != 1 || f.Failures[0].Label != "broken" || f.Failures[0].Workload.Rate.Float() != 1000 {
		t.Errorf("%+v, error %v", f.Failures, err)
	}
}

func TestSweep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "r.json")
	_, err := call(t, "sweep", "--rates", "500,1000", "--sizes", "64B,1KiB", "--warmup", "0s", "--duration", "100ms", "--timeout", "1m",
		"--floor", "50ms", "-t", "noop", "-o", out, "-q")
	must.NoError(t, err)
	f := must.Get(result.Read(out))(t)
	if len(f.Runs) != 4 || f.Runs[3].Counts.Sent != 100 || f.Runs[3].Workload.Size.Max() != 1024 || f.Runs[0].Counts.Sent != 50 {
		t.Errorf("%d runs", len(f.Runs))
	}
}

func TestMax(t *testing.T) {
	out := filepath.Join(t.TempDir(), "r.json")
	// Any rate meets the objective, or none holds on a busy machine.
	said, err := call(t, "max", "--slo", "p50=1h", "--from", "400", "--to", "800", "--warmup", "0s", "--duration", "100ms", "--long", "100ms",
		"--timeout", "1m", "--floor", "50ms", "--size", "64B", "-t", "noop", "-o", out, "-q", "--confirm", "1")
	must.NoError(t, err)
	if !strings.Contains(said, "noop at 400/s") || !strings.Contains(said, "p50=1h0m0s: ") {
		t.Errorf("it says:\n%s", said)
	}
}

func TestRefusals(t *testing.T) {
	for word, args := range map[string][]string{
		"no target":       {"run", "article-a"},
		"no such driver":  {"run", "-t", "abacus", "-q"},
		"article-e":       {"run", "article-x", "-t", "noop"},
		"messages a sec":  {"run", "-t", "noop", "--rate", "fast"},
		"publishers":      {"run", "-t", "noop", "--publishers", "0"},
		"explode":         {"run", "-t", "noop", "--fault", "explode at=1s"},
		"--repeat":        {"run", "-t", "noop", "--repeat", "0"},
		"--spin":          {"run", "-t", "noop", "--spin", "1h"},
		"--rates":         {"sweep", "-t", "noop", "--rates", "1,x"},
		"--sizes":         {"sweep", "-t", "noop", "--sizes", "many"},
		"--slo":           {"max", "-t", "noop", "--slo", "fast"},
		"tolerance":       {"max", "-t", "noop", "--tolerance", "7"},
		"unknown command": {"walk"},
	} {
		args = append(args, "-o", filepath.Join(t.TempDir(), "r.json"))
		if word == "unknown command" {
			args = args[:1]
		}
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v: error %v, want one about %q", args, err, word)
		}
	}
}

func TestDrivers(t *testing.T) {
	said, err := call(t, "drivers")
	if err != nil || !strings.Contains(said, "noop ") {
		t.Errorf("%q, error %v", said, err)
	}
	if said, err := call(t, "version"); err != nil || !strings.Contains(said, "seb-bench ") {
		t.Errorf("%q, error %v", said, err)
	}
}
