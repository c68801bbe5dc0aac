package sim_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/sim"
)

var (
	lossesFlag = flag.Int("losses", sim.Tested[sim.Losses], "number of seeds with a loss to run")
	startsFlag = flag.Int("starts", 300, "number of starts of brokers that start at the same time")
)

// seeds runs the seeds that of returns for 0, 1, 2, ... on all processors, until enough returns true
// or one fails.
func seeds(t *testing.T, of func(i uint64) uint64, enough func(ran int, total sim.Stats) bool) (ran int, total sim.Stats) {
	var mu sync.Mutex // guards the variables below
	var wg sync.WaitGroup
	next := uint64(0)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for !enough(int(next), total) && !t.Failed() {
				seed := of(next)
				next++
				mu.Unlock()
				res := run(t, seed)
				mu.Lock()
				total, ran = sim.Sum(total, res.Stats), ran+1
			}
		})
	}
	wg.Wait()
	return ran, total
}

func virtualHours(s sim.Stats) float64 { return float64(s.Millis) / 3.6e6 }

// campaign runs many[0] seeds of a kind, or many[1] with -short, or with -simtime fresh ones for that
// time, and logs the counts. One of *shareFlag fresh seeds of kind 0 is a month.
func campaign(t *testing.T, kind uint64, many [2]int, counts func(sim.Stats) any) (ran int, total sim.Stats) {
	if *seedFlag != 0 {
		t.Skip("TestSeeds runs that seed")
	}
	began, first := time.Now(), kind+1
	if *timeFlag > 0 {
		first += uint64(began.UnixNano())
	}
	of := func(i uint64) uint64 {
		if kind == 0 && *timeFlag > 0 && (i+1)%uint64(*shareFlag) == 0 {
			return sim.Months + first + i
		}
		return first + i
	}
	n, said := sebtest.Runs(many[0], min(many[0], many[1])), began
	ran, total = seeds(t, of, func(ran int, total sim.Stats) bool {
		if *timeFlag == 0 {
			return ran == n
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
	ran, total := campaign(t, sim.Losses, [2]int{*lossesFlag, 2}, func(s sim.Stats) any { return s.Loss })
	n := total.Loss
	if !t.Failed() && ran >= 20 && (n.Slots == 0 || n.Seals == 0 || n.Snapshots == 0 || n.Copies == 0 || n.Lost == 0 || n.Older == 0 || n.Unreadable == 0) {
		t.Error("the runs did not cover enough")
	}
}

// TestCopies runs seeds with a loss in which some brokers have copies of slots, and leaders compare the
// bucket with their state.
func TestCopies(t *testing.T) {
	ran, total := campaign(t, sim.Copies, [2]int{*lossesFlag, 2}, func(s sim.Stats) any { return s.Loss })
	if n := total.Loss; !t.Failed() && ran >= 200 && (n.Copied == 0 || n.Alarms == 0) {
		t.Error("the runs did not cover enough")
	}
}

// TestLossesThatFailed repeats seeds that once failed.
func TestLossesThatFailed(t *testing.T) {
	for name, seed := range map[string]uint64{
		"a broker leads where a SEAL took the name of the last slot that it saw":       4611686018427388055,
		"a slot is lost before the slots ahead of it are stored":                       4611686018427388711,
		"a leader that does not know that it is deposed takes the name of a lost SEAL": 4611686018427388278,
		"a lost SEAL is stored again while a start looks":                              6407462181519082595,
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
	ran, total := seeds(t, func(i uint64) uint64 { return sim.Starts + 1 + i }, func(_ int, total sim.Stats) bool {
		return total.Together >= sebtest.Runs(*startsFlag, min(*startsFlag, 10))
	})
	t.Logf("%d seeds, %.1f virtual hours, %d starts, %d of them concurrent, %d objects collected, %d leaders: %+v",
		ran, virtualHours(total), total.Starts, total.Together, total.Deleted, total.Leaders, total)
}
