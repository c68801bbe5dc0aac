package view

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// blockTarget is the size in bytes at which a block is closed: the entry that reaches it is its last. With it nearly all
// blocks fill a page of the file.
const blockTarget = 3900

// sameFlag marks an entry of the same topic, key and partition as the one before it in the block; it is not kept.
const sameFlag = 1 << 7

const crcSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: what is in the file is not what was written.
var errDamaged = errors.New("view file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
}

// encoder makes a block of sorted entries (FORMAT.md).
type encoder struct {
	buf   []byte
	last  entry
	first entry
	count int
}

func (x *encoder) reset() { *x = encoder{buf: x.buf[:0]} }

func (x *encoder) add(e *entry) {
	flags := e.flags
	same := x.count > 0 && samePart(e, &x.last)
	if same {
		flags |= sameFlag
	}
	b := append(x.buf, flags)
	if same {
		b = binary.AppendUvarint(b, uint64(e.offset-x.last.offset))
	} else {
		b = binary.AppendUvarint(b, uint64(e.topic))
		b = binary.AppendUvarint(b, uint64(e.part))
		shared := sharedPrefix(x.last.key, e.key)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(e.key)-shared))
		b = append(b, e.key[shared:]...)
		b = binary.AppendUvarint(b, uint64(e.offset))
	}
	x.buf = binary.AppendVarint(b, e.time-x.last.time)
	if x.count == 0 {
		x.first = *e
	}
	x.last = *e
	x.count++
}

// seal ends the block that will be stored under id. It is valid until the next reset.
func (x *encoder) seal(id int64) []byte {
	x.buf = binary.LittleEndian.AppendUint32(x.buf, blockSum(id, x.buf))
	return x.buf
}

// blockSum covers the name of a block too, so that one in the place of another is found.
func blockSum(id int64, b []byte) uint32 {
	var name [8]byte
	binary.LittleEndian.PutUint64(name[:], uint64(id))
	return crc32.Update(crc32.Checksum(name[:], castagnoli), castagnoli, b)
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

// decodeBlock returns the entries of the block stored under id, or errDamaged. They do not alias b.
func decodeBlock(id int64, b []byte) ([]entry, error) {
	if len(b) < crcSize {
		return nil, damaged("block %d of %d bytes", id, len(b))
	}
	body := b[:len(b)-crcSize]
	if binary.LittleEndian.Uint32(b[len(body):]) != blockSum(id, body) {
		return nil, damaged("checksum of block %d", id)
	}
	d := decoder{b: body}
	list := make([]entry, 0, len(body)/16+1)
	var last entry
	for len(d.b) > 0 {
		e := d.entry(&last)
		if d.bad || len(list) > 0 && compare(&last, &e) >= 0 {
			return nil, damaged("entry %d of block %d", len(list), id)
		}
		list = append(list, e)
		last = e
	}
	return list, nil
}

// decoder reads the fields of a block; once bad it gives zeros.
type decoder struct {
	b     []byte
	arena []byte // where keys are put together
	bad   bool
}

func (d *decoder) entry(last *entry) entry {
	flags := d.b[0]
	d.b = d.b[1:]
	e := entry{flags: flags &^ sameFlag}
	if flags&sameFlag != 0 {
		e.topic, e.part, e.key = last.topic, last.part, last.key
		e.offset = last.offset + int64(d.uvarint())
	} else {
		topic, part := d.uvarint(), d.uvarint()
		e.topic, e.part = uint32(topic), uint32(part)
		d.bad = d.bad || topic>>32 != 0 || part>>32 != 0
		e.key = d.key(last.key)
		e.offset = int64(d.uvarint())
	}
	t, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return e
	}
	d.b = d.b[n:]
	e.time = last.time + t
	return e
}

// key reads a key that shares its beginning with the one before.
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
