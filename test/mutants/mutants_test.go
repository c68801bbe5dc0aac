package mutants_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/atomics"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/journalsim"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/queuesim"
	"github.com/sebbroker/seb/test/sim"
	"github.com/sebbroker/seb/test/testenv"
)

// TestMutants builds the simulators with mutants and runs seeds until an invariant breaks, in a process
// for each mutant. The same runs without a mutant break no invariant; those that the tests of the
// simulator perform are not repeated here. With -short it only applies the mutants.
func TestMutants(t *testing.T) {
	debug.SetGCPercent(400) // as in the tests of the simulator
	root := must.Get(testenv.Root())(t)
	all := must.Get(mutants.All())(t)
	together := must.Get(mutants.NewTogether(root, all))(t)
	if testing.Short() {
		return
	}
	overlay := must.Get(together.Overlay(t.TempDir()))(t)
	shared := programs{dir: t.TempDir(), root: root, overlay: overlay}
	var mu sync.Mutex
	needed := make(map[string]map[uint64]bool) // the numbers of runs, by kind
	t.Run("found", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				p := &shared
				if !together.Has(m) {
					alone := t.TempDir()
					overlay := must.Get(m.Overlay(root, alone))(t)
					p = &programs{dir: alone, root: root, overlay: overlay}
				}
				took := p.found(t, m)
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
	runs := maps.Clone(sim.Mutants)
	maps.Copy(runs, journalsim.Mutants)
	maps.Copy(runs, queuesim.Mutants)
	maps.Copy(runs, atomics.Mutants)
	for _, k := range mutants.Kinds {
		t.Run("none/"+k.Name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for i := range needed[k.Name] {
				if i < uint64(sim.MutantsTested[k.Name]) {
					continue
				}
				n++
				if seed, err := runs[k.Name](t, i); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			t.Logf("%d of %d runs", n, len(needed[k.Name]))
		})
	}
}

// programs are the tests of packages of runs (mutants.Kind), built with an overlay.
type programs struct {
	dir, root, overlay string

	mu    sync.Mutex // guards the fields below
	built map[string]string
}

// program returns the path of a test, which it builds at the first call.
func (p *programs) program(t *testing.T, in string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.built[in]; path != "" {
		return path
	}
	path := filepath.Join(p.dir, filepath.Base(in))
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-buildvcs=false", "-vet=off", "-ldflags=-s -w", "-overlay", p.overlay, "-o", path, "./"+in)
	build.Dir = p.root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if p.built == nil {
		p.built = make(map[string]string)
	}
	p.built[in] = path
	return path
}

// found returns the number of runs of each kind that find a mutant.
func (p *programs) found(t *testing.T, m *mutants.Mutant) map[string]uint64 {
	took := make(map[string]uint64)
	for in, seeds := range m.Packages() {
		perform(t, p.program(t, in), m, seeds, took)
	}
	check.Equalf(t, len(took), len(m.Seeds), "the processes printed %v, want a line for each of the seeds %v", took, m.Seeds)
	return took
}

// perform runs the process of a mutant and adds the number of runs of each kind.
func perform(t *testing.T, run string, m *mutants.Mutant, seeds []mutants.Seeds, took map[string]uint64) {
	args := make([]string, 0, len(seeds))
	for _, s := range seeds {
		args = append(args, s.String())
	}
	cmd := exec.CommandContext(t.Context(), run, "-test.run=^TestMutantSeeds$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), mutants.SeedsVariable+"="+strings.Join(args, ", "), mutants.PlantedVariable+"="+m.Name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		line, ok := strings.CutPrefix(line, mutants.SeedsPrefix)
		if !ok {
			continue
		}
		var kind string
		var runs, millis, seed uint64
		must.NoErrorf(t, check.Err(fmt.Sscan(line, &kind, &runs, &millis, &seed)), "%q", line)
		if took[kind] = runs; runs == 0 {
			t.Errorf("%s: nothing breaks", kind)
		}
		what := strings.SplitN(strings.TrimSpace(line), " ", 5)[4]
		t.Logf("seed %d of kind %s, after %d runs and %.1f s of CPU time: %s", seed, kind, runs, float64(millis)/1000, what)
	}
}
