package sim_test

import (
	"testing"

	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/sim"
)

// TestMutantSeeds is the process of a mutant.
func TestMutantSeeds(t *testing.T) { mutants.Process(t, sim.Mutants) }
