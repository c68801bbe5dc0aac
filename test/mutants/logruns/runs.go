// Package logruns performs the runs that find mutants with the simulator of the log.
package logruns

import (
	"testing"

	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/sim"
)

// Runs are the runs of each kind.
var Runs = map[string]mutants.Run{
	"default":  from(1),
	"losses":   from(sim.Losses + 1),
	"clocks":   from(sim.Clocks + 1),
	"standbys": from(sim.Standbys + 1),
	"cluster":  from(sim.Clusters + 1),
	"months":   from(sim.Months + 1),
	"riemann":  from(sim.Riemann + 1),
	// The inputs of sim.FuzzEvents.
	"short": func(_ *testing.T, i uint64) (uint64, error) { return i, sim.RunBytes(sim.RandomBytes(i)).Err },
}

// Tested is the number of runs of each kind, from the first, that the tests of the simulator perform
// too.
var Tested = map[string]int{
	"default":  sim.Tested[0],
	"losses":   sim.Tested[sim.Losses],
	"clocks":   sim.Tested[sim.Clocks],
	"standbys": sim.Tested[sim.Standbys],
	"cluster":  sim.Tested[sim.Clusters],
	"months":   sim.Tested[sim.Months],
	"riemann":  sim.Tested[sim.Riemann],
}

// from runs consecutive seeds.
func from(first uint64) mutants.Run {
	return func(_ *testing.T, i uint64) (uint64, error) { return first + i, sim.Run(sim.Draw(first+i), nil).Err }
}
