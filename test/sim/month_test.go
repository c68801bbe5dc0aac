package sim_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var (
	monthsFlag = flag.Int("months", 6, "number of seeds of months to run")
	shareFlag  = flag.Int("share", 20, "with -simtime: one of N seeds is a month with triggers")
)

// TestMonths runs seeds of a month with triggers and the following calm.
func TestMonths(t *testing.T) {
	n := *monthsFlag
	if testing.Short() {
		n = 1
	}
	if *seedFlag != 0 || *timeFlag > 0 {
		t.Skip("TestSeeds runs months too")
	}
	seeds := make(chan uint64, n)
	for i := range n {
		seeds <- sim.Months + 1 + uint64(i)
	}
	close(seeds)
	var mu sync.Mutex
	var total sim.Stats
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range seeds {
				res := run(t, seed)
				mu.Lock()
				total = sim.Sum(total, res.Stats)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d months, %.0f virtual hours, %+v", total.Months, monthHours(total), total)
	w := total.Watch
	little := w.Firings == 0 || w.Messages == 0 || w.Puts == 0 || w.Edges == 0
	if n >= 6 {
		little = little || w.Again == 0 || w.LostViews == 0 || w.OldViews == 0 || w.Stalls == 0 || w.Quiet == 0 || w.Removed == 0
	}
	if !t.Failed() && little {
		t.Error("the runs did not cover enough")
	}
}

// monthHours returns the virtual hours of months and the following calm.
func monthHours(s sim.Stats) float64 { return float64(s.Months) * 50 * 24 }
