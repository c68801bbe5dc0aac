package campaign

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/packer"
)

var (
	plantedFlag     = flag.String("planted", "", "plant this bug, or one after the other (all), and see whether it is found")
	plantedTimeFlag = flag.Duration("planted-time", time.Minute, "how long each is looked for")
)

// TestPlanted plants the bugs of the simulator's list in real brokers, and says which the campaign finds from outside. Some
// it can not: they break a rule whose breach only a rare coincidence turns into a loss, which is what the simulator is for.
// It fails if it finds hardly any.
func TestPlanted(t *testing.T) {
	if *plantedFlag == "" {
		t.Skip("-planted is not given")
	}
	w := newWorld(t, mistaken)
	found := 0
	bugs := []string{*plantedFlag}
	if *plantedFlag == "all" {
		bugs = append(logcore.PlantedBugs(), packer.PlantedBugs()...)
	}
	for _, bug := range bugs {
		w.env = []string{"SEB_PLANTED_BUG=" + bug}
		began := time.Now()
		how, seed := "not found", uint64(1)
		for ; how == "not found" && time.Since(began) < *plantedTimeFlag; seed++ {
			how = w.finds(t, newPlan(seed, 10*time.Second))
		}
		if how != "not found" {
			found++
		}
		t.Logf("| %s | %s | %d | %v |", bug, how, seed-1, time.Since(began).Round(time.Second))
	}
	t.Logf("%d of %d found", found, len(bugs))
	if found < len(bugs)/3 {
		t.Errorf("%d of %d planted bugs found", found, len(bugs))
	}
}

// finds says by what a run shows that something is wrong.
func (w *world) finds(t *testing.T, p *plan) string {
	r, violations, err := w.try(t.Context(), p, func(*run) {}, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer r.remove(t)
	switch {
	case len(violations) > 0:
		return violations[0].Rule
	case len(r.faults) > 0:
		line, _, _ := strings.Cut(r.faults[0], "\n")
		return fmt.Sprintf("%.80s", line)
	}
	return "not found"
}
