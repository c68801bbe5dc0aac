//go:build plantedbugs

package sim

import (
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/planted"
)

// TestPlantedBugsInShortRuns: the runs of FuzzEvents are short, and still find every bug of the core, with inputs that no
// fuzzer has seen.
func TestPlantedBugsInShortRuns(t *testing.T) {
	const inputs = 5000
	for _, name := range logcore.PlantedBugs() {
		if slices.Contains(logcore.PlantedBugsOfLosses(), name) {
			continue // in these runs nothing is lost
		}
		t.Run(name, func(t *testing.T) {
			planted.Plant(name)
			defer planted.Plant("")
			for seed := range uint64(inputs) {
				if res := runBytes(randomBytes(seed)); res.Err != nil {
					t.Logf("input %d: %v", seed, res.Err)
					return
				}
			}
			t.Errorf("not found in %d inputs", inputs)
		})
	}
}
