package sim_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sim"
)

var (
	lossesFlag = flag.Int("losses", 40, "number of seeds with a loss to run")
	startsFlag = flag.Int("starts", 300, "number of starts of brokers that start at the same time")
)

// seeds runs seeds on all processors, starting with first, until enough returns true or one fails.
func seeds(t *testing.T, first uint64, enough func(ran int, total sim.Stats) bool) (ran int, total sim.Stats) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := first
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				if enough(int(next-first), total) || t.Failed() {
					mu.Unlock()
					return
				}
				seed := next
				next++
				mu.Unlock()
				res := run(t, seed)
				mu.Lock()
				total, ran = sim.Sum(total, res.Stats), ran+1
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ran, total
}

func virtualHours(s sim.Stats) float64 { return float64(s.Millis) / 3.6e6 }

// campaign runs n seeds of a kind, or with -simtime fresh ones for that time, and logs the counts.
func campaign(t *testing.T, kind uint64, n int, counts func(sim.Stats) any) (ran int, total sim.Stats) {
	if *seedFlag != 0 {
		t.Skip("TestSeeds runs that seed")
	}
	began, first := time.Now(), kind+1
	if *timeFlag > 0 {
		first += uint64(began.UnixNano())
	}
	said := began
	ran, total = seeds(t, first, func(ran int, total sim.Stats) bool {
		if *timeFlag == 0 {
			return ran == n || testing.Short() && ran == 10
		}
		if time.Since(said) > time.Minute {
			said = time.Now()
			t.Logf("%d seeds, %.1f virtual hours, %+v", ran, virtualHours(total), counts(total))
		}
		return time.Since(began) > *timeFlag
	})
	t.Logf("%d seeds, %.1f virtual hours, %+v", ran, virtualHours(total), total)
	return ran, total
}

// TestLosses runs seeds in which an object is lost, or an older copy of the bucket is restored.
func TestLosses(t *testing.T) {
	ran, total := campaign(t, sim.Losses, *lossesFlag, func(s sim.Stats) any { return s.Loss })
	n := total.Loss
	if !t.Failed() && ran >= 40 && (n.Slots == 0 || n.Seals == 0 || n.Snapshots == 0 || n.Copies == 0 || n.Lost == 0 || n.Older == 0 || n.Unreadable == 0) {
		t.Error("the runs did not cover enough")
	}
}

// TestLossesThatFailed repeats seeds that once failed.
func TestLossesThatFailed(t *testing.T) {
	for name, seed := range map[string]uint64{
		"a broker leads where a SEAL took the name of the last slot that it saw":       4611686018427388055,
		"a slot is lost before the slots ahead of it are stored":                       4611686018427388711,
		"a leader that does not know that it is deposed takes the name of a lost SEAL": 4611686018427388278,
	} {
		t.Run(name, func(t *testing.T) { run(t, seed) })
	}
}

// TestStarts checks that several brokers that start at the same time never report an intact log as
// damaged, whatever is collected meanwhile.
func TestStarts(t *testing.T) {
	if *seedFlag != 0 || *timeFlag > 0 {
		t.Skip("TestSeeds runs seeds")
	}
	ran, total := seeds(t, sim.Starts+1, func(_ int, total sim.Stats) bool { return total.Together >= *startsFlag })
	t.Logf("%d seeds, %.1f virtual hours, %d starts, %d of them concurrent, %d objects collected, %d leaders: %+v",
		ran, virtualHours(total), total.Starts, total.Together, total.Deleted, total.Leaders, total)
}
