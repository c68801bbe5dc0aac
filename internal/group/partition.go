package group

import (
	"bytes"
	"cmp"
	"slices"
)

// Partition is a partition of a topic, which is named by its id.
type Partition struct {
	Topic  [16]byte
	Number int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Number, b.Number))
}

// partitions is a set, sorted. The functions below return new ones.
type partitions []Partition

// setOf makes a set of what a client has listed in any order.
func setOf(list []Partition) partitions {
	own := slices.Clone(list)
	slices.SortFunc(own, comparePartitions)
	return slices.Compact(own)
}

func (s partitions) has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(s, p, comparePartitions)
	return ok
}

// both is what is in s and in o.
func (s partitions) both(o partitions) partitions {
	return s.filter(o.has)
}

// without is what is in s and not in o.
func (s partitions) without(o partitions) partitions {
	return s.filter(func(p Partition) bool { return !o.has(p) })
}

func (s partitions) filter(keep func(Partition) bool) partitions {
	var left partitions
	for _, p := range s {
		if keep(p) {
			left = append(left, p)
		}
	}
	return left
}

// with is what is in s or in o.
func (s partitions) with(o partitions) partitions {
	return setOf(append(slices.Clone(s), o...))
}

// apart says whether nothing is in both.
func (s partitions) apart(o partitions) bool { return !slices.ContainsFunc(s, o.has) }
