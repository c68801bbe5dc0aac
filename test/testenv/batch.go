package testenv

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/sebbroker/seb/record"
)

// Batch makes a RecordBatch of one record with a value, its records compressed with what costs a decoder most: zstd with the
// largest window that is allowed, lz4 with the largest blocks, snappy in one block.
func HostileBatch(codec record.Compression, value []byte) []byte {
	plain, _, err := record.Append(nil, []record.Record{{Value: value}}, record.EncodeOptions{})
	if err != nil {
		panic(err) // only of what can not be in a record
	}
	if codec == record.None {
		return plain
	}
	return HostileWrap(plain, codec, HostileCompress(codec, plain[record.BatchHeadSize:]))
}

// Wrap makes a RecordBatch with the header of another, which says what is in it, and other bytes as its records.
func HostileWrap(batch []byte, codec record.Compression, records []byte) []byte {
	const length, crc, attributes = 8, 17, 21
	b := append(batch[:record.BatchHeadSize:record.BatchHeadSize], records...)
	binary.BigEndian.PutUint32(b[length:], uint32(len(b)-length-4))
	binary.BigEndian.PutUint16(b[attributes:], uint16(codec))
	binary.BigEndian.PutUint32(b[crc:], crc32.Checksum(b[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Compress compresses as Batch does.
func HostileCompress(codec record.Compression, b []byte) []byte {
	var out bytes.Buffer
	switch codec {
	case record.Gzip:
		return written(&out, gzip.NewWriter(&out), b)
	case record.Snappy:
		return snappy.Encode(nil, b)
	case record.LZ4:
		w := lz4.NewWriter(&out)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block4Mb)); err != nil {
			panic(err)
		}
		return written(&out, w, b)
	}
	return HostileZstd(b, 8<<20)
}

// Zstd compresses with a window of so many bytes, which it asks for whether it is needed or not.
func HostileZstd(b []byte, window int) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b[:min(1, len(b))])
	_ = w.Flush() // now the frame has a header that knows nothing of its size
	return written(&out, w, b[min(1, len(b)):])
}

// written is out after b was written through w; neither fails in memory.
func written(out *bytes.Buffer, w io.WriteCloser, b []byte) []byte {
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}
