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
func (x *Encoder) Seal(id int64, nonce uint32) []byte {
	x.buf = binary.LittleEndian.AppendUint32(x.buf, blockSum(id, nonce, x.buf))
	return x.buf
}

// blockSum covers the ID of a block, so that a block stored under the ID of another is detected. It
// covers the nonce of the run, because a file that lost its newest state uses the IDs of runs again.
func blockSum(id int64, nonce uint32, b []byte) uint32 {
	var name [12]byte
	binary.LittleEndian.PutUint64(name[:], uint64(id))
	binary.LittleEndian.PutUint32(name[8:], nonce)
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

// bodyOf checks the checksum of the block stored under id and returns its entries as bytes, which
// alias b. Error: localdb.ErrDamaged.
func bodyOf(id int64, nonce uint32, b []byte) ([]byte, error) {
	if len(b) <= crcSize {
		return nil, localdb.Damaged("block %d has only %d bytes", id, len(b))
	}
	body := b[:len(b)-crcSize]
	if binary.LittleEndian.Uint32(b[len(body):]) != blockSum(id, nonce, body) {
		return nil, localdb.Damaged("wrong checksum of block %d", id)
	}
	return body, nil
}

// Decode checks the block stored under id and returns its entries, which do not alias b.
func Decode(id int64, nonce uint32, b []byte) ([]RunEntry, error) {
	body, err := bodyOf(id, nonce, b)
	if err != nil {
		return nil, err
	}
	return decode(id, body)
}

// decode checks and returns the entries of a body, which they do not alias.
func decode(id int64, body []byte) ([]RunEntry, error) {
	entries, keys := 0, 0
	d := decoder{id: id, b: body}
	for ; d.next(); entries++ {
		if !d.same {
			keys += len(d.e.Key)
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	list, arena := make([]RunEntry, 0, entries), make([]byte, 0, keys)
	for d := (decoder{b: body}); d.next(); {
		e := d.e
		if d.same {
			e.Key = list[len(list)-1].Key
		} else {
			from := len(arena)
			arena = append(arena, e.Key...)
			e.Key = arena[from:len(arena):len(arena)]
		}
		list = append(list, e)
	}
	return list, nil
}

// lastBefore returns the last entry before e in a body, or nil. It checks the entries up to there.
func lastBefore(id int64, body []byte, e *RunEntry) (*RunEntry, error) {
	d := decoder{id: id, b: body}
	for d.next() {
		if Compare(&d.e, e) >= 0 {
			d.e, d.count = d.last, d.count-1
			break
		}
	}
	if d.err != nil || d.count == 0 {
		return nil, d.err
	}
	found := d.e
	found.Key = bytes.Clone(found.Key)
	return &found, nil
}

// decoder reads the entries of a block one by one, and checks them.
type decoder struct {
	id      int64
	b       []byte
	e, last RunEntry // the current entry and the one before; the next call reuses the memory of last
	same    bool     // both have the same topic, key and partition
	count   int      // of entries up to the current one
	bad     bool     // the current entry is invalid
	err     error    // localdb.ErrDamaged
	spare   []byte   // memory for a key
}

// next goes to the next entry. It returns false at the end, and then err says whether the block is
// invalid.
func (d *decoder) next() bool {
	if len(d.b) == 0 {
		return false
	}
	d.last = d.e
	flags := d.b[0]
	d.b = d.b[1:]
	d.e.Flags, d.same = flags&^sameFlag, flags&sameFlag != 0
	if d.same {
		d.e.Offset += int64(d.uvarint())
	} else {
		topic, part := d.uvarint(), d.uvarint()
		d.e.Topic, d.e.Part = uint32(topic), uint32(part)
		d.bad = d.bad || topic>>32 != 0 || part>>32 != 0
		d.key()
		d.e.Offset = int64(d.uvarint())
	}
	t, n := binary.Varint(d.b)
	if n <= 0 || d.bad {
		return d.fail("invalid entry %d of block %d", d.count, d.id)
	}
	d.b = d.b[n:]
	d.e.Time += t
	if d.count > 0 && Compare(&d.last, &d.e) >= 0 {
		return d.fail("entry %d of block %d is out of order", d.count, d.id)
	}
	d.count++
	return true
}

func (d *decoder) fail(format string, args ...any) bool {
	d.b, d.err = nil, localdb.Damaged(format, args...)
	return false
}

// key reads a key that shares a prefix with the previous one. That one stays, because the last entry
// has it.
func (d *decoder) key() {
	shared, rest := d.uvarint(), d.uvarint()
	last := d.e.Key
	if d.bad || shared > uint64(len(last)) || rest > uint64(len(d.b)) {
		d.bad = true
		return
	}
	d.e.Key = append(append(d.spare[:0], last[:shared]...), d.b[:rest]...)
	d.spare = last
	d.b = d.b[rest:]
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
