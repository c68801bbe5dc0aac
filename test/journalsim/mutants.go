package journalsim

import "testing"

// Mutants are the runs of each kind that find the mutants of package mutants.
var Mutants = map[string]func(t *testing.T, i uint64) (seed uint64, err error){
	"journal": func(t *testing.T, i uint64) (uint64, error) { return i + 1, Run(t, Draw(i+1), nil).Err },
}
