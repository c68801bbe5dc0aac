package queuesim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/queuesim"
)

var (
	seeds = flag.Uint64("seeds", 100, "worlds of TestWorlds")
	first = flag.Uint64("seed", 0, "first world of TestWorlds")
)

func TestWorlds(t *testing.T) {
	for seed := *first; seed < *first+*seeds; seed++ {
		if err := queuesim.Run(seed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMutantSeeds(t *testing.T) { mutants.Process(t, queuesim.Mutants) }
