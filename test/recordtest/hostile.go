package recordtest

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

// HostileBatch returns a RecordBatch of one record with a value. It is compressed at the highest
// cost for a decoder: zstd with the largest allowed window, lz4 with the largest blocks, snappy in
// one block.
func HostileBatch(codec record.Compression, value []byte) []byte {
	plain, _, err := record.Append(nil, []record.Record{{Value: value}}, record.EncodeOptions{})
	if err != nil {
		panic(err) // only for content that a record cannot have
	}
	if codec == record.None {
		return plain
	}
	return HostileWrap(plain, codec, HostileCompress(codec, plain[record.BatchHeadSize:]))
}

// HostileWrap returns a RecordBatch with the header of another batch and other bytes as its
// records.
func HostileWrap(batch []byte, codec record.Compression, records []byte) []byte {
	const length, crc, attributes = 8, 17, 21
	b := append(batch[:record.BatchHeadSize:record.BatchHeadSize], records...)
	binary.BigEndian.PutUint32(b[length:], uint32(len(b)-length-4))
	binary.BigEndian.PutUint16(b[attributes:], uint16(codec))
	binary.BigEndian.PutUint32(b[crc:], crc32.Checksum(b[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// HostileCompress compresses like HostileBatch.
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

// HostileZstd compresses with a window of the given size, which the frame requests even if it is
// not needed.
func HostileZstd(b []byte, window int) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b[:min(1, len(b))])
	_ = w.Flush() // the header then has no content size
	return written(&out, w, b[min(1, len(b)):])
}

// written returns out after writing b through w; neither fails in memory.
func written(out *bytes.Buffer, w io.WriteCloser, b []byte) []byte {
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}
