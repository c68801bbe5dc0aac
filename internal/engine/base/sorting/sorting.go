// Package sorting sorts lists with one copy of the algorithm for all types of elements. With
// slices.SortFunc each type that is not a pointer adds about 12 KB to the program. Use slices.SortFunc
// for pointers, and where sorting takes a noticeable share of time: this package is slower. Its test
// is in package group.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// list implements sort.Interface.
type list[E any] struct {
	of      []E
	compare func(a, b E) int
}

func (l *list[E]) Len() int           { return len(l.of) }
func (l *list[E]) Less(i, j int) bool { return l.compare(l.of[i], l.of[j]) < 0 }
func (l *list[E]) Swap(i, j int)      { l.of[i], l.of[j] = l.of[j], l.of[i] }

// Sort is slices.SortFunc.
func Sort[E any](of []E, compare func(a, b E) int) { sort.Sort(&list[E]{of, compare}) }

// Stable is slices.SortStableFunc.
func Stable[E any](of []E, compare func(a, b E) int) { sort.Stable(&list[E]{of, compare}) }

// Sorted is slices.SortedFunc.
func Sorted[E any](seq iter.Seq[E], compare func(a, b E) int) []E {
	of := slices.Collect(seq)
	Sort(of, compare)
	return of
}
