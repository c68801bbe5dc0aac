package record

import "encoding/binary"

// OffsetsV1 is an offsets file of version 1: the first offset of every batch file of a topic.
// Little-endian, never gzipped:
//
//	0 magic "seb@"     14 number of offsets N u32
//	4 version i16 = 1  18 zeros 14
//	6 time i64, µs     32 N * u64
type OffsetsV1 struct {
	// Time is the time of writing, in microseconds since the Unix epoch.
	Time int64
	// Offsets are ascending.
	Offsets []uint64
}

// EncodeOffsetsV1 appends the file to dst.
func EncodeOffsetsV1(dst []byte, f OffsetsV1) []byte {
	dst = appendHeadV1(dst, MagicOffsets, f.Time, len(f.Offsets))
	for _, o := range f.Offsets {
		dst = binary.LittleEndian.AppendUint64(dst, o)
	}
	return dst
}

// DecodeOffsetsV1 decodes an offsets file of version 1, which must end with its last offset. Errors
// are ErrCorrupt.
func DecodeOffsetsV1(b []byte) (OffsetsV1, error) {
	timeMicros, n, err := decodeHeadV1(b, MagicOffsets, 8)
	if err != nil {
		return OffsetsV1{}, err
	}
	if len(b) != headSizeV1+8*n {
		return OffsetsV1{}, &CorruptError{What: "file length", Want: int64(headSizeV1 + 8*n), Got: int64(len(b))}
	}
	offsets := make([]uint64, n) // bounded, because b has the bytes
	for i := range offsets {
		pos := headSizeV1 + 8*i
		offsets[i] = binary.LittleEndian.Uint64(b[pos:])
		if i > 0 && offsets[i] <= offsets[i-1] {
			return OffsetsV1{}, &CorruptError{What: "offsets do not ascend", Pos: int64(pos), Want: int64(offsets[i-1]) + 1, Got: int64(offsets[i])}
		}
	}
	return OffsetsV1{Time: timeMicros, Offsets: offsets}, nil
}
