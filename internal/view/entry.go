package view

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// entry is what the view knows of one record. Its key is never changed.
type entry struct {
	key    []byte
	topic  uint32 // the number that the file gave the topic
	part   uint32
	offset int64
	time   int64 // ms
	flags  uint8
}

// The flags of an entry.
const (
	// flagDeleted: the record is a tombstone.
	flagDeleted = 1 << 0
	// flagGone: somebody found the record gone. The entry stays and hides those before it until a merge with the oldest run.
	flagGone = 1 << 1
)

func (e *entry) gone() bool { return e.flags&flagGone != 0 }

func (e *entry) deleted() bool { return e.flags&flagDeleted != 0 }

// compare orders entries by topic, key, partition and offset. Two that are equal speak of the same record.
func compare(a, b *entry) int {
	if c := compareKey(a, b); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.offset, b.offset))
}

// compareKey orders by topic and key alone.
func compareKey(a, b *entry) int {
	if c := cmp.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return bytes.Compare(a.key, b.key)
}

// samePart says whether two entries are of one key in one partition.
func samePart(a, b *entry) bool {
	return a.part == b.part && a.topic == b.topic && bytes.Equal(a.key, b.key)
}

// find returns where e is, or would be, in sorted entries.
func find(list []entry, e *entry) int {
	i, _ := slices.BinarySearchFunc(list, e, func(a entry, b *entry) int { return compare(&a, b) })
	return i
}

// lowest and highest stand before and behind all entries of a key in partitions from part on, or up to it.
func lowest(topic uint32, key []byte, part uint32) entry {
	return entry{key: key, topic: topic, part: part}
}

func highest(topic uint32, key []byte, part uint32) entry {
	return entry{key: key, topic: topic, part: part, offset: math.MaxInt64}
}

func (e *entry) public() Entry {
	return Entry{Key: append([]byte{}, e.key...), Partition: e.part, Offset: e.offset, Timestamp: e.time, Deleted: e.deleted()}
}

// mergeTwo merges two sorted lists into a new one; where both speak of a record, newer is believed.
func mergeTwo(older, newer []entry) []entry {
	out := make([]entry, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch c := compare(&older[0], &newer[0]); {
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

// sortBatch sorts entries; of those that speak of one record it keeps one.
func sortBatch(list []entry) []entry {
	slices.SortFunc(list, func(a, b entry) int { return compare(&a, &b) })
	return slices.CompactFunc(list, func(a, b entry) bool { return compare(&a, &b) == 0 })
}
