package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	// BlockBytes is the alignment of batches. A block that holds acknowledged bytes is never written
	// again.
	BlockBytes = 4096

	headBytes  = 64
	frameBytes = 16 // of a frame in the table, without its key

	// framesMax and keyBytesMax bound the table, which a reader allocates before it can check it.
	framesMax   = 1024
	keyBytesMax = 512
	tableMax    = framesMax * (frameBytes + keyBytesMax)
	sizeMax     = 1 << 40 // of a body
)

var (
	batchMagic = []byte("SEBJRNL\x01")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Kinds of batches.
const (
	kindObjects   = 1
	kindEndOfFile = 2 // no frames: the next batch is in the next file
)

// Kinds of frames.
const (
	frameInline = 1 // the body follows the table
	frameFile   = 2 // the body is a file of its own
)

// Run names one journal: random bytes that the process drew when it claimed the folder.
type Run [16]byte

func (r Run) String() string { return hex.EncodeToString(r[:]) }

// Position is the start of a batch: a file and an offset in it. The zero Position is before every
// batch.
type Position struct {
	File   uint64
	Offset int64
}

// Before reports whether p is nearer to the start of the journal than q.
func (p Position) Before(q Position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

func (p Position) String() string { return fmt.Sprintf("file %d offset %d", p.File, p.Offset) }

// frame is an entry of a batch's table.
type frame struct {
	key    string
	kind   byte
	crc    uint32 // of the body of an inline frame
	size   int64  // of the body
	offset int64  // of an inline body in the journal file
}

// batch is a decoded head and table.
type batch struct {
	at     Position
	kind   uint32
	length int64 // without padding
	frames []frame
}

// next is where the batch after b in the same file begins.
func (b *batch) next() int64 { return b.at.Offset + padded(b.length) }

func padded(n int64) int64 { return (n + BlockBytes - 1) &^ (BlockBytes - 1) }

// appendHead appends the head and the table of a batch to dst and returns the length of the batch
// without padding. Offsets of the frames are set.
func appendHead(dst []byte, run Run, at Position, kind uint32, frames []frame) (head []byte, length int64) {
	start := len(dst)
	dst = append(dst, make([]byte, headBytes)...)
	for i := range frames {
		f := &frames[i]
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.key)))
		dst = append(dst, f.kind, 0)
		dst = binary.LittleEndian.AppendUint32(dst, f.crc)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(f.size))
		dst = append(dst, f.key...)
	}
	length = locate(at.Offset+int64(len(dst)-start), frames) - at.Offset
	h := dst[start:]
	copy(h, batchMagic)
	copy(h[8:], run[:])
	binary.LittleEndian.PutUint64(h[24:], at.File)
	binary.LittleEndian.PutUint64(h[32:], uint64(at.Offset))
	binary.LittleEndian.PutUint32(h[40:], kind)
	binary.LittleEndian.PutUint32(h[44:], uint32(len(frames)))
	binary.LittleEndian.PutUint64(h[48:], uint64(length))
	binary.LittleEndian.PutUint32(h[56:], uint32(len(h)-headBytes))
	binary.LittleEndian.PutUint32(h[60:], headSum(h))
	return dst, length
}

// locate sets the offsets of the bodies, which follow each other from offset at, and returns where
// they end.
func locate(at int64, frames []frame) int64 {
	for i := range frames {
		frames[i].offset = at
		if frames[i].kind == frameInline {
			at += frames[i].size
		}
	}
	return at
}

// headSum is the checksum of head and table without the checksum itself.
func headSum(h []byte) uint32 {
	return crc32.Update(crc32.Checksum(h[:60], castagnoli), castagnoli, h[headBytes:])
}

// errInvalid: the bytes are no batch of this journal at this position.
var errInvalid = errors.New("no valid batch")

// headLength checks the fixed part of a head and returns the length of head and table. It compares
// run, file and offset exactly, because a record may hold a copy of a journal.
func headLength(h []byte, run Run, at Position) (int64, error) {
	switch {
	case len(h) < headBytes || !bytes.Equal(h[:8], batchMagic) || !bytes.Equal(h[8:24], run[:]):
		return 0, errInvalid
	case binary.LittleEndian.Uint64(h[24:]) != at.File || binary.LittleEndian.Uint64(h[32:]) != uint64(at.Offset):
		return 0, errInvalid
	}
	table := binary.LittleEndian.Uint32(h[56:])
	if table > tableMax {
		return 0, errInvalid
	}
	return headBytes + int64(table), nil
}

// decodeHead decodes a whole head with its table.
func decodeHead(h []byte, at Position) (*batch, error) {
	if binary.LittleEndian.Uint32(h[60:]) != headSum(h) {
		return nil, errInvalid
	}
	b := &batch{at: at, kind: binary.LittleEndian.Uint32(h[40:]), length: int64(binary.LittleEndian.Uint64(h[48:]))}
	count := binary.LittleEndian.Uint32(h[44:])
	if count > framesMax || b.kind == 0 || b.kind > kindEndOfFile {
		return nil, errInvalid
	}
	b.frames = make([]frame, 0, count)
	table := h[headBytes:]
	for range count {
		if len(table) < frameBytes {
			return nil, errInvalid
		}
		f := frame{kind: table[2], crc: binary.LittleEndian.Uint32(table[4:]), size: int64(binary.LittleEndian.Uint64(table[8:]))}
		n := int(binary.LittleEndian.Uint16(table))
		if n == 0 || n > keyBytesMax || len(table) < frameBytes+n || f.kind == 0 || f.kind > frameFile || f.size < 0 || f.size > sizeMax {
			return nil, errInvalid
		}
		f.key = string(table[frameBytes : frameBytes+n])
		table = table[frameBytes+n:]
		b.frames = append(b.frames, f)
	}
	if len(table) != 0 || locate(at.Offset+int64(len(h)), b.frames)-at.Offset != b.length {
		return nil, errInvalid
	}
	return b, nil
}

// The claim and the end are lines of text, so that a person who looks at the folder understands
// them. Their checksum covers the line before it.
const (
	claimWords = "seb journal 1"
	endWords   = "seb journal end 1"
)

func sealed(line string) []byte {
	return fmt.Appendf(nil, "%s %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

// unsealed returns the fields after words of a line that sealed made.
func unsealed(b []byte, words string, fields int) ([]string, bool) {
	line, sum, ok := cutLast(strings.TrimSuffix(string(b), "\n"))
	if !ok || string(sealed(line)) != string(b) || sum == "" {
		return nil, false
	}
	rest, ok := strings.CutPrefix(line, words+" ")
	all := strings.Split(rest, " ")
	return all, ok && len(all) == fields
}

func cutLast(s string) (before, last string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func encodeClaim(run Run) []byte { return sealed(claimWords + " " + run.String()) }

// ClaimBytes is the size of a claim.
var ClaimBytes = int64(len(encodeClaim(Run{})))

// DecodeClaim returns the run that a claim names; ok is false if b is no claim.
func DecodeClaim(b []byte) (run Run, ok bool) {
	fields, ok := unsealed(b, claimWords, 1)
	if !ok {
		return run, false
	}
	return run, run.parse(fields[0])
}

func (r *Run) parse(s string) bool {
	n, err := hex.Decode(r[:], []byte(s[:min(len(s), 2*len(r))]))
	return err == nil && n == len(r) && len(s) == 2*len(r)
}

func encodeEnd(run Run, end Position) []byte {
	return sealed(fmt.Sprintf("%s %s %d %d", endWords, run, end.File, end.Offset))
}

func decodeEnd(b []byte, run Run) (end Position, ok bool) {
	fields, ok := unsealed(b, endWords, 3)
	if !ok || fields[0] != run.String() {
		return end, false
	}
	file, err := strconv.ParseUint(fields[1], 10, 64)
	offset, err2 := strconv.ParseInt(fields[2], 10, 64)
	return Position{File: file, Offset: offset}, err == nil && err2 == nil && offset >= 0
}

// A tombstone in a .gone file:
//
//	magic u32 | checksum u32 of what follows | offset of the batch u64 | key length u16 | key
const (
	goneMagic = 0x454e4f47 // "GONE"
	goneBytes = 18
)

func appendGone(dst []byte, batch int64, key string) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, goneMagic)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(batch))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(key)))
	dst = append(dst, key...)
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(dst[start+8:], castagnoli))
	return dst
}

// decodeGone calls found for each tombstone in b and returns how many bytes need not be read again.
// A power failure can leave any bytes in the file, so it searches for the next tombstone after
// invalid ones.
func decodeGone(b []byte, found func(batch int64, key string)) (used int) {
	for used+goneBytes <= len(b) {
		t := b[used:]
		n := int(binary.LittleEndian.Uint16(t[16:]))
		if binary.LittleEndian.Uint32(t) != goneMagic || n == 0 || n > keyBytesMax {
			used++
			continue
		}
		if len(t) < goneBytes+n {
			return used // may be in the middle of an append
		}
		if binary.LittleEndian.Uint32(t[4:]) != crc32.Checksum(t[8:goneBytes+n], castagnoli) {
			used++
			continue
		}
		found(int64(binary.LittleEndian.Uint64(t[8:])), string(t[goneBytes:goneBytes+n]))
		used += goneBytes + n
	}
	return used
}
