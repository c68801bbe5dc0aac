package mutants_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/testenv"
)

// TestMutants builds the simulator with one mutant at a time and runs seeds until an invariant
// breaks. The same runs without a mutant break no invariant. With -short it only applies the mutants.
func TestMutants(t *testing.T) {
	debug.SetGCPercent(400) // as in the tests of the simulator
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	needed := make(map[string]map[uint64]bool) // the numbers of runs, by kind
	t.Run("found", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				if testing.Short() {
					if _, err := m.Apply(root); err != nil {
						t.Fatal(err)
					}
					return
				}
				t.Parallel()
				took := found(t, m, root)
				mu.Lock()
				defer mu.Unlock()
				for _, s := range m.Seeds {
					if needed[s.Kind] == nil {
						needed[s.Kind] = make(map[uint64]bool)
					}
					for i := range took[s.Kind] {
						needed[s.Kind][s.From+i] = true
					}
				}
			})
		}
	})
	for _, k := range mutants.Kinds {
		t.Run("none/"+k.Name, func(t *testing.T) {
			t.Parallel()
			for i := range needed[k.Name] {
				if seed, err := k.Run(t, i); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			t.Logf("%d runs", len(needed[k.Name]))
		})
	}
}

// found returns the number of runs of each kind that find a mutant.
func found(t *testing.T, m *mutants.Mutant, root string) map[string]uint64 {
	dir := t.TempDir()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", run, "./test/mutants")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	args := make([]string, 0, len(m.Seeds))
	for _, s := range m.Seeds {
		args = append(args, s.String())
	}
	cmd := exec.CommandContext(t.Context(), run, "-test.run=^TestSeeds$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), seedsVariable+"="+strings.Join(args, ", "))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	took := make(map[string]uint64)
	for line := range strings.Lines(string(out)) {
		line, ok := strings.CutPrefix(line, seedsPrefix)
		if !ok {
			continue
		}
		var kind string
		var runs, millis, seed uint64
		if _, err := fmt.Sscan(line, &kind, &runs, &millis, &seed); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if took[kind] = runs; runs == 0 {
			t.Errorf("%s: nothing breaks", kind)
		}
		t.Log(strings.TrimSpace(line))
	}
	if len(took) != len(m.Seeds) {
		t.Errorf("output lacks some of the seeds %v:\n%s", m.Seeds, out)
	}
	return took
}

const (
	// seedsVariable is the environment variable of a process of TestSeeds.
	seedsVariable = "SEB_MUTANT_SEEDS"
	// seedsPrefix begins its lines.
	seedsPrefix = "seeds: "
)

// TestSeeds is the process of a mutant. It runs the simulator on one kind of seeds after the other
// (mutants.ParseSeeds) until an invariant breaks in each. It prints a line for each: the number of
// runs (0: nothing broke), the CPU time in ms, the last seed, and the violation.
func TestSeeds(t *testing.T) {
	list := os.Getenv(seedsVariable)
	if list == "" {
		t.Skip("a part of TestMutants")
	}
	debug.SetGCPercent(400) // as in the tests of the simulator
	for text := range strings.SplitSeq(list, ", ") {
		seeds, err := mutants.ParseSeeds(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range mutants.Kinds {
			if k.Name == seeds.Kind {
				fmt.Println(seedsPrefix + until(t, &k, seeds.From))
			}
		}
	}
}

func until(t *testing.T, k *mutants.Kind, from uint64) string {
	began := machine.CPUTime()
	for i := from; i < k.N; i++ {
		if seed, err := k.Run(t, i); err != nil {
			what, _, _ := strings.Cut(err.Error(), "\n")
			return fmt.Sprintf("%s %d %d %d %s", k.Name, i+1-from, (machine.CPUTime() - began).Milliseconds(), seed, what)
		}
	}
	return fmt.Sprintf("%s 0 %d 0 nothing", k.Name, (machine.CPUTime() - began).Milliseconds())
}
