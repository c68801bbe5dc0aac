package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTargetsAreFound(t *testing.T) {
	targets, err := findTargets("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"record/FuzzSplit", "test/sim/FuzzEvents", "client/FuzzAnswer"} {
		if !slices.ContainsFunc(targets, func(t target) bool { return strings.HasSuffix(t.String(), "/"+want) }) {
			t.Errorf("%s is not found among %d", want, len(targets))
		}
	}
}

func TestOutputIsUnderstood(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		err    error
		failed bool
	}{
		"well":            {"fuzz: elapsed: 3s, execs: 500 (166/sec), new interesting: 2 (total: 9)\nPASS\nok x 3s", nil, false},
		"end of its time": {"fuzz: elapsed: 3s, execs: 500 (166/sec), new interesting: 2 (total: 9)\n--- FAIL: FuzzX (3.09s)\n    context deadline exceeded\nFAIL", os.ErrInvalid, false},
		"a failing input": {"fuzz: elapsed: 3s, execs: 500 (166/sec), new interesting: 2 (total: 9)\n--- FAIL: FuzzX (3.09s)\n    x_test.go:7: bad\n    Failing input written to testdata/fuzz/FuzzX/1", os.ErrInvalid, true},
		"does not build":  {"x.go:1: syntax error\nFAIL", errors.New("exit status 1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			var r result
			for line := range strings.Lines(c.output) {
				r.line(strings.TrimRight(line, "\n"))
			}
			r.ended(c.err)
			if r.failed != c.failed || (len(r.output) > 0) != c.failed {
				t.Errorf("%+v", r)
			}
			if strings.HasPrefix(c.output, "fuzz:") && (r.inputs != 500 || r.interesting != 2 || r.corpus != 9 || r.fuzzed != 3*time.Second || r.perSecond() != 166) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestOurPackages(t *testing.T) {
	for path, want := range map[string]bool{
		module: true, module + "/record": true, module + "/internal/state_test": true, module + "_test": true, module + "x/record": false, "net/http": false,
	} {
		if got := ours([]string{"compile", "-o", "x", "-p", path, counted}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
