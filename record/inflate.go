package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"

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
)

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
	turn   int64         // of inflating
	window int           // of zstd: which of zstdWindows is the largest that it takes
}

// zstdWindows are the largest windows of three sorts of decoders: a decoder holds on to the window that it has had, until a
// collection finds it unused. Most producers ask for less than 1 MiB, zstd's level 3 for 2 MiB.
var zstdWindows = [...]uint64{1 << 20, 2 << 20, zstdWindowMax}

// inflaters are those that are not in use.
var inflaters [Zstd + 1][len(zstdWindows)]sync.Pool

// openInflater returns an inflater of src, to be given back with close. It waits for its turn, so nobody may wait for
// anything else before closing one.
func openInflater(codec Compression, src []byte, limit int64) (*inflater, error) {
	if codec == None || codec > Zstd {
		return nil, errCodec
	}
	window := 0
	if codec == Zstd {
		asked := zstdWindow(src)
		window = sort.Search(len(zstdWindows)-1, func(i int) bool { return asked <= zstdWindows[i] })
	}
	turn := inflating.take(inflateNeed(codec, src))
	f := idleInflater(codec, window)
	f.turn = turn
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
				zstd.WithDecoderMaxWindow(zstdWindows[f.window]))
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

// close lets go of the source and gives f to the next, or to its pool.
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
	turn := f.turn
	next := f
	if !inflating.awaited() {
		f.idle()
		next = nil
	}
	if last := heir.Swap(next); last != nil {
		last.idle()
	}
	inflating.give(turn)
}

// heir is for whoever's turn comes next, if it is of the right sort. It is there only while somebody waits for a turn: then memory is short, and
// what a collection has taken from a pool would be made anew for each batch, windows and blocks of many MiB.
var heir atomic.Pointer[inflater]

// idleInflater takes one that is not in use, or makes one.
func idleInflater(codec Compression, window int) *inflater {
	if f := heir.Swap(nil); f != nil {
		if f.codec == codec && f.window == window {
			return f
		}
		f.idle()
	}
	if f, _ := inflaters[codec][window].Get().(*inflater); f != nil {
		return f
	}
	return &inflater{codec: codec, window: window}
}

// idle gives f to its pool.
func (f *inflater) idle() {
	if cap(f.snappy.block) > snappyKeep {
		f.snappy.block = nil
	}
	inflaters[f.codec][f.window].Put(f)
}

// DecompressedSize is how many bytes the records of a stored batch decompress to, at most limit. It takes the time of decompressing
// them and no memory for what comes of it. More is an *InvalidError that is ErrTooLarge; what can not be decompressed is a *CorruptError. The
// checksum is not checked.
func (b Batch) DecompressedSize(limit int64) (int64, error) {
	codec, src := b.Compression(), b[BatchHeadSize:]
	if codec == None {
		return int64(len(src)), nil
	}
	f, err := openInflater(codec, src, limit)
	if err != nil {
		return 0, &CorruptError{What: "compressed records", Err: err}
	}
	defer f.close()
	n, err := io.Copy(io.Discard, f.scanner())
	switch {
	case errors.Is(err, errInflated):
		return 0, inflatedMore(codec, FieldDecompressed, limit)
	case err != nil:
		return 0, &CorruptError{What: "compressed records", Err: err}
	}
	return n, nil
}

// inflatedMore says that a batch decompresses to more than the limit, in bytes, of a field.
func inflatedMore(codec Compression, field string, limit int64) error {
	return &InvalidError{Field: field, Reason: codec.String() + " batch decompresses to more", Limit: limit, Given: limit + 1}
}

// zstdWindow is the window that the first frame asks for, the largest allowed if that can not be told. A frame behind it
// that asks for one of a larger sort is refused by the decoder.
func zstdWindow(src []byte) uint64 {
	var h zstd.Header
	switch err := h.Decode(src[:min(len(src), zstd.HeaderMaxSize)]); {
	case err != nil || h.Skippable:
		return zstdWindowMax
	case h.SingleSegment:
		return min(h.FrameContentSize, zstdWindowMax)
	}
	return min(h.WindowSize, zstdWindowMax)
}

// inflateNeed is how many bytes decompressing src takes, beside what it gives; never much less than that.
func inflateNeed(codec Compression, src []byte) int64 {
	const tables = 64 << 10
	switch codec {
	case Gzip:
		return tables
	case Snappy:
		return snappyBlockMax(src)
	case LZ4:
		block := int64(4 << 20)
		if len(src) > 5 { // the frame's block descriptor: 4 is 64 KiB, 7 is 4 MiB
			block = 64 << 10 << (2 * (max(4, int64(src[5]>>4&7)) - 4))
		}
		return 2*block + 2*tables
	}
	window := int64(zstdWindow(src))
	return window + min(window, 1<<20) + 4*tables
}

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
