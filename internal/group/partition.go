package group

import (
	"bytes"
	"cmp"
	"slices"
)

// Partition is a partition of a topic.
type Partition struct {
	Topic  [16]byte
	Number int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Number, b.Number))
}

// partitions is a sorted set. The functions below return new sets.
type partitions []Partition

// setOf builds a set from a client's list, which has any order.
func setOf(list []Partition) partitions {
	own := slices.Clone(list)
	slices.SortFunc(own, comparePartitions)
	return slices.Compact(own)
}

func (s partitions) has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(s, p, comparePartitions)
	return ok
}

// intersect is the intersection of s and o.
func (s partitions) intersect(o partitions) partitions {
	return s.filter(o.has)
}

// without is s minus o.
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

// union is the union of s and o.
func (s partitions) union(o partitions) partitions {
	return setOf(append(slices.Clone(s), o...))
}

// disjoint reports whether s and o are disjoint.
func (s partitions) disjoint(o partitions) bool { return !slices.ContainsFunc(s, o.has) }
