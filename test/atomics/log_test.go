package atomics_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/atomics"
	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	seeds = flag.Int("seeds", 40, "logs of TestLogs")
	first = flag.Uint64("seed", 0, "first log of TestLogs")
)

func TestLogs(t *testing.T) {
	var all atomics.Counts
	for i := range sebtest.Runs(*seeds, 5) {
		n, err := atomics.Run(t.Context(), *first+uint64(i))
		if err != nil {
			t.Error(err)
		}
		all = atomics.Counts{Stored: all.Stored + n.Stored, Acked: all.Acked + n.Acked, Refused: all.Refused + n.Refused, Repeated: all.Repeated + n.Repeated, Parts: all.Parts + n.Parts}
	}
	t.Logf("%+v", all)
	if all.Acked == 0 || all.Stored == 0 || all.Refused == 0 || all.Repeated == 0 {
		t.Error("the runs did not cover enough")
	}
}

func TestMutantSeeds(t *testing.T) { mutants.Process(t, atomics.Mutants) }
