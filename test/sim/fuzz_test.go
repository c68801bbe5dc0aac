package sim_test

import (
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

// FuzzEvents is a second driver of the simulator. The fuzzer's bytes become a configuration, then
// the decisions of the run: which requests fail and how, when brokers crash, what clients send, and
// how long things take. Each kind uses its own part of the bytes. Coverage guides it to states of
// the core that random seeds reach only after a long time. All invariants of the simulator are
// checked.
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
