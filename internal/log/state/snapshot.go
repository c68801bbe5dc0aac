package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/sorting"
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

// Field numbers of a snapshot (FORMAT.md). They are never reused.
const (
	snapCluster = iota + 1
	snapShard
	snapEpoch
	snapSlot
	snapNonce
	snapPrevCRC
	snapAppendTime
	snapChain // repeated: number, nonce
	snapTopic // repeated: id, name, setting (repeated), partition (repeated)
	snapGroup // repeated: name, offset (repeated)
	snapPacks // packed varints: epoch, id, size, live bytes; by epoch and id
	snapLevel // message (level.go), first in a snapshot; absent at level 1
	snapLost  // packed varints: epoch, slot, last epoch of each lost branch
	snapLatest
	snapAccess // message (access.go): principals and rules
	snapPromise
	snapSealer // node, id
)

const (
	chainNumber = 1
	chainNonce  = 2
	chainSeal   = 3

	topicID        = 1
	topicNameField = 2
	topicSetting   = 3
	topicPartition = 4 // repeated, in order

	partStart     = 1
	partNext      = 2
	partLatest    = 3
	partEpochs    = 4 // packed varints: epoch, offset
	partRanges    = 5 // packed varints, delta coded (encodeRanges)
	partProducers = 6 // packed varints (encodeProducers)
	partClean     = 7
	partMarks     = 8 // packed varints: offset, time
	partSwept     = 9

	groupName   = 1
	groupOffset = 2 // repeated: the fields of a state record OffsetCommit
)

// EncodeMessage encodes a state, usually a View, as the message of a snapshot, without its frame.
// Equal states give equal bytes within one version of Seb.
func EncodeMessage(s *State) []byte {
	var b []byte
	if s.Level > LevelFirst {
		b = appendBytes(b, snapLevel, encodeLevel(s.Level))
	}
	b = appendBytes(b, snapCluster, s.Cluster[:])
	b = appendVarint(b, snapShard, uint64(s.Shard))
	b = appendVarint(b, snapEpoch, uint64(s.Pos.Epoch))
	b = appendVarint(b, snapSlot, s.Pos.Slot)
	b = appendBytes(b, snapNonce, s.Nonce[:])
	b = appendVarint(b, snapPrevCRC, uint64(s.PrevCRC))
	b = appendVarint(b, snapAppendTime, uint64(s.AppendTime))
	for _, e := range s.Epochs {
		m := appendVarint(nil, chainNumber, uint64(e.Number))
		m = appendBytes(m, chainNonce, e.Nonce[:])
		b = appendBytes(b, snapChain, appendVarint(m, chainSeal, e.Seal))
	}
	for _, t := range s.Topics() {
		b = appendBytes(b, snapTopic, encodeTopic(t))
	}
	for _, g := range s.Groups() {
		b = appendBytes(b, snapGroup, encodeGroup(g))
	}
	if len(s.packs) > 0 {
		b = appendBytes(b, snapPacks, s.encodePacks())
	}
	if len(s.LostBranches) > 0 {
		b = appendBytes(b, snapLost, encodeLost(s.LostBranches))
	}
	if s.Latest > s.AppendTime {
		b = appendVarint(b, snapLatest, uint64(s.Latest))
	}
	if s.Access.Version > 0 {
		b = appendBytes(b, snapAccess, encodeTable(&s.Access))
	}
	if s.Promise > 0 {
		b = appendVarint(b, snapPromise, uint64(s.Promise))
	}
	if !s.Sealer.IsZero() {
		b = appendBytes(b, snapSealer, s.Sealer.encode())
	}
	return b
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

func encodeTopic(t *Topic) []byte {
	b := appendBytes(nil, topicID, t.ID[:])
	b = appendBytes(b, topicNameField, []byte(t.Name))
	b = appendSettings(b, topicSetting, t.Settings)
	next := 0
	for i, p := range t.Partitions.Written() {
		b = appendUnwritten(b, i-next)
		b = appendBytes(b, topicPartition, encodePartition(p))
		next = i + 1
	}
	return appendUnwritten(b, t.Partitions.Len()-next)
}

// appendUnwritten appends n unwritten partitions: empty messages.
func appendUnwritten(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	return append(b, bytes.Repeat(appendBytes(nil, topicPartition, nil), n)...)
}

func encodePartition(p *Partition) []byte {
	var b []byte // stays empty for an unwritten partition
	for _, f := range [...]struct {
		num protowire.Number
		v   int64
	}{{partStart, p.Start}, {partNext, p.Next}, {partLatest, p.LatestCommit}} {
		if f.v != 0 {
			b = appendVarint(b, f.num, uint64(f.v))
		}
	}
	if len(p.Epochs) > 0 {
		var m []byte
		for _, e := range p.Epochs {
			m = protowire.AppendVarint(m, uint64(e.Epoch))
			m = protowire.AppendVarint(m, uint64(e.Offset))
		}
		b = appendBytes(b, partEpochs, m)
	}
	if len(p.Ranges) > 0 {
		b = appendBytes(b, partRanges, encodeRanges(p.Ranges))
	}
	if len(p.Producers) > 0 {
		b = appendBytes(b, partProducers, encodeProducers(p.Producers))
	}
	if p.Clean > 0 {
		b = appendVarint(b, partClean, uint64(p.Clean))
	}
	if len(p.Marks) > 0 {
		b = appendBytes(b, partMarks, encodeMarks(p.Marks))
	}
	if p.Swept > 0 {
		b = appendVarint(b, partSwept, uint64(p.Swept))
	}
	return b
}

func encodeGroup(g *Group) []byte {
	b := appendBytes(nil, groupName, []byte(g.Name))
	ids := sorting.Sorted(maps.Keys(g.Offsets), func(a, b PartitionID) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	for _, id := range ids {
		c := g.Offsets[id]
		b = appendBytes(b, groupOffset, encodeRecord(&Record{
			Kind: OffsetCommit, Topic: id.Topic, Partition: id.Partition, Offset: c.Offset, Metadata: c.Metadata, Time: c.Time,
		}))
	}
	return b
}

// rangeWidth is the number of varints of a range.
const rangeWidth = 11

// encodeRanges writes each range as varints; values that mostly grow are zigzag differences to the
// previous range.
func encodeRanges(ranges []Range) []byte {
	b := make([]byte, 0, len(ranges)*24)
	var prev Range
	for _, r := range ranges {
		for _, v := range [rangeWidth]int64{
			r.Base - prev.End(), int64(r.Span), int64(r.Records) - int64(r.Span), int64(r.Epoch) - int64(prev.Epoch),
			int64(r.Slot) - int64(prev.Slot), int64(r.Pos), int64(r.Len),
			r.MinTime - prev.MinTime, r.MaxTime - r.MinTime, r.AppendTime - prev.AppendTime, bit(r.Pack),
		} {
			b = protowire.AppendVarint(b, protowire.EncodeZigZag(v))
		}
		prev = r
	}
	return b
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
