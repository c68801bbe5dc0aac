package codec

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
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// zstdWindowMax is the largest window a zstd frame may ask for; RFC 8878 recommends that decoders support 8 MiB.
	zstdWindowMax = 8 << 20
	scanBuffer    = 16 << 10
)

// The faults of data that callers tell apart.
var (
	// ErrLimit: it decompresses to more than the limit.
	ErrLimit = errors.New("more than allowed")
	// ErrUnknown: there is no such codec.
	ErrUnknown = errors.New("unknown codec")
)

var (
	errTrailing    = errors.New("bytes after the end of the compressed data")
	errNotLZ4Frame = errors.New("not an lz4 frame")
)

// Inflater decompresses the records of one batch as a stream. It gives ErrLimit as soon as there is more than limit
// bytes, whatever the data claims. It is pooled per codec, because a zstd decoder holds on to its window.
type Inflater struct {
	codec  Kind
	src    bytes.Reader
	stream io.Reader // one of the following
	gzip   gzip.Reader
	zstd   *zstd.Decoder
	lz4    *lz4.Reader
	snappy snappyReader
	buf    *bufio.Reader // over the Inflater itself, for scans
	left   int64         // bytes still allowed
	turn   turn
	window int // of zstd: which of zstdWindows is the largest that it takes
}

// zstdWindows are the largest windows of three sorts of decoders: a decoder holds on to the window that it has had, until a
// collection finds it unused. Most producers ask for less than 1 MiB, zstd's level 3 for 2 MiB.
var zstdWindows = [...]uint64{1 << 20, 2 << 20, zstdWindowMax}

// inflaters are those that are not in use.
var inflaters [Zstd + 1][len(zstdWindows)]sync.Pool

// Open returns an Inflater of src, to be given back with Close. It waits for its turn, so nobody may wait for
// anything else before closing one.
func Open(codec Kind, src []byte, limit int64) (*Inflater, error) {
	if codec == None || codec > Zstd {
		return nil, ErrUnknown
	}
	window := 0
	if codec == Zstd {
		asked := zstdWindow(src)
		window = sort.Search(len(zstdWindows)-1, func(i int) bool { return asked <= zstdWindows[i] })
	}
	turn := inflating.Load().take(inflateNeed(codec, src))
	f := idleInflater(codec, window)
	f.turn = turn
	f.src.Reset(src)
	f.left = limit
	if err := f.open(src); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Inflater) open(src []byte) (err error) {
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

// Read gives decompressed bytes, ErrLimit beyond the limit, and io.EOF only when nothing is left of the source.
func (f *Inflater) Read(p []byte) (int, error) {
	if int64(len(p)) > f.left+1 {
		p = p[:f.left+1] // one byte beyond the limit tells "just full" from "too much"
	}
	n, err := f.stream.Read(p)
	f.left -= int64(n)
	if f.left < 0 {
		f.left = 0
		return 0, ErrLimit
	}
	if err == io.EOF && f.codec == Gzip && f.src.Len() > 0 {
		err = errTrailing
	}
	return n, err
}

// Left is how many bytes more are allowed.
func (f *Inflater) Left() int64 { return f.left }

// Scanner returns a buffered reader of f, valid until Close.
func (f *Inflater) Scanner() *bufio.Reader {
	if f.buf == nil {
		f.buf = bufio.NewReaderSize(nil, scanBuffer)
	}
	f.buf.Reset(f)
	return f.buf
}

// Close lets go of the source and gives f to the next, or to its pool.
func (f *Inflater) Close() {
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
	if !turn.of.awaited() {
		f.idle()
		next = nil
	}
	if last := heir.Swap(next); last != nil {
		last.idle()
	}
	turn.give()
}

// heir is for whoever's turn comes next, if it is of the right sort. It is there only while somebody waits for a turn: then memory is short, and
// what a collection has taken from a pool would be made anew for each batch, windows and blocks of many MiB.
var heir atomic.Pointer[Inflater]

// idleInflater takes one that is not in use, or makes one.
func idleInflater(codec Kind, window int) *Inflater {
	if f := heir.Swap(nil); f != nil {
		if f.codec == codec && f.window == window {
			return f
		}
		f.idle()
	}
	if f, _ := inflaters[codec][window].Get().(*Inflater); f != nil {
		return f
	}
	return &Inflater{codec: codec, window: window}
}

// idle gives f to its pool.
func (f *Inflater) idle() {
	if cap(f.snappy.block) > snappyKeep {
		f.snappy.block = nil
	}
	inflaters[f.codec][f.window].Put(f)
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
func inflateNeed(codec Kind, src []byte) int64 {
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
