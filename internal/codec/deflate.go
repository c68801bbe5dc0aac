package codec

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zstdEncoder is shared. It has one stream and a small window, because an encoder may otherwise
// take hundreds of MB.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
})

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return newLZ4Writer() }}
)

func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(nil)
	// 64 KiB blocks are what Java's client writes. The options are constants and always apply.
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1)); err != nil {
		panic("codec: lz4 options: " + err.Error())
	}
	return w
}

// Compress appends src, compressed, to dst. Snappy uses the framing of Java's clients, which all
// clients can read.
func Compress(dst []byte, codec Kind, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	var err error
	switch codec {
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		w.Reset(out)
		err = writeAll(w, src)
	case Snappy:
		return append(dst, xerial.Encode(nil, src)...), nil
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		w.Reset(out)
		err = writeAll(w, src)
	case Zstd:
		w, err := zstdEncoder()
		if err != nil {
			return dst, fmt.Errorf("zstd encoder: %w", err)
		}
		return w.EncodeAll(src, dst), nil
	default:
		err = ErrUnknown
	}
	if err != nil {
		return dst, fmt.Errorf("compress %s: %w", codec, err)
	}
	return out.Bytes(), nil
}

func writeAll(w io.WriteCloser, src []byte) error {
	if _, err := w.Write(src); err != nil {
		return err
	}
	return w.Close()
}
