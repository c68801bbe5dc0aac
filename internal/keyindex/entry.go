package keyindex

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// RunEntry is the entry of one record. Its key is immutable.
type RunEntry struct {
	Key    []byte
	Topic  uint32 // a number that the caller assigns to the topic
	Part   uint32
	Offset int64
	Time   int64 // ms
	Flags  uint8
}

// The flags of an entry.
const (
	// Deleted: the record is a tombstone.
	Deleted = 1 << 0
	// Gone: the record was found missing. The entry hides those of older sources for the same
	// record.
	Gone = 1 << 1
)

// IsGone reports whether the record was found missing.
func (e *RunEntry) IsGone() bool { return e.Flags&Gone != 0 }

// IsDeleted reports whether the record is a tombstone.
func (e *RunEntry) IsDeleted() bool { return e.Flags&Deleted != 0 }

// Compare orders entries by topic, key, partition and offset. Equal entries belong to the same
// record.
func Compare(a, b *RunEntry) int {
	if c := CompareKey(a, b); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Offset, b.Offset))
}

// CompareKey orders by topic and key only.
func CompareKey(a, b *RunEntry) int {
	if c := cmp.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return bytes.Compare(a.Key, b.Key)
}

// SamePart reports whether two entries have the same key in the same partition.
func SamePart(a, b *RunEntry) bool {
	return a.Part == b.Part && a.Topic == b.Topic && bytes.Equal(a.Key, b.Key)
}

// Lowest sorts before, or equal to, all entries of a key in partitions from part on.
func Lowest(topic uint32, key []byte, part uint32) RunEntry {
	return RunEntry{Key: key, Topic: topic, Part: part}
}

// Highest sorts after all entries of a key in partitions up to part.
func Highest(topic uint32, key []byte, part uint32) RunEntry {
	return RunEntry{Key: key, Topic: topic, Part: part, Offset: math.MaxInt64}
}

// find returns the position of e in sorted entries, or where it would be inserted.
func find(list []RunEntry, e *RunEntry) int {
	i, _ := slices.BinarySearchFunc(list, e, func(a RunEntry, b *RunEntry) int { return Compare(&a, b) })
	return i
}

// MergeTwo merges two sorted lists into a new one; for a record in both the newer list decides.
func MergeTwo(older, newer []RunEntry) []RunEntry {
	out := make([]RunEntry, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch c := Compare(&older[0], &newer[0]); {
		case c < 0:
			out, older = append(out, older[0]), older[1:]
		case c > 0:
			out, newer = append(out, newer[0]), newer[1:]
		default:
			older = older[1:]
		}
	}
	return append(append(out, older...), newer...)
}

// Sort sorts entries in place and keeps one entry per record.
func Sort(list []RunEntry) []RunEntry {
	slices.SortFunc(list, func(a, b RunEntry) int { return Compare(&a, &b) })
	return slices.CompactFunc(list, func(a, b RunEntry) bool { return Compare(&a, &b) == 0 })
}
