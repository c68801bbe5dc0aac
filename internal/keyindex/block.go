package keyindex

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sebbroker/seb/internal/localdb"
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

// reset starts another block in the same memory.
func (x *Encoder) reset() { *x = Encoder{buf: x.buf[:0]} }

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
