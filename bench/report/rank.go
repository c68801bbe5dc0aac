package report

import (
	"cmp"
	"math"
	"slices"
)

// exactMax is the most values in both samples together for an exact count of all orders: C(20, 10)
// = 184,756.
const exactMax = 20

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test of a and b; 1 if one is
// empty. It is exact for up to 20 values in all, and a normal approximation above. Ties count half.
func MannWhitney(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	all := append(slices.Clone(a), b...)
	ranks := ranksOf(all)
	sum := 0.0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	mean := float64(len(a)) * float64(len(all)+1) / 2
	distance := math.Abs(sum - mean)
	if len(all) > exactMax {
		return approximate(ranks, len(a), len(b), distance)
	}
	var extreme, orders int
	choose(ranks, len(a), 0, func(sum float64) {
		orders++
		if math.Abs(sum-mean) >= distance-1e-9 {
			extreme++
		}
	})
	return float64(extreme) / float64(orders)
}

// ranksOf returns the ranks of values, from 1. Equal values get the mean of their ranks.
func ranksOf(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	ranks := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// choose calls f with the sum of every choice of n ranks.
func choose(ranks []float64, n int, sum float64, f func(float64)) {
	switch {
	case n == 0:
		f(sum)
	case n <= len(ranks):
		choose(ranks[1:], n-1, sum+ranks[0], f)
		choose(ranks[1:], n, sum, f)
	}
}

// approximate returns the normal approximation, with the correction for ties.
func approximate(ranks []float64, n, m int, distance float64) float64 {
	total := float64(n + m)
	squares, mean := 0.0, (total+1)/2
	for _, r := range ranks {
		squares += (r - mean) * (r - mean)
	}
	variance := float64(n) * float64(m) / (total * (total - 1)) * squares
	if variance == 0 {
		return 1
	}
	return min(1, math.Erfc(max(0, distance-0.5)/math.Sqrt(2*variance)))
}
