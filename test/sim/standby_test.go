package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var standbysFlag = flag.Int("standbys", 10, "number of seeds with standbys to run")

// TestStandbys runs seeds in which fenced brokers follow the log and stand again, in one process.
func TestStandbys(t *testing.T) {
	ran, total := campaign(t, sim.Standbys, [2]int{*standbysFlag, 4}, func(s sim.Stats) any {
		return []any{s.Stands, "attempts", s.Overtaken, "in vain", s.Leaders, "leaders", s.Fed, "slots fed", s.Early, "of them early"}
	})
	if ran >= 10 && !t.Failed() && (total.Fed < 100*ran || total.Reached < ran || total.Early < ran || total.SteppedDown == 0) {
		t.Errorf("the runs did not cover enough: %d slots fed, %d of them early, %d positions, %d leaders stepped down",
			total.Fed, total.Early, total.Reached, total.SteppedDown)
	}
	if n := total.Stands - total.Overtaken; !t.Failed() && (total.Fenced < ran || total.Overtaken < ran || n < ran) {
		t.Errorf("the runs did not cover enough: %d fenced, %d attempts, %d in vain", total.Fenced, total.Stands, total.Overtaken)
	}
}
