package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// SnapshotMax bounds the decoded size of a snapshot, because decoding allocates the size that the
// head claims.
const SnapshotMax = 1 << 30

// snapHeadSize is the size of a snapshot's head (FORMAT.md):
//
//	 0  magic "seb$"      4
//	 4  version 1         u16
//	 6  reserved          2
//	 8  decoded length    u64
//	16  stored length     u64   of the body (zstd) after the head
//	24  CRC-32C           u32   of the body
//	28  CRC-32C           u32   of bytes 0 to 27
const snapHeadSize = 32

var (
	snapMagic  = [4]byte{'s', 'e', 'b', '$'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	// ErrSnapshot: the bytes are not a snapshot that this version can read.
	ErrSnapshot = errors.New("unreadable snapshot")
)

// snapWindow is the compression window of a snapshot. A decoder keeps it in memory twice.
const snapWindow = 1 << 20

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(snapWindow))
	if err != nil {
		panic(err)
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(SnapshotMax), zstd.WithDecoderMaxWindow(snapWindow), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return d
})

// inflateRatio is the ratio of decoded to stored size up to which the claimed size is allocated at
// once. A snapshot that claims more is decoded as a stream.
const inflateRatio = 64

// inflate decompresses at most size bytes, whatever size body claims.
func inflate(body []byte, size uint64) ([]byte, error) {
	if size <= uint64(len(body))*inflateRatio+1024 {
		return decoder().DecodeAll(body, make([]byte, 0, size))
	}
	d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(snapWindow))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(io.LimitReader(d, int64(size)+1))
}

// EncodeMessage encodes a state, usually a View, as the message of a snapshot, without its frame.
// Equal states give equal bytes within one version of Seb.
func EncodeMessage(s *State) []byte {
	const rangeBytes, producerBytes = 24, 40 // of most
	return protobuf.Append(make([]byte, 0, 1<<10+rangeBytes*s.tally.ranges+producerBytes*s.tally.producers), s, (*State).fields)
}

// EncodeSnapshot encodes a state, usually a View. Equal states give equal bytes within one version
// of Seb.
func EncodeSnapshot(s *State) []byte {
	b := EncodeMessage(s)
	body := encoder().EncodeAll(b, nil)
	head := make([]byte, snapHeadSize, snapHeadSize+len(body))
	copy(head, snapMagic[:])
	binary.LittleEndian.PutUint16(head[4:], 1)
	binary.LittleEndian.PutUint64(head[8:], uint64(len(b)))
	binary.LittleEndian.PutUint64(head[16:], uint64(len(body)))
	binary.LittleEndian.PutUint32(head[24:], crc32.Checksum(body, castagnoli))
	binary.LittleEndian.PutUint32(head[28:], crc32.Checksum(head[:28], castagnoli))
	return append(head, body...)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// DecodeSnapshot decodes a snapshot. Errors are a *NewerError or wrap ErrSnapshot.
func DecodeSnapshot(b []byte) (*State, error) {
	fail := func(format string, args ...any) (*State, error) {
		return nil, fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
	}
	if len(b) < snapHeadSize || [4]byte(b[:4]) != snapMagic {
		return fail("not a snapshot head")
	}
	if crc := crc32.Checksum(b[:28], castagnoli); crc != binary.LittleEndian.Uint32(b[28:]) {
		return fail("wrong checksum of the head")
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != 1 {
		return fail("version %d, this program reads 1", v)
	}
	body, size := b[snapHeadSize:], binary.LittleEndian.Uint64(b[8:])
	if n := binary.LittleEndian.Uint64(b[16:]); n != uint64(len(body)) || size > SnapshotMax {
		return fail("%d bytes after the head, want %d; decoded length %d, at most %d", len(body), n, size, SnapshotMax)
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[24:]) {
		return fail("wrong checksum of the body")
	}
	plain, err := inflate(body, size)
	if err != nil || uint64(len(plain)) != size {
		return fail("decompression: %d bytes of %d: %v", len(plain), size, err)
	}
	s, err := DecodeMessage(plain)
	if errors.Is(err, ErrNewer) {
		return nil, err
	}
	if err != nil {
		return fail("%v", err)
	}
	return s, nil
}
