package sim

import "testing"

// Mutants are the runs of each kind that find the mutants of package mutants.
var Mutants = map[string]func(t *testing.T, i uint64) (seed uint64, err error){
	"default":  from(1),
	"losses":   from(Losses + 1),
	"copies":   from(Copies + 1),
	"clocks":   from(Clocks + 1),
	"standbys": from(Standbys + 1),
	"cluster":  from(Clusters + 1),
	"months":   from(Months + 1),
	"riemann":  from(Riemann + 1),
	// The inputs of FuzzEvents.
	"short": func(_ *testing.T, i uint64) (uint64, error) { return i, RunBytes(RandomBytes(i)).Err },
}

// MutantsTested is the number of runs of each kind, from the first, that the tests of the simulator
// perform too.
var MutantsTested = map[string]int{
	"default":  Tested[0],
	"losses":   Tested[Losses],
	"copies":   Tested[Copies],
	"clocks":   Tested[Clocks],
	"standbys": Tested[Standbys],
	"cluster":  Tested[Clusters],
	"months":   Tested[Months],
	"riemann":  Tested[Riemann],
}

// from runs consecutive seeds.
func from(first uint64) func(t *testing.T, i uint64) (uint64, error) {
	return func(_ *testing.T, i uint64) (uint64, error) { return first + i, Run(Draw(first+i), nil).Err }
}
