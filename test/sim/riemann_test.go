package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var riemannFlag = flag.Int("riemann", sim.Tested[sim.Riemann], "number of seeds with Riemann clients to run")

// TestRiemann runs seeds in which Riemann clients send messages before the answers to earlier ones.
func TestRiemann(t *testing.T) {
	ran, total := campaign(t, sim.Riemann, [2]int{*riemannFlag, 2}, func(s sim.Stats) any { return s.Riemann })
	n := total.Riemann
	if !t.Failed() && (n.Oks < 100*ran || n.Refused == 0 || n.Stored == 0 || n.Stored > n.Events || n.Connections < 2*ran) {
		t.Errorf("the runs did not cover enough: %+v", n)
	}
}
