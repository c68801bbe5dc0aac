package journalsim_test

import (
	"testing"

	"github.com/sebbroker/seb/test/journalsim"
	"github.com/sebbroker/seb/test/mutants"
)

// TestMutantSeeds is the process of a mutant.
func TestMutantSeeds(t *testing.T) { mutants.Process(t, journalsim.Mutants) }
