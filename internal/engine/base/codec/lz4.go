package codec

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format, version 1.6.
//
//	magic u32 | flags u8 | block size u8 | [content size u64] | header checksum u8
//	blocks: size u32, whose high bit tells "not compressed" | bytes | [checksum u32]
//	0 u32 | [checksum of the content u32]
const (
	lz4Magic         = 0x184d2204
	lz4Skippable     = 0x184d2a50 // and the 15 that follow: size u32, bytes to skip
	lz4Independent   = 1 << 5
	lz4BlockChecksum = 1 << 4
	lz4Size          = 1 << 3
	lz4Checksum      = 1 << 2
	lz4Plain         = 1 << 31
	lz4Window        = 64 << 10 // a block may refer to as many bytes before it
	// lz4Keep is the largest block buffer that is kept for reuse in a sync.Pool.
	lz4Keep = 256 << 10
)

var (
	errNotLZ4Frame = errors.New("not an lz4 frame")
	errLZ4Frame    = errors.New("malformed lz4 frame")
	errLZ4Checksum = errors.New("wrong checksum in an lz4 frame")
)

// lz4BlockMax is the largest block of the frame that src begins with, in bytes: 64 KiB to 4 MiB.
func lz4BlockMax(src []byte) int {
	if len(src) < 6 {
		return 4 << 20
	}
	return 64 << 10 << (2 * (max(4, int(src[5]>>4&7)) - 4))
}

// lz4Reader reads lz4 frames, a block at a time. The frame reader of the library takes two blocks
// from pools of its own, which keep some of them for each processor: blocks of 4 MiB that nothing
// has reserved.
type lz4Reader struct {
	src   []byte // compressed bytes not yet read
	flags byte
	most  int    // size of the largest block that a frame may have: that of the first frame
	max   int    // size of the frame's largest block
	size  uint64 // what the frame says of the bytes left in it, if it has lz4Size
	block []byte // decompressed bytes of the current block
	pos   int    // bytes of block already read
	// before are the last bytes before the current block, for frames whose blocks depend on others.
	before []byte
	hash   xxh32
	open   bool // within a frame
}

// reset starts over with src.
func (l *lz4Reader) reset(src []byte) error {
	if len(src) < 4 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errNotLZ4Frame
	}
	l.src, l.open, l.pos, l.block, l.before = src, false, 0, l.block[:0], l.before[:0]
	l.most = lz4BlockMax(src)
	return nil
}

// Read implements io.Reader.
func (l *lz4Reader) Read(p []byte) (int, error) {
	for l.pos == len(l.block) {
		step := l.next
		if !l.open {
			if len(l.src) == 0 {
				return 0, io.EOF
			}
			step = l.header
		}
		if err := step(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.block[l.pos:])
	l.pos += n
	return n, nil
}

// take removes n bytes from src.
func (l *lz4Reader) take(n int) ([]byte, error) {
	if n > len(l.src) {
		return nil, io.ErrUnexpectedEOF
	}
	b := l.src[:n]
	l.src = l.src[n:]
	return b, nil
}

func (l *lz4Reader) number() (uint32, error) {
	b, err := l.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// header reads the header of a frame, or a whole frame that is to be skipped.
func (l *lz4Reader) header() error {
	magic, err := l.number()
	if err != nil {
		return err
	}
	if magic&^15 == lz4Skippable {
		n, err := l.number()
		if err == nil {
			_, err = l.take(int(n))
		}
		return err
	}
	head := l.src
	b, err := l.take(2)
	switch {
	case err != nil:
		return err
	case magic != lz4Magic, b[0]>>6 != 1, b[0]&3 != 0, b[1]>>4 < 4, b[1]>>4 > 7, b[1]&15 != 0:
		return errLZ4Frame
	}
	if l.flags, l.max = b[0], 64<<10<<(2*(b[1]>>4-4)); l.max > l.most {
		return errLZ4Frame
	}
	if l.flags&lz4Size != 0 {
		if b, err = l.take(8); err != nil {
			return err
		}
		l.size = binary.LittleEndian.Uint64(b)
	}
	l.hash.reset()
	l.hash.write(head[:len(head)-len(l.src)])
	if b, err = l.take(1); err != nil {
		return err
	}
	if b[0] != byte(l.hash.sum()>>8) {
		return errLZ4Checksum
	}
	l.hash.reset()
	l.open, l.before = true, l.before[:0]
	return nil
}

// next decompresses the next block, or ends the frame.
func (l *lz4Reader) next() error {
	n, err := l.number()
	if err != nil {
		return err
	}
	if n == 0 {
		return l.end()
	}
	size := int(n &^ lz4Plain)
	if size > l.max {
		return errLZ4Frame
	}
	data, err := l.take(size)
	if err != nil {
		return err
	}
	if l.flags&lz4BlockChecksum != 0 {
		if err := l.checksum(data); err != nil {
			return err
		}
	}
	if l.flags&lz4Independent == 0 {
		l.before = append(l.before, l.block...)
		l.before = append(l.before[:0], l.before[max(0, len(l.before)-lz4Window):]...)
	}
	if l.pos = 0; cap(l.block) < l.max {
		l.block = make([]byte, l.max)
	}
	l.block = l.block[:l.max]
	if n&lz4Plain != 0 {
		n = uint32(copy(l.block, data))
	} else if size, err = lz4.UncompressBlockWithDict(data, l.block, l.before); err == nil {
		n = uint32(size)
	} else {
		n = 0
	}
	if l.block = l.block[:n]; l.flags&lz4Checksum != 0 {
		l.hash.write(l.block)
	}
	l.size -= uint64(n)
	return err
}

// checksum compares the checksum that follows with that of data.
func (l *lz4Reader) checksum(data []byte) error {
	want, err := l.number()
	if err != nil {
		return err
	}
	var h xxh32
	h.reset()
	if h.write(data); h.sum() != want {
		return errLZ4Checksum
	}
	return nil
}

// end checks the whole content of the frame.
func (l *lz4Reader) end() error {
	l.open, l.pos, l.block = false, 0, l.block[:0]
	if l.flags&lz4Checksum != 0 {
		want, err := l.number()
		if err != nil {
			return err
		}
		if l.hash.sum() != want {
			return errLZ4Checksum
		}
	}
	if l.flags&lz4Size != 0 && l.size != 0 {
		return errLZ4Frame
	}
	return nil
}

// xxh32 is the hash XXH32 with seed 0, which only lz4 frames use.
type xxh32 struct {
	lanes [4]uint32
	rest  [16]byte
	n     uint64 // bytes written
}

const (
	xxPrime1 uint32 = 0x9e3779b1
	xxPrime2 uint32 = 0x85ebca77
	xxPrime3 uint32 = 0xc2b2ae3d
	xxPrime4 uint32 = 0x27d4eb2f
	xxPrime5 uint32 = 0x165667b1
)

func (h *xxh32) reset() {
	one := xxPrime1 // additions of constants may not overflow
	*h = xxh32{lanes: [4]uint32{one + xxPrime2, xxPrime2, 0, -one}}
}

func (h *xxh32) write(b []byte) {
	used := int(h.n % 16)
	h.n += uint64(len(b))
	if used > 0 {
		n := copy(h.rest[used:], b)
		if b = b[n:]; used+n < 16 {
			return
		}
		h.blocks(h.rest[:])
	}
	h.blocks(b)
	copy(h.rest[:], b[len(b)&^15:])
}

// blocks adds the whole blocks of b.
func (h *xxh32) blocks(b []byte) {
	v0, v1, v2, v3 := h.lanes[0], h.lanes[1], h.lanes[2], h.lanes[3]
	for ; len(b) >= 16; b = b[16:] {
		v0 = bits.RotateLeft32(v0+binary.LittleEndian.Uint32(b)*xxPrime2, 13) * xxPrime1
		v1 = bits.RotateLeft32(v1+binary.LittleEndian.Uint32(b[4:])*xxPrime2, 13) * xxPrime1
		v2 = bits.RotateLeft32(v2+binary.LittleEndian.Uint32(b[8:])*xxPrime2, 13) * xxPrime1
		v3 = bits.RotateLeft32(v3+binary.LittleEndian.Uint32(b[12:])*xxPrime2, 13) * xxPrime1
	}
	h.lanes = [4]uint32{v0, v1, v2, v3}
}

func (h *xxh32) sum() uint32 {
	sum := h.lanes[2] + xxPrime5
	if h.n >= 16 {
		sum = 0
		for i, turn := range []int{1, 7, 12, 18} {
			sum += bits.RotateLeft32(h.lanes[i], turn)
		}
	}
	sum += uint32(h.n)
	b := h.rest[:h.n%16]
	for ; len(b) >= 4; b = b[4:] {
		sum = bits.RotateLeft32(sum+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		sum = bits.RotateLeft32(sum+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	sum = (sum ^ sum>>15) * xxPrime2
	sum = (sum ^ sum>>13) * xxPrime3
	return sum ^ sum>>16
}
