package queuesim

import "testing"

// Mutants are the runs of each kind that find the mutants of package mutants.
var Mutants = map[string]func(t *testing.T, i uint64) (seed uint64, err error){
	"queue": func(_ *testing.T, i uint64) (uint64, error) { return i, Run(i) },
}
