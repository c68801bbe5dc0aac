//go:build plantedbugs

package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/logtime"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/packer"
	"github.com/sebbroker/seb/internal/planted"
	"github.com/sebbroker/seb/internal/sim"
	"github.com/sebbroker/seb/internal/triggers/fold"
)

// The invariants must find a planted bug in so many seeds, of the default configuration and of months. That is about a minute of a core.
const (
	plantedSeeds  = 200
	plantedMonths = 20
)

// TestPlantedBugs tests the tests: each bug is switched on in the log core, and the seeds of TestSeeds are run until an
// invariant breaks. The simulator does not know the switch.
func TestPlantedBugs(t *testing.T) {
	for _, name := range append(logcore.PlantedBugs(), packer.PlantedBugs()...) {
		first := uint64(1)
		if slices.Contains(logcore.PlantedBugsOfLosses(), name) {
			first = sim.Losses + 1
		}
		t.Run(name, func(t *testing.T) { find(t, name, first, plantedSeeds) })
	}
	for _, name := range append(logtime.PlantedBugs(), logcore.PlantedBugsOfClocks()...) {
		t.Run(name, func(t *testing.T) { find(t, name, sim.Clocks+1, plantedSeeds) })
	}
}

// TestPlantedBugsOfTriggers is that for the engine of triggers: the runs are months.
func TestPlantedBugsOfTriggers(t *testing.T) {
	for _, name := range fold.PlantedBugs() {
		t.Run(name, func(t *testing.T) { find(t, name, sim.Months+1, plantedMonths) })
	}
}

// find switches a bug on and runs n seeds, or until something breaks.
func find(t *testing.T, name string, seed uint64, n int) {
	planted.Plant(name)
	defer planted.Plant("")
	began := machine.CPUTime()
	for range n {
		if res := sim.Run(sim.Draw(seed), nil); res.Err != nil {
			t.Logf("seed %d, %v: %v", seed, (machine.CPUTime() - began).Round(time.Millisecond), res.Err)
			return
		}
		seed++
	}
	t.Errorf("not found in %d seeds", n)
}
