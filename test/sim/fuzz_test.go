package sim_test

import (
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

// FuzzEvents is a second driver of the simulator: the fuzzer's bytes become a configuration, then the decisions of the run
// (what fails and how, who crashes when, who sends what, what takes how long), each kind from a part of its own. What the
// coverage of the core steers to there random seeds may take long to find. All invariants of the simulator are checked.
func FuzzEvents(f *testing.F) {
	for seed := range uint64(24) {
		f.Add(sim.RandomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if res := sim.RunBytes(b); res.Err != nil {
			t.Fatalf("%v\n%v", res.Err, res.Config)
		}
	})
}
