package journalruns_test

import (
	"testing"

	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/mutants/journalruns"
)

func TestSeeds(t *testing.T) { mutants.Process(t, journalruns.Runs) }
