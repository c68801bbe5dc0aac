package sim_test

import (
	"flag"
	"testing"

	"github.com/sebbroker/seb/test/sim"
)

var (
	monthsFlag = flag.Int("months", sim.Tested[sim.Months], "number of seeds of months to run")
	shareFlag  = flag.Int("share", 20, "with -simtime: one of N seeds is a month with triggers")
)

// TestMonths runs seeds of a month with triggers and the following calm.
func TestMonths(t *testing.T) {
	if *timeFlag > 0 {
		t.Skip("TestSeeds runs months too")
	}
	if testing.Short() {
		t.Skip("a month takes seconds")
	}
	ran, total := campaign(t, sim.Months, [2]int{*monthsFlag, 1}, func(s sim.Stats) any { return s.Watch })
	w := total.Watch
	little := w.Firings == 0 || w.Messages == 0 || w.Puts == 0 || w.Edges == 0
	if ran >= 4 {
		little = little || w.Again == 0 || w.LostViews == 0 || w.OldViews == 0 || w.Stalls == 0 || w.Quiet == 0 || w.Removed == 0
	}
	if !t.Failed() && little {
		t.Error("the runs did not cover enough")
	}
}
