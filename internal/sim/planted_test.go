//go:build plantedbugs

package sim_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/packer"
	"github.com/sebbroker/seb/internal/planted"
	"github.com/sebbroker/seb/internal/sim"
)

// plantedBudget is the CPU time in which the invariants must find a planted bug under the default configuration.
const plantedBudget = 60 * time.Second

// TestPlantedBugs tests the tests: each bug is switched on in the log core, and the seeds of TestSeeds are run until an
// invariant breaks. The simulator does not know the switch.
func TestPlantedBugs(t *testing.T) {
	for _, name := range append(logcore.PlantedBugs(), packer.PlantedBugs()...) {
		t.Run(name, func(t *testing.T) {
			planted.Plant(name)
			defer planted.Plant("")
			began := time.Now()
			for seed := uint64(1); time.Since(began) < plantedBudget; seed++ {
				if res := sim.Run(sim.Draw(seed), nil); res.Err != nil {
					t.Logf("seed %d, %v: %v", seed, time.Since(began).Round(time.Millisecond), res.Err)
					return
				}
			}
			t.Errorf("not found in %v", plantedBudget)
		})
	}
}
