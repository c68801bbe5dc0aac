package keyindex

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
)

// blockTarget is the size in bytes that ends a block: the entry that reaches it is the last. Nearly
// all blocks then fill a page of the file.
const blockTarget = 3900

// sameFlag marks an entry with the topic, key and partition of the previous entry in the block; it
// exists only in the encoding.
const sameFlag = 1 << 7

const crcSize = 4

var castagnoliOfRuns = crc32.MakeTable(crc32.Castagnoli)

// Encoder encodes a block of sorted entries. The zero Encoder is ready for use.
type Encoder struct {
	buf   []byte
	last  RunEntry
	count int
}

// Add adds the next entry, whose key it references until the next call.
func (x *Encoder) Add(e *RunEntry) {
	flags := e.Flags
	same := x.count > 0 && SamePart(e, &x.last)
	if same {
		flags |= sameFlag
	}
	b := append(x.buf, flags)
	if same {
		b = binary.AppendUvarint(b, uint64(e.Offset-x.last.Offset))
	} else {
		b = binary.AppendUvarint(b, uint64(e.Topic))
		b = binary.AppendUvarint(b, uint64(e.Part))
		shared := sharedPrefix(x.last.Key, e.Key)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(e.Key)-shared))
		b = append(b, e.Key[shared:]...)
		b = binary.AppendUvarint(b, uint64(e.Offset))
	}
	x.buf = binary.AppendVarint(b, e.Time-x.last.Time)
	x.last = *e
	x.count++
}

// Seal completes the block that will be stored under id and returns it.
func (x *Encoder) Seal(id int64) []byte {
	x.buf = binary.LittleEndian.AppendUint32(x.buf, blockSum(id, x.buf))
	return x.buf
}

// blockSum covers the ID of a block, so that a block stored under the ID of another is detected.
func blockSum(id int64, b []byte) uint32 {
	var name [8]byte
	binary.LittleEndian.PutUint64(name[:], uint64(id))
	return crc32.Update(crc32.Checksum(name[:], castagnoliOfRuns), castagnoliOfRuns, b)
}

func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Decode returns the entries of the block stored under id, or localdb.ErrDamaged. They do not alias
// b.
func Decode(id int64, b []byte) ([]RunEntry, error) {
	if len(b) < crcSize {
		return nil, localdb.Damaged("block %d has only %d bytes", id, len(b))
	}
	body := b[:len(b)-crcSize]
	if binary.LittleEndian.Uint32(b[len(body):]) != blockSum(id, body) {
		return nil, localdb.Damaged("wrong checksum of block %d", id)
	}
	d := decoder{b: body}
	list := make([]RunEntry, 0, len(body)/16+1)
	var last RunEntry
	for len(d.b) > 0 {
		e := d.entry(&last)
		if d.bad || len(list) > 0 && Compare(&last, &e) >= 0 {
			return nil, localdb.Damaged("invalid entry %d of block %d", len(list), id)
		}
		list = append(list, e)
		last = e
	}
	return list, nil
}

// decoder reads the fields of a block; once bad is set it returns zeros.
type decoder struct {
	b     []byte
	arena []byte // memory of the keys
	bad   bool
}

func (d *decoder) entry(last *RunEntry) RunEntry {
	flags := d.b[0]
	d.b = d.b[1:]
	e := RunEntry{Flags: flags &^ sameFlag}
	if flags&sameFlag != 0 {
		e.Topic, e.Part, e.Key = last.Topic, last.Part, last.Key
		e.Offset = last.Offset + int64(d.uvarint())
	} else {
		topic, part := d.uvarint(), d.uvarint()
		e.Topic, e.Part = uint32(topic), uint32(part)
		d.bad = d.bad || topic>>32 != 0 || part>>32 != 0
		e.Key = d.key(last.Key)
		e.Offset = int64(d.uvarint())
	}
	t, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return e
	}
	d.b = d.b[n:]
	e.Time = last.Time + t
	return e
}

// key reads a key that shares a prefix with the previous one.
func (d *decoder) key(last []byte) []byte {
	shared, rest := d.uvarint(), d.uvarint()
	if d.bad || shared > uint64(len(last)) || rest > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	if n := int(shared + rest); d.arena == nil || cap(d.arena)-len(d.arena) < n {
		d.arena = make([]byte, 0, max(n, 2*len(d.b)))
	}
	from := len(d.arena)
	d.arena = append(append(d.arena, last[:shared]...), d.b[:rest]...)
	d.b = d.b[rest:]
	return d.arena[from:len(d.arena):len(d.arena)]
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

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
