package codec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindowMax is the largest window that a zstd frame may ask for; RFC 8878 recommends that
	// decoders support 8 MiB.
	zstdWindowMax = 8 << 20
	scanBuffer    = 16 << 10
)

// Errors that callers distinguish.
var (
	// ErrLimit: the data decompresses to more than the limit.
	ErrLimit = errors.New("decompressed size exceeds the limit")
	// ErrUnknown: the codec does not exist.
	ErrUnknown = errors.New("unknown codec")
)

var errTrailing = errors.New("bytes after the end of the compressed data")

// Inflater decompresses the records of one batch as a stream. Its output ends with ErrLimit at the
// first byte beyond the limit, whatever size the data claims. Inflaters are pooled per codec,
// because a zstd decoder retains its window.
type Inflater struct {
	codec  Kind
	src    bytes.Reader
	stream io.Reader // one of gzip, zstd, lz4 and snappy
	gzip   gzip.Reader
	zstd   *zstd.Decoder
	lz4    lz4Reader
	snappy snappyReader
	buf    *bufio.Reader // reads from the Inflater itself
	left   int64         // bytes of output still allowed
	share  share
	window int // zstd: index into zstdWindows of the largest window that the decoder accepts; lz4: 1 with blocks above lz4Keep
}

// zstdWindows are the largest windows of the three pools of zstd decoders. A decoder retains the
// largest window that it has used until a garbage collection finds it unused. Most producers ask
// for less than 1 MiB; level 3 of zstd asks for 2 MiB.
var zstdWindows = [...]uint64{1 << 20, 2 << 20, zstdWindowMax}

// inflaters holds the unused Inflaters by codec, and large those with a window above 0, by codec and
// window.
var (
	inflaters [Zstd + 1]sync.Pool
	large     [Zstd + 1][len(zstdWindows)]Spare[Inflater]
)

// Open returns an Inflater of src; the caller must Close it. Open waits until the process may
// decompress one more batch, so a caller must not wait for anything else before Close.
func Open(codec Kind, src []byte, limit int64) (*Inflater, error) {
	if codec == None || codec > Zstd {
		return nil, ErrUnknown
	}
	window := 0
	switch codec {
	case Zstd:
		asked := zstdWindow(src)
		window = sort.Search(len(zstdWindows)-1, func(i int) bool { return asked <= zstdWindows[i] })
	case LZ4:
		if lz4BlockMax(src) > lz4Keep {
			window = 1
		}
	}
	share := inflating.Load().acquire(inflateNeed(codec, src))
	f := idleInflater(codec, window)
	f.share = share
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
		if err = f.lz4.reset(src); err != nil {
			return err
		}
		f.stream = &f.lz4
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

// Read returns decompressed bytes, ErrLimit beyond the limit, and io.EOF only once the whole source
// is consumed.
func (f *Inflater) Read(p []byte) (int, error) {
	if int64(len(p)) > f.left+1 {
		p = p[:f.left+1] // the extra byte tells "exactly full" from "too much"
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

// Left is how many bytes of output are still allowed.
func (f *Inflater) Left() int64 { return f.left }

// Scanner returns a buffered reader of f, valid until Close.
func (f *Inflater) Scanner() *bufio.Reader {
	if f.buf == nil {
		f.buf = bufio.NewReaderSize(nil, scanBuffer)
	}
	f.buf.Reset(f)
	return f.buf
}

// Close drops the source, releases the memory, and hands f to a waiting Open or returns it to its
// pool.
func (f *Inflater) Close() {
	f.src.Reset(nil)
	f.snappy.src = nil
	f.lz4.src = nil
	if f.zstd != nil {
		_ = f.zstd.Reset(nil) // only drops the source
	}
	if f.buf != nil {
		f.buf.Reset(nil)
	}
	f.stream = nil
	share := f.share
	next := f
	if !share.of.contended() {
		f.idle()
		next = nil
	}
	if last := handoff.Swap(next); last != nil {
		last.idle()
	}
	share.release()
}

// handoff is an Inflater for the next Open that was waiting for memory. It is set only while a
// caller waits: memory is short then, garbage collections empty the pools, and each batch would
// allocate windows and blocks of many MiB again. Close stores it before it releases its share, so
// the caller that gets the share finds it.
var handoff atomic.Pointer[Inflater]

// idleInflater returns the handed-off Inflater if its codec and window fit, else one of the pool or
// a new one.
func idleInflater(codec Kind, window int) *Inflater {
	if f := handoff.Swap(nil); f != nil {
		if f.codec == codec && f.window == window {
			return f
		}
		f.idle()
	}
	if window > 0 {
		if f := large[codec][window].Get(); f != nil {
			return f
		}
	} else if f, _ := inflaters[codec].Get().(*Inflater); f != nil {
		return f
	}
	return &Inflater{codec: codec, window: window}
}

// idle returns f to its pool.
func (f *Inflater) idle() {
	if cap(f.snappy.block) > snappyKeep {
		f.snappy.block = nil
	}
	if f.window > 0 {
		large[f.codec][f.window].Put(f)
		return
	}
	inflaters[f.codec].Put(f)
}

// zstdWindow is the window that the first frame of src asks for, or the largest allowed if the
// header does not tell. The decoder refuses a later frame whose window exceeds that of its pool.
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

// inflateNeed is an estimate of the working memory for decompressing src, without the output; never
// much too low.
func inflateNeed(codec Kind, src []byte) int64 {
	const tables = 64 << 10
	switch codec {
	case Gzip:
		return tables
	case Snappy:
		return snappyBlockMax(src)
	case LZ4:
		return int64(lz4BlockMax(src)) + 2*tables
	}
	window := int64(zstdWindow(src))
	return window + min(window, 1<<20) + 4*tables
}
