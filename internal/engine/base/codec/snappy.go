package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
)

// snappyRatioMax bounds the decompressed size that a snappy block may claim: its densest element
// encodes 64 bytes in 3.
const snappyRatioMax = 24

var (
	errSnappyClaim = errors.New("snappy block claims an impossible length")
	errXerial      = errors.New("malformed xerial framing")
)

// snappyBlockMax is the size of the largest block of src when decompressed, if src is well formed.
func snappyBlockMax(src []byte) (most int64) {
	claim := func(block []byte) {
		if n, err := snappy.DecodedLen(block); err == nil {
			most = max(most, min(int64(n), snappyRatioMax*int64(len(block))))
		}
	}
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		claim(src)
		return most
	}
	for src = src[min(xerialHeadSize, len(src)):]; len(src) > 4; {
		n := min(int64(binary.BigEndian.Uint32(src)), int64(len(src)-4))
		claim(src[4 : 4+n])
		src = src[4+n:]
	}
	return most
}

// xerialMagic begins the framing of Java's snappy streams. Data without it is a single raw block.
//
//	magic | version i32 | lowest compatible version i32 | chunks: length i32, raw snappy block
const (
	xerialMagic    = "\x82SNAPPY\x00"
	xerialHeadSize = len(xerialMagic) + 8
)

// snappyReader reads snappy data, raw or in xerial framing, a block at a time.
type snappyReader struct {
	src   []byte // compressed bytes not yet read
	raw   bool
	left  int64  // bytes that further blocks may decompress to
	block []byte // decompressed bytes of the current block
	pos   int    // bytes of block already read
}

// snappyKeep is the largest block buffer that is kept for reuse.
const snappyKeep = 1 << 20

// reset starts over with src and allows it to decompress to at most limit bytes.
func (s *snappyReader) reset(src []byte, limit int64) error {
	s.raw, s.pos, s.left = true, 0, limit
	s.block = s.block[:0]
	if bytes.HasPrefix(src, []byte(xerialMagic)) {
		if len(src) < xerialHeadSize {
			return errXerial
		}
		src, s.raw = src[xerialHeadSize:], false
	} else if len(src) == 0 {
		return io.ErrUnexpectedEOF
	}
	s.src = src
	return nil
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (int, error) {
	for s.pos == len(s.block) {
		if len(s.src) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block[s.pos:])
	s.pos += n
	return n, nil
}

// next decodes the next block. It checks the block's claimed length against the ratio and the limit
// before it allocates.
func (s *snappyReader) next() error {
	chunk := s.src
	if !s.raw {
		if len(chunk) < 4 {
			return errXerial
		}
		n := int64(binary.BigEndian.Uint32(chunk))
		if chunk = chunk[4:]; n > int64(len(chunk)) {
			return errXerial
		}
		chunk = chunk[:n]
		s.src = s.src[4:]
	}
	s.src = s.src[len(chunk):]
	n, err := snappy.DecodedLen(chunk)
	if err != nil {
		return err
	}
	if n > snappyRatioMax*len(chunk) {
		return errSnappyClaim
	}
	if s.left -= int64(n); s.left < 0 {
		return ErrLimit
	}
	s.pos = 0
	// Strict rejects s2's extensions, because clients of plain snappy get these bytes unchanged.
	s.block, err = snappy.DecodeStrict(s.block[:cap(s.block)], chunk)
	if err != nil {
		s.block = nil
	}
	return err
}
