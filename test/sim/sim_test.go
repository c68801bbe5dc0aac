package sim_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/sim"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run this one seed with a trace")
	seedsFlag  = flag.Int("seeds", sim.Tested[0], "number of seeds to run")
	shrinkFlag = flag.Bool("shrink", false, "find a smaller configuration of the seed that still fails")
	timeFlag   = flag.Duration("simtime", 0, "run fresh seeds for so long instead")
)

// A run allocates much and keeps little: memory is available, time is not.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

func run(t *testing.T, seed uint64) (res sim.Result) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil { // keep the results of the other seeds
			t.Errorf("seed %d: %v\n%s\n  repeat: go run ./test/cmd/sim -seed %d", seed, p, debug.Stack(), seed)
		}
	}()
	res = sim.Run(sim.Draw(seed), nil)
	if res.Err != nil {
		t.Errorf("seed %d: %v\n  config: %v\n  repeat: go run ./test/cmd/sim -seed %d", seed, res.Err, res.Config, seed)
	}
	return res
}

// TestSeeds runs seeds of 60 virtual seconds of chaos and 150 of calm.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		oneSeed(t, *seedFlag)
		return
	}
	ran, total := campaign(t, 0, [2]int{*seedsFlag, 3}, func(s sim.Stats) any {
		return []any{s.Months, "months", s.Acks, "acknowledgements", s.Faults, "faults", s.Watch.Firings, "firings"}
	})
	little := total.Acks == 0 || total.Leaders < ran || total.Faults == 0
	if ran >= 50 {
		little = little || total.Late == 0 || total.Cuts == 0 || total.Clocks == 0 || total.Ghosts == 0 || total.Pauses == 0 || total.Crashes == 0 ||
			total.Journals == 0 || total.Journals == total.Leaders || total.Stamped == 0 || total.Stamped == total.Records || total.Retypes == 0
		n := total.Atomic
		little = little || n.Stored == 0 || n.Bad == 0 || n.Duplicates == 0 || n.Delayed == 0 || n.Principals == 0 || n.LostPrincipals == 0 || n.ViewedWithout == 0
		x := total.Transaction
		little = little || x.Committed == 0 || x.Aborted == 0 || x.Two == 0 || x.Offsets == 0 || x.Recovered == 0 || x.Replaced == 0 || x.Repeated == 0 ||
			x.Late == 0 || x.Overdue == 0 || x.Read == 0 || x.Hidden == 0 || x.Held == 0
	}
	if !t.Failed() && little {
		t.Errorf("the runs did not cover enough")
	}
}

// oneSeed repeats a seed with its trace, after shrinking if requested.
func oneSeed(t *testing.T, seed uint64) {
	cfg := sim.Draw(seed)
	t.Logf("config: %v", cfg)
	if *shrinkFlag {
		cfg = sim.Shrink(cfg, func(c sim.Config, fails bool) { t.Logf("fails %v: %v", fails, c) })
		t.Logf("smallest: %v", cfg)
	}
	res := sim.Run(cfg, os.Stdout)
	t.Logf("%+v hash %016x", res.Stats, res.Hash)
	must.NoError(t, res.Err)
}

// TestListThatHidesPuts: a LIST that omits PUTs answered before it began is forbidden for a store
// (rule R10). It breaks the basis of rule R5 (4), and the simulator must detect that.
func TestListThatHidesPuts(t *testing.T) {
	for seed := uint64(1); seed < 300; seed++ {
		cfg := sim.Draw(seed)
		cfg.HideLists = 20 * time.Second
		if res := sim.Run(cfg, nil); res.Err != nil {
			t.Logf("seed %d: %v", seed, res.Err)
			return
		}
	}
	t.Error("nothing broke")
}

// TestSeedsThatFailed repeats seeds that once failed.
func TestSeedsThatFailed(t *testing.T) {
	for name, seed := range map[string]uint64{
		"a slot is collected between the LIST of a start and its GET":           169,
		"a candidate that starts over goes back, and must not be read from":     1795238649403066668,
		"a late DELETE takes a SEAL in a collected slot before it is put twice": 1795238897699166478,
		"a SEAL in a collected slot leads a follower off the chain for a while": 8096,
		"a SEAL in a collected slot lies where a follower reads records":        1795283306648534085,
		"the only broker is down for most of the calm":                          1795284032144881161,
		"a SEAL is in a collected slot that a pack needs":                       1795292195198180402,
		"passes that got nothing done put garbage off for long after":           1795285250414570104,
		"a Riemann request waits for its topic while its client leaves":         15630834690798749418,
		"a leader with a slow store is overtaken by one that returns":           13324991664907184037,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []sim.Config{sim.Draw(seed).WithoutLater(), sim.Draw(seed).WithoutStamps(), sim.Draw(seed).WithoutAtomics(), sim.Draw(seed).WithoutTransactions(), sim.Draw(seed)}
			for _, cfg := range all[:sebtest.Runs(len(all), 1)] {
				if res := sim.Run(cfg, nil); res.Err != nil {
					t.Errorf("seed %d: %v\n  config: %v", seed, res.Err, cfg)
				}
			}
		})
	}
}

// TestMonthsThatFailed repeats seeds of months with triggers that once failed.
func TestMonthsThatFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("three months")
	}
	for name, seed := range map[string]uint64{
		"a firing of a version that was replaced is carried as its successor says":  11018824104839731071,
		"a version is replaced while some of its deadlines are still to be handled": 11018824492770058804,
		"the topic is deleted before the engine knows a trigger that is stored":     11019145459424051796,
	} {
		t.Run(name, func(t *testing.T) {
			if res := sim.Run(sim.Draw(seed), nil); res.Err != nil {
				t.Errorf("seed %d: %v", seed, res.Err)
			}
		})
	}
}
