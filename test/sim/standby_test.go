package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var standbysFlag = flag.Int("standbys", sim.Tested[sim.Standbys], "number of seeds with standbys to run")

// TestStandbys runs seeds in which fenced brokers follow the log and stand again, in one process, and
// leaders step down, park and show life.
func TestStandbys(t *testing.T) {
	ran, total := campaign(t, sim.Standbys, [2]int{*standbysFlag, 2}, func(s sim.Stats) any {
		return []any{
			s.Stands, "attempts", s.Overtaken, "in vain", s.Leaders, "leaders", s.Fed, "slots fed", s.Early, "of them early",
			s.SteppedDown, "stepped down", s.Parks, "parked",
		}
	})
	if ran >= 10 && !t.Failed() && (total.Fed < 100*ran || total.Reached < ran || total.Early < ran) {
		t.Errorf("the runs did not cover enough: %d slots fed, %d of them early, %d positions", total.Fed, total.Early, total.Reached)
	}
	if n := total.Stands - total.Overtaken; !t.Failed() && (total.Fenced < ran || total.Overtaken < ran || n < ran) {
		t.Errorf("the runs did not cover enough: %d fenced, %d attempts, %d in vain", total.Fenced, total.Stands, total.Overtaken)
	}
	if !t.Failed() && (total.SteppedDown < ran || total.Parks < ran || total.Alive < ran) {
		t.Errorf("the runs did not cover enough: %d leaders stepped down, %d parked, %d alive slots", total.SteppedDown, total.Parks, total.Alive)
	}
}
