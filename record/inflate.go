package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// zstdWindowMax is the largest window a zstd frame may ask for; RFC 8878 recommends that decoders support 8 MiB.
	zstdWindowMax = 8 << 20
	// snappyRatioMax bounds what a snappy block may claim to hold: its densest element makes 64 bytes of 3.
	snappyRatioMax = 24
	scanBuffer     = 16 << 10

	// InflatersMax is how many batches are decompressed at once in the process; others wait for their turn. A zstd frame may
	// ask for a window of 8 MiB, so without it many small requests could take any amount of memory, each of them suspended
	// in the middle of its work.
	InflatersMax = 4
)

var inflateTurns = make(chan struct{}, InflatersMax)

var (
	errInflated    = errors.New("more than allowed")
	errTrailing    = errors.New("bytes after the end of the compressed data")
	errSnappyClaim = errors.New("snappy length can not be true")
	errXerial      = errors.New("malformed xerial framing")
	errNotLZ4Frame = errors.New("not an lz4 frame")
	errCodec       = errors.New("unknown codec")
)

// inflater decompresses the records of one batch as a stream. It gives errInflated as soon as there is more than limit
// bytes, whatever the data claims. It is pooled per codec, because a zstd decoder holds on to its window.
type inflater struct {
	codec  Compression
	src    bytes.Reader
	stream io.Reader // one of the following
	gzip   gzip.Reader
	zstd   *zstd.Decoder
	lz4    *lz4.Reader
	snappy snappyReader
	buf    *bufio.Reader // over the inflater itself, for scans
	left   int64         // bytes still allowed
}

var inflaters [Zstd + 1]sync.Pool

// openInflater returns an inflater of src, to be given back with close. It waits while InflatersMax are open, so nobody may
// wait for anything else before closing one.
func openInflater(codec Compression, src []byte, limit int64) (*inflater, error) {
	if codec == None || codec > Zstd {
		return nil, errCodec
	}
	inflateTurns <- struct{}{}
	f, _ := inflaters[codec].Get().(*inflater)
	if f == nil {
		f = &inflater{codec: codec}
	}
	f.src.Reset(src)
	f.left = limit
	if err := f.open(src); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *inflater) open(src []byte) (err error) {
	switch f.codec {
	case Gzip:
		if err = f.gzip.Reset(&f.src); err != nil {
			return err
		}
		f.gzip.Multistream(false)
		f.stream = &f.gzip
	case Snappy:
		if err = f.snappy.reset(src, f.left); err != nil {
			return err
		}
		f.stream = &f.snappy
	case LZ4:
		if len(src) < 4 || binary.LittleEndian.Uint32(src) != 0x184d2204 {
			return errNotLZ4Frame
		}
		if f.lz4 == nil {
			f.lz4 = lz4.NewReader(nil)
		}
		f.lz4.Reset(&f.src)
		f.stream = f.lz4
	case Zstd:
		if f.zstd == nil {
			f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(zstdWindowMax))
			if err != nil {
				return fmt.Errorf("zstd decoder: %w", err)
			}
		}
		if err = f.zstd.Reset(&f.src); err != nil {
			return err
		}
		f.stream = f.zstd
	}
	return nil
}

// Read gives decompressed bytes, errInflated beyond the limit, and io.EOF only when nothing is left of the source.
func (f *inflater) Read(p []byte) (int, error) {
	if int64(len(p)) > f.left+1 {
		p = p[:f.left+1] // one byte beyond the limit tells "just full" from "too much"
	}
	n, err := f.stream.Read(p)
	f.left -= int64(n)
	if f.left < 0 {
		f.left = 0
		return 0, errInflated
	}
	if err == io.EOF && f.codec == Gzip && f.src.Len() > 0 {
		err = errTrailing
	}
	return n, err
}

// scanner returns a buffered reader of f, valid until close.
func (f *inflater) scanner() *bufio.Reader {
	if f.buf == nil {
		f.buf = bufio.NewReaderSize(nil, scanBuffer)
	}
	f.buf.Reset(f)
	return f.buf
}

// close lets go of the source and gives f back to its pool.
func (f *inflater) close() {
	f.src.Reset(nil)
	f.snappy.src = nil
	if f.lz4 != nil {
		f.lz4.Reset(nil)
	}
	if f.zstd != nil {
		_ = f.zstd.Reset(nil) // only lets go of the source
	}
	if f.buf != nil {
		f.buf.Reset(nil)
	}
	f.stream = nil
	inflaters[f.codec].Put(f)
	<-inflateTurns
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

// snappyKeep is the largest block buffer that is kept for the next use.
const snappyKeep = 1 << 20

// reset starts over with src, of which at most limit bytes are decompressed.
func (s *snappyReader) reset(src []byte, limit int64) error {
	s.raw, s.pos, s.left = true, 0, limit
	if cap(s.block) > snappyKeep {
		s.block = nil
	}
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
		return errInflated
	}
	s.pos = 0
	// Strict, because other clients get these bytes as they are and know nothing of s2's additions.
	s.block, err = snappy.DecodeStrict(s.block[:cap(s.block)], chunk)
	if err != nil {
		s.block = nil
	}
	return err
}
