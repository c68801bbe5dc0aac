package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var clustersFlag = flag.Int("clusters", sim.Tested[sim.Clusters], "number of seeds with a cluster.Core in each broker to run")

// TestClusters runs seeds in which each broker decides by a cluster.Core whether it leads.
func TestClusters(t *testing.T) {
	ran, total := campaign(t, sim.Clusters, [2]int{*clustersFlag, 1}, func(s sim.Stats) any { return s.Cluster })
	n := &total.Cluster
	if ran >= 8 && !t.Failed() && (n.Takeovers < ran || n.Handed == 0 || n.Sessions < 100*ran || total.Fed < 100*ran) {
		t.Errorf("the runs did not cover enough: %+v, %d slots fed", *n, total.Fed)
	}
}

// TestClustersThatFailed repeats seeds that once failed, with the clients that there were.
func TestClustersThatFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("four seeds")
	}
	for name, seed := range map[string]uint64{
		"a standby without a registration is stopped until the leader has forgotten it": 11529215046070469778,
		"a broker is stopped after its SEAL and before it leads":                        11529215046070469883,
		"a request that was sent into a cut ends long after it":                         11529215046070471575,
		"a broker starts again while a firewall refuses its links":                      11529215046070472442,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sim.Draw(seed)
			cfg.Cluster.Callers, cfg.Cluster.More, cfg.Cluster.Stay = 0, false, false
			if res := sim.Run(cfg, nil); res.Err != nil {
				t.Errorf("seed %d: %v", seed, res.Err)
			}
		})
	}
}
