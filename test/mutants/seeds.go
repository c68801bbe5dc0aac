package mutants

import "github.com/sebbroker/seb/test/sim"

// Kind is a kind of runs, and the largest number of them that may be needed to find a mutant.
type Kind struct {
	Name string
	N    uint64
	run  func(i uint64) (seed uint64, res sim.Result)
}

// Kinds are all kinds of runs.
var Kinds = []Kind{
	{"default", 200, from(1)},
	{"losses", 200, from(sim.Losses + 1)},
	{"clocks", 200, from(sim.Clocks + 1)},
	{"months", 20, from(sim.Months + 1)},
	{"riemann", 200, from(sim.Riemann + 1)},
	// The inputs of sim.FuzzEvents.
	{"short", 5000, func(i uint64) (uint64, sim.Result) { return i, sim.RunBytes(sim.RandomBytes(i)) }},
}

// from runs consecutive seeds.
func from(first uint64) func(uint64) (uint64, sim.Result) {
	return func(i uint64) (uint64, sim.Result) { return first + i, sim.Run(sim.Draw(first+i), nil) }
}

// Run performs the run with number i, from 0. The error is the violated invariant.
func (k *Kind) Run(i uint64) (seed uint64, err error) {
	seed, res := k.run(i)
	return seed, res.Err
}
