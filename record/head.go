package record

import (
	"encoding/binary"
	"math"
)

// Flags in the head of a SEAL.
const (
	// FlagAhead: the SEAL was written beyond the end of the log, so it cannot name the head before
	// it.
	FlagAhead = 1
	// FlagRecovery: an operator accepted the loss of a part of the log. The SEAL may name a later
	// epoch than the next.
	FlagRecovery = 2
)

// Kind is the type of an object of version 2. Zero is invalid.
type Kind uint8

// The kinds of objects.
const (
	KindData Kind = 1 // a slot of the log: state records and batches
	KindSeal Kind = 2 // the end of an epoch; it names the next one
	KindPack Kind = 3 // batches of many slots, sorted by partition
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindData:
		return "data"
	case KindSeal:
		return "seal"
	case KindPack:
		return "pack"
	}
	return "unknown"
}

const (
	// HeadSize is the length of an object's head.
	HeadSize = 192
	// ObjectBytesMax is the size of the largest object, because positions in it have 32 bits.
	ObjectBytesMax = math.MaxUint32

	// Magic starts batch files of version 1 and objects of version 2.
	Magic = "seb!"

	versionPos = 4
	version1   = 1
	version2   = 2
)

// Head is the head of an object, version 2, little-endian. It is enough to decide which broker
// wrote a slot (rules R3 and R5).
//
//	 0 magic "seb!"            32 cluster id 16        88 object length u64
//	 4 version i16 = 2         48 shard u32            96 length of state records u32
//	 6 time i64, microseconds  52 epoch u32           100 number of index entries u32
//	14 number of records u32   56 nonce 16            104 CRC of state and index u32
//	18 kind u8                 72 slot u64            108 body checksum u32
//	19 flags u8                80 low u64             112 CRC of the previous slot's head u32
//	20 head length u32 = 192                          116 next epoch u32 (SEAL)
//	24 CRC of the head u32, taken with this field 0   120 next nonce 16 (SEAL)
//	28 zeros 4                                        136 zeros 56
//
// All checksums are CRC-32C.
type Head struct {
	Kind  Kind
	Flags uint8 // FlagAhead, FlagRecovery
	// Time is the append time in microseconds since the Unix epoch.
	Time int64
	// Records is the number of records in the batches.
	Records uint32
	Cluster ID
	Shard   uint32
	Epoch   uint32
	Nonce   ID
	Slot    uint64
	// Low: all slots of this epoch below it were committed when the object was frozen (rule R2).
	Low uint64
	// ObjectLen is the length of the whole object, head included, in bytes.
	ObjectLen  uint64
	StateLen   uint32
	IndexCount uint32
	MetaCRC    uint32
	BodyCRC    uint32
	// PrevCRC is the CRC of the previous slot's head.
	PrevCRC uint32
	// NextEpoch and NextNonce are set in a SEAL, and zero in other kinds.
	NextEpoch uint32
	NextNonce ID
	// CRC is set by Encode and DecodeHead.
	CRC uint32
}

const headCRCPos = 24

// Encode appends the HeadSize bytes of h to dst, and sets h.CRC.
func (h *Head) Encode(dst []byte) []byte {
	var zero [HeadSize]byte
	dst = append(dst, zero[:]...)
	b := dst[len(dst)-HeadSize:]
	le := binary.LittleEndian
	copy(b, Magic)
	le.PutUint16(b[versionPos:], version2)
	le.PutUint64(b[6:], uint64(h.Time))
	le.PutUint32(b[14:], h.Records)
	b[18], b[19] = byte(h.Kind), h.Flags
	le.PutUint32(b[20:], HeadSize)
	copy(b[32:], h.Cluster[:])
	le.PutUint32(b[48:], h.Shard)
	le.PutUint32(b[52:], h.Epoch)
	copy(b[56:], h.Nonce[:])
	le.PutUint64(b[72:], h.Slot)
	le.PutUint64(b[80:], h.Low)
	le.PutUint64(b[88:], h.ObjectLen)
	le.PutUint32(b[96:], h.StateLen)
	le.PutUint32(b[100:], h.IndexCount)
	le.PutUint32(b[104:], h.MetaCRC)
	le.PutUint32(b[108:], h.BodyCRC)
	le.PutUint32(b[112:], h.PrevCRC)
	le.PutUint32(b[116:], h.NextEpoch)
	copy(b[120:], h.NextNonce[:])
	h.CRC = CRC32C(b)
	le.PutUint32(b[headCRCPos:], h.CRC)
	return dst
}

// DecodeHead decodes the head at the start of b, which must have HeadSize bytes. It checks the
// checksum and the ranges of the fields: a known kind, lengths that fit in the object, and for a
// SEAL the next epoch epoch + 1 (rule R9). Errors are ErrCorrupt; ErrVersion1 and ErrUnknownVersion
// distinguish the version.
func DecodeHead(b []byte) (Head, error) {
	if err := checkVersion(b); err != nil {
		return Head{}, err
	}
	if len(b) < HeadSize {
		return Head{}, &CorruptError{What: "head length", Want: HeadSize, Got: int64(len(b))}
	}
	b = b[:HeadSize]
	le := binary.LittleEndian
	crc := le.Uint32(b[headCRCPos:])
	if want := headCRC(b); want != crc {
		return Head{}, &CorruptError{What: "head checksum", Want: int64(want), Got: int64(crc)}
	}
	h := Head{
		Time: int64(le.Uint64(b[6:])), Records: le.Uint32(b[14:]), Kind: Kind(b[18]), Flags: b[19],
		Cluster: ID(b[32:48]), Shard: le.Uint32(b[48:]), Epoch: le.Uint32(b[52:]), Nonce: ID(b[56:72]),
		Slot: le.Uint64(b[72:]), Low: le.Uint64(b[80:]), ObjectLen: le.Uint64(b[88:]),
		StateLen: le.Uint32(b[96:]), IndexCount: le.Uint32(b[100:]), MetaCRC: le.Uint32(b[104:]),
		BodyCRC: le.Uint32(b[108:]), PrevCRC: le.Uint32(b[112:]), NextEpoch: le.Uint32(b[116:]),
		NextNonce: ID(b[120:136]), CRC: crc,
	}
	if n := le.Uint32(b[20:]); n != HeadSize {
		return Head{}, &CorruptError{What: "head length", Pos: 20, Want: HeadSize, Got: int64(n)}
	}
	if le.Uint32(b[28:]) != 0 || [56]byte(b[136:]) != [56]byte{} {
		return Head{}, &CorruptError{What: "reserved bytes of the head are not zero"}
	}
	if err := h.check(); err != nil {
		return Head{}, err
	}
	return h, nil
}

// headCRC returns the checksum of a head with its checksum field as 0.
func headCRC(b []byte) uint32 {
	var zero [4]byte
	crc := crcUpdate(CRC32C(b[:headCRCPos]), zero[:])
	return crcUpdate(crc, b[headCRCPos+4:])
}

// checkVersion checks that b starts an object of version 2.
func checkVersion(b []byte) error {
	if len(b) < versionPos+2 {
		return &CorruptError{What: "head length", Want: HeadSize, Got: int64(len(b))}
	}
	if string(b[:versionPos]) != Magic {
		return &CorruptError{What: "magic"}
	}
	switch v := binary.LittleEndian.Uint16(b[versionPos:]); v {
	case version2:
		return nil
	case version1:
		return ErrVersion1
	default:
		return &CorruptError{What: "version", Pos: versionPos, Want: version2, Got: int64(int16(v)), Err: ErrUnknownVersion}
	}
}

// check reports values that no writer produces.
func (h *Head) check() error {
	if h.Kind < KindData || h.Kind > KindPack {
		return &CorruptError{What: "kind", Pos: 18, Got: int64(h.Kind)}
	}
	if h.ObjectLen > ObjectBytesMax || h.metaEnd() > h.ObjectLen {
		return &CorruptError{What: "object length", Pos: 88, Want: int64(h.metaEnd()), Got: int64(h.ObjectLen)}
	}
	if h.Kind == KindSeal {
		next := h.NextEpoch > h.Epoch && h.Flags&FlagRecovery != 0 || uint64(h.NextEpoch) == uint64(h.Epoch)+1
		if !next || h.NextNonce.IsZero() {
			return &CorruptError{What: "next epoch of a seal", Pos: 116, Want: int64(h.Epoch) + 1, Got: int64(h.NextEpoch)}
		}
	} else if h.NextEpoch != 0 || !h.NextNonce.IsZero() {
		return &CorruptError{What: "next epoch outside a seal", Pos: 116, Got: int64(h.NextEpoch)}
	}
	return nil
}

// metaEnd returns the start of the batches.
func (h *Head) metaEnd() uint64 {
	return HeadSize + uint64(h.StateLen) + uint64(h.IndexCount)*IndexEntrySize
}

// StampAppendTime sets the append time of the log in the concatenated batches of b, as Kafka does
// with LogAppendTime. It sets the attribute bit and the max timestamp, in milliseconds, and updates
// the checksum. millis is then the timestamp of every record; base timestamp and records do not
// change. A second call sets a newer time. Check must have accepted the batches. See stamp for the
// changed bytes.
func StampAppendTime(b []byte, millis int64) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint16(batch[posAttributes:], batch.u16(posAttributes)|AttrLogAppendTime)
		binary.BigEndian.PutUint64(batch[posMaxTimestamp:], uint64(millis))
	})
}

// StampProducer sets the idempotent producer of the concatenated batches in b: producer ID, epoch
// and base sequence, which continues from batch to batch. It updates the checksum. Check must have
// accepted the batches. See stamp.
func StampProducer(b []byte, p Producer) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint64(batch[posProducerID:], uint64(p.ID))
		binary.BigEndian.PutUint16(batch[posProducerEpoch:], uint16(p.Epoch))
		binary.BigEndian.PutUint32(batch[posBaseSequence:], uint32(p.Sequence))
		p.Sequence = nextSequence(p.Sequence, batch.Span())
	})
}

// stamp lets set change the header of each batch except its length, and updates the checksum. It
// panics if b is not whole batches.
func stamp(b []byte, set func(Batch)) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: stamp of invalid batches: " + err.Error())
		}
		batch.restamp(func() { set(batch) })
		b = rest
	}
}

// restamp lets set change the header of b except its length, and updates the checksum by the
// difference. It reads only the header. Damage that happened after Check is therefore still
// detected, and a large batch takes no longer than a small one.
func (b Batch) restamp(set func()) {
	old := CRC32C(b[posAttributes:BatchHeadSize])
	set()
	diff := old ^ CRC32C(b[posAttributes:BatchHeadSize])
	binary.BigEndian.PutUint32(b[posCRC:], b.CRC()^crcShift(diff, int64(len(b)-BatchHeadSize)))
}
