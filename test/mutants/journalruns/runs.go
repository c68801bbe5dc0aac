// Package journalruns performs the runs that find mutants with the simulator of the journal of disk
// buckets. It is small, because each mutant is built into it.
package journalruns

import (
	"testing"

	"github.com/sebbroker/seb/test/journalsim"
	"github.com/sebbroker/seb/test/mutants"
)

// Runs are the runs of each kind.
var Runs = map[string]mutants.Run{
	"journal": func(t *testing.T, i uint64) (uint64, error) {
		return i + 1, journalsim.Run(t, journalsim.Draw(i+1), nil).Err
	},
}
