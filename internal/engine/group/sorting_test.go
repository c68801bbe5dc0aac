package group_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/test/must"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

func byAll(a, b pair) int { return cmp.Or(byKey(a, b), cmp.Compare(a.place, b.place)) }

// TestSameOrderAsSlices tests package sorting. Assignments depend on its stable order.
func TestSameOrderAsSlices(t *testing.T) {
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{key: rand.IntN(n/3 + 1), place: i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		stable := slices.Clone(list)
		sorting.Stable(stable, byKey)
		sorted := sorting.Sorted(slices.Values(list), byAll)
		rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
		sorting.Sort(list, byAll)
		for name, got := range map[string][]pair{"Stable": stable, "Sorted": sorted, "Sort": list} {
			must.EqualSlicesf(t, got, want, "%s of %d elements", name, n)
		}
	}
}
