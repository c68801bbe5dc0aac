package sim_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/sim"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this one seed with a trace")
	seedsFlag = flag.Int("seeds", 500, "number of seeds to run")
	timeFlag  = flag.Duration("simtime", 0, "run fresh seeds for so long instead")
)

// A run makes much garbage and holds little: memory is there, time is short.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

func run(t *testing.T, seed uint64) sim.Result {
	t.Helper()
	res := sim.Run(sim.Draw(seed), nil)
	if res.Err != nil {
		t.Errorf("seed %d: %v\n  config: %v\n  repeat: make sim SEED=%d", seed, res.Err, res.Config, seed)
	}
	return res
}

// TestSeeds runs seeds of 60 virtual seconds of chaos and 90 of calm.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		cfg := sim.Draw(*seedFlag)
		t.Logf("config: %v", cfg)
		res := sim.Run(cfg, os.Stdout)
		t.Logf("%+v hash %016x", res.Stats, res.Hash)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return
	}
	began := time.Now()
	first, n := uint64(1), *seedsFlag
	if *timeFlag > 0 {
		first, n = uint64(time.Now().UnixNano()), 1<<40
	} else if testing.Short() {
		n = 50
	}
	var mu sync.Mutex
	var total sim.Stats
	ran := 0
	next := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ran == n || *timeFlag > 0 && time.Since(began) > *timeFlag || t.Failed() {
			return 0, false
		}
		ran++
		return first + uint64(ran-1), true
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, ok := next(); ok; seed, ok = next() {
				res := run(t, seed)
				mu.Lock()
				total = sim.Sum(total, res.Stats)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %.1f virtual hours, %+v", ran, float64(ran)*210/3600, total)
	if !t.Failed() && (total.Acks == 0 || total.Leaders < ran || total.Faults == 0) {
		t.Errorf("the runs did not do enough to mean anything")
	}
}

// TestSeedsThatFailed repeats seeds that found something once.
func TestSeedsThatFailed(t *testing.T) {
	for name, seed := range map[string]uint64{
		"a slot is collected between the LIST of a start and its GET":           26,
		"a candidate that starts over goes back, and must not be read from":     1795238649403066668,
		"a late DELETE takes a SEAL in a collected slot before it is put twice": 1795238897699166478,
	} {
		t.Run(name, func(t *testing.T) { run(t, seed) })
	}
}

// TestDeterminism: the same seed gives the same run.
func TestDeterminism(t *testing.T) {
	for seed := uint64(1000); seed < 1010; seed++ {
		a, b := run(t, seed), run(t, seed)
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Errorf("seed %d: hashes %016x and %016x, %+v and %+v", seed, a.Hash, b.Hash, a.Stats, b.Stats)
		}
	}
}
