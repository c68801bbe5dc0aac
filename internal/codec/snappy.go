package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
)

// snappyRatioMax bounds what a snappy block may claim to hold: its densest element makes 64 bytes of 3.
const snappyRatioMax = 24

var (
	errSnappyClaim = errors.New("snappy length can not be true")
	errXerial      = errors.New("malformed xerial framing")
)

// snappyBlockMax is the largest block of snappy data, if that is well formed.
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

// xerialMagic begins the framing of Java's snappy streams: then version i32, lowest compatible version i32, and chunks of
// length i32 (big-endian) and a raw snappy block. Without it the data is a single raw block.
const (
	xerialMagic    = "\x82SNAPPY\x00"
	xerialHeadSize = len(xerialMagic) + 8
)

// snappyReader reads snappy data, raw or in xerial framing, a block at a time.
type snappyReader struct {
	src   []byte // what is left
	raw   bool
	left  int64  // bytes that the blocks to come may hold
	block []byte // the current block's bytes
	pos   int    // how many of them were read
}

// snappyKeep is the largest block that is kept for the next use.
const snappyKeep = 1 << 20

// reset starts over with src, of which at most limit bytes are decompressed.
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

// next decodes the next block. It allocates only after the block's claim was found possible and allowed.
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
	// Strict, because other clients get these bytes as they are and know nothing of s2's additions.
	s.block, err = snappy.DecodeStrict(s.block[:cap(s.block)], chunk)
	if err != nil {
		s.block = nil
	}
	return err
}
