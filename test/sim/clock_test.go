package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var clocksFlag = flag.Int("clocks", sim.Tested[sim.Clocks], "number of seeds with wrong clocks to run")

// TestClocks runs seeds with wrong clocks that brokers check.
func TestClocks(t *testing.T) {
	ran, total := campaign(t, sim.Clocks, [2]int{*clocksFlag, 2}, func(s sim.Stats) any { return s.Clock })
	n := total.Clock
	if !t.Failed() && ran >= 20 && (n.Between == 0 || n.Pushed == 0 || n.Pushed*2 > n.Slots || n.Ended == 0 || n.Asks == 0 || n.Futures == 0 ||
		n.Resets == 0 || n.Accepted == 0 || n.Moved == 0) {
		t.Error("the runs did not cover enough")
	}
}
