package sim_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/sim"
)

var sameFlag = flag.Int("same", 6, "number of seeds that are run several times and compared")

// sameSeed returns one of the compared seeds, of one kind after the other.
func sameSeed(i int) uint64 {
	kinds := []uint64{999, sim.Clusters, sim.Riemann, sim.Clocks, sim.Losses, sim.Months}
	return kinds[i%len(kinds)] + 1 + uint64(i)
}

// outcome is what must not differ between two runs of a seed.
type outcome struct {
	hash  uint64
	stats sim.Stats
	trace [sha256.Size]byte
}

func (o outcome) String() string {
	return fmt.Sprintf("hash %016x, trace %x", o.hash, o.trace[:8])
}

func traced(t *testing.T, seed uint64) outcome {
	h := sha256.New()
	res := sim.Run(sim.Draw(seed), h)
	if res.Err != nil {
		t.Errorf("seed %d: %v", seed, res.Err)
	}
	return outcome{res.Hash, res.Stats, [sha256.Size]byte(h.Sum(nil))}
}

// TestDeterminism: the same seed gives the same trace, with any number of threads, and concurrently
// with other runs.
func TestDeterminism(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	alone := make([]outcome, sebtest.Runs(*sameFlag, min(*sameFlag, 1)))
	for i := range alone {
		alone[i] = traced(t, sameSeed(i))
		t.Logf("seed %d: %v", sameSeed(i), alone[i])
	}
	const threads = 7
	runtime.GOMAXPROCS(threads)
	again := make([]outcome, len(alone))
	var wg sync.WaitGroup
	for i := range again {
		wg.Go(func() { again[i] = traced(t, sameSeed(i)) })
	}
	wg.Wait()
	for i := range again {
		if again[i] != alone[i] {
			t.Errorf("seed %d: with %d threads %v %+v, with one %v %+v", sameSeed(i), threads, again[i], again[i].stats, alone[i], alone[i].stats)
		}
	}
}

// TestDeterminismOfKills: a killed broker answers its ops in one order, also the creations of topics
// and the first append, which have the same id.
func TestDeterminismOfKills(t *testing.T) {
	for _, seed := range []uint64{55, 141} {
		cfg := sim.Draw(seed)
		cfg.Nodes, cfg.Followers, cfg.Producers = 1, 0, 1
		cfg.Topics, cfg.Compacted, cfg.Stamped = 2, 0, 0
		cfg.Chaos, cfg.CrashEvery, cfg.PauseEvery, cfg.RefuseEvery = 3*time.Second, time.Second/2, 0, 0
		first := sim.Run(cfg, nil)
		if first.Err != nil {
			t.Errorf("seed %d: %v", seed, first.Err)
		}
		for range sebtest.Runs(15, 1) {
			if again := sim.Run(cfg, nil); again != first {
				t.Fatalf("seed %d: a run has hash %016x, another %016x", seed, again.Hash, first.Hash)
			}
		}
	}
}

// TestDeterminismOfProcesses: another process gives the same runs. Under the race detector that is
// another build of the program, with other timings and addresses.
func TestDeterminismOfProcesses(t *testing.T) {
	n := sebtest.Runs(2, 1)
	same := fmt.Sprint("-same=", n)
	args := []string{os.Args[0], "-test.v", "-test.run=^TestDeterminism$", same}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = []string{"go", "test", "-count=1", "-v", "-run=^TestDeterminism$", ".", same}
	}
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i := range n {
		seed := sameSeed(i)
		if want := fmt.Sprintf("seed %d: %v\n", seed, traced(t, seed)); !strings.Contains(string(out), want) {
			t.Errorf("no %q in another process, but:\n%s", want, out)
		}
	}
}
