package mutants

import (
	"testing"

	"github.com/sebbroker/seb/test/journalsim"
	"github.com/sebbroker/seb/test/sim"
)

// Kind is a kind of runs, and the largest number of them that may be needed to find a mutant.
type Kind struct {
	Name string
	N    uint64
	run  func(t *testing.T, i uint64) (seed uint64, err error)
}

// Kinds are all kinds of runs.
var Kinds = []Kind{
	{"default", 200, from(1)},
	{"losses", 300, from(sim.Losses + 1)},
	{"clocks", 200, from(sim.Clocks + 1)},
	{"standbys", 200, from(sim.Standbys + 1)},
	{"months", 20, from(sim.Months + 1)},
	{"riemann", 200, from(sim.Riemann + 1)},
	// The inputs of sim.FuzzEvents.
	{"short", 5000, func(_ *testing.T, i uint64) (uint64, error) { return i, sim.RunBytes(sim.RandomBytes(i)).Err }},
	{"journal", 2000, func(t *testing.T, i uint64) (uint64, error) {
		return i + 1, journalsim.Run(t, journalsim.Draw(i+1), nil).Err
	}},
}

// from runs consecutive seeds.
func from(first uint64) func(*testing.T, uint64) (uint64, error) {
	return func(_ *testing.T, i uint64) (uint64, error) { return first + i, sim.Run(sim.Draw(first+i), nil).Err }
}

// Run performs the run with number i, from 0. The error is the violated invariant.
func (k *Kind) Run(t *testing.T, i uint64) (seed uint64, err error) { return k.run(t, i) }
