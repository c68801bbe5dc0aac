package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var clustersFlag = flag.Int("clusters", 8, "number of seeds with a cluster.Core in each broker to run")

// TestClusters runs seeds in which each broker decides by a cluster.Core whether it leads.
func TestClusters(t *testing.T) {
	ran, total := campaign(t, sim.Clusters, [2]int{*clustersFlag, 3}, func(s sim.Stats) any { return s.Cluster })
	n := &total.Cluster
	if ran >= 8 && !t.Failed() && (n.Takeovers < ran || n.Handed == 0 || n.Sessions < 100*ran || total.Fed < 100*ran) {
		t.Errorf("the runs did not cover enough: %+v, %d slots fed", *n, total.Fed)
	}
}
