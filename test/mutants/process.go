package mutants

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/must"
)

// Run performs the run with number i, from 0, of a kind. The error is the violated invariant.
type Run = func(t *testing.T, i uint64) (seed uint64, err error)

const (
	// SeedsVariable is the environment variable of a process of Process.
	SeedsVariable = "SEB_MUTANT_SEEDS"
	// SeedsPrefix begins its lines.
	SeedsPrefix = "seeds: "
)

// Process is the process of a mutant. It performs runs of one kind after the other (ParseSeeds) until
// an invariant breaks in each. It prints a line for each: the number of runs (0: nothing broke), the
// CPU time in ms, the last seed, and the violation.
func Process(t *testing.T, runs map[string]Run) {
	list := os.Getenv(SeedsVariable)
	if list == "" {
		t.Skip("a part of TestMutants")
	}
	debug.SetGCPercent(400) // as in the tests of the simulators
	for text := range strings.SplitSeq(list, ", ") {
		seeds := must.Get(ParseSeeds(text))(t)
		run := runs[seeds.Kind]
		if run == nil {
			t.Fatalf("seeds %q: this package has no such runs", text)
		}
		fmt.Println(SeedsPrefix + until(t, seeds, run))
	}
}

func until(t *testing.T, s Seeds, run Run) string {
	began := machine.CPUTime()
	for i := s.From; i < kind(s.Kind).N; i++ {
		if seed, err := run(t, i); err != nil {
			what, _, _ := strings.Cut(err.Error(), "\n")
			return fmt.Sprintf("%s %d %d %d %s", s.Kind, i+1-s.From, (machine.CPUTime() - began).Milliseconds(), seed, what)
		}
	}
	return fmt.Sprintf("%s 0 %d 0 nothing", s.Kind, (machine.CPUTime() - began).Milliseconds())
}
