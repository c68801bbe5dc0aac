package logruns_test

import (
	"testing"

	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/mutants/logruns"
)

func TestSeeds(t *testing.T) { mutants.Process(t, logruns.Runs) }
