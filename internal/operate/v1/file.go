package v1

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"

	"github.com/sebbroker/seb/internal/engine/base/codec"
	"github.com/sebbroker/seb/record"
)

const (
	// MagicOffsets starts offsets files. record.Magic starts batch files.
	MagicOffsets = "seb@"

	versionPos = 4
	version    = 1
	headSize   = 32
	// DefaultBytes is the default limit of Decode.
	DefaultBytes = 256 << 20
)

// BatchFile is a decoded batch file of version 1, little-endian:
//
//	0 magic "seb!"     14 number of records N u32
//	4 version i16 = 1  18 zeros 14
//	6 time i64, µs     32 N * i32: start of each record from the start of the data; then the data
//
// The last record ends at the end of the file: the layout has no length and no checksum. A file is
// one gzip stream, or plain.
type BatchFile struct {
	// Time is the commit time in microseconds since the Unix epoch.
	Time   int64
	starts []byte
	data   []byte
}

// Len returns the number of records.
func (f *BatchFile) Len() int { return len(f.starts) / 4 }

// Value returns record i, which aliases the decoded bytes.
func (f *BatchFile) Value(i int) []byte {
	start, end := f.start(i), len(f.data)
	if i+1 < f.Len() {
		end = f.start(i + 1)
	}
	return f.data[start:end:end]
}

func (f *BatchFile) start(i int) int { return int(binary.LittleEndian.Uint32(f.starts[4*i:])) }

// Encode writes a batch file of version 1 to w. With gzipped it writes a gzip stream, as the
// original program does. The time is in microseconds. It returns an error before writing if the
// values exceed 2 GiB in total.
func Encode(w io.Writer, timeMicros int64, values [][]byte, gzipped bool) error {
	total := int64(0)
	for _, v := range values {
		total += int64(len(v))
	}
	if total > math.MaxInt32 || int64(len(values)) > math.MaxInt32 {
		return fmt.Errorf("encode version 1: %d bytes in %d records: %w", total, len(values), record.ErrTooLarge)
	}
	if gzipped {
		z := gzip.NewWriter(w)
		if err := Encode(z, timeMicros, values, false); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return fmt.Errorf("encode version 1: %w", err)
		}
		return nil
	}
	head := appendHead(make([]byte, 0, headSize+4*len(values)), record.Magic, timeMicros, len(values))
	start := 0
	for _, v := range values {
		head = binary.LittleEndian.AppendUint32(head, uint32(start))
		start += len(v)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("encode version 1: %w", err)
	}
	for _, v := range values {
		if _, err := w.Write(v); err != nil {
			return fmt.Errorf("encode version 1: %w", err)
		}
	}
	return nil
}

// Decode decodes a batch file of version 1, plain or as a gzip stream; the first bytes
// distinguish them. It decompresses at most bytesMax bytes (0: DefaultBytes), and returns
// ErrTooLarge beyond that. Other errors are ErrCorrupt. The result aliases a plain b. Damage to the
// records of a plain file goes unnoticed, because the file has no checksum.
func Decode(b []byte, bytesMax int64) (*BatchFile, error) {
	if len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b {
		var err error
		if b, err = gunzip(b, bytesMax); err != nil {
			return nil, err
		}
	}
	timeMicros, n, err := decodeHead(b, record.Magic, 4)
	if err != nil {
		return nil, err
	}
	f := &BatchFile{Time: timeMicros, starts: b[headSize : headSize+4*n], data: b[headSize+4*n:]}
	if n == 0 && len(f.data) > 0 {
		return nil, &record.CorruptError{What: "data without records", Pos: headSize, Got: int64(len(f.data))}
	}
	last := 0
	for i := range n {
		start := f.start(i)
		if start < last || start > len(f.data) || i == 0 && start != 0 {
			return nil, &record.CorruptError{What: "start of a record", Pos: int64(headSize + 4*i), Want: int64(last), Got: int64(start)}
		}
		last = start
	}
	return f, nil
}

// gunzip decompresses at most limit bytes.
func gunzip(b []byte, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultBytes
	}
	f, err := codec.Open(codec.Gzip, b, limit)
	if err != nil {
		return nil, &record.CorruptError{What: "gzip stream", Err: err}
	}
	defer f.Close()
	var out bytes.Buffer
	switch _, err := out.ReadFrom(f); err {
	case nil:
		return out.Bytes(), nil
	case codec.ErrLimit:
		return nil, fmt.Errorf("decode version 1: over %d bytes decompressed: %w", limit, record.ErrTooLarge)
	default:
		return nil, &record.CorruptError{What: "gzip stream", Err: err}
	}
}

func appendHead(dst []byte, magic string, timeMicros int64, n int) []byte {
	le := binary.LittleEndian
	dst = append(dst, magic...)
	dst = le.AppendUint16(dst, version)
	dst = le.AppendUint64(dst, uint64(timeMicros))
	dst = le.AppendUint32(dst, uint32(n))
	var reserved [14]byte
	return append(dst, reserved[:]...)
}

// decodeHead decodes the head that both files of version 1 share, and checks that its n items of
// itemSize bytes are present.
func decodeHead(b []byte, magic string, itemSize int) (timeMicros int64, n int, err error) {
	if len(b) < headSize {
		return 0, 0, &record.CorruptError{What: "head length", Want: headSize, Got: int64(len(b))}
	}
	if string(b[:versionPos]) != magic {
		return 0, 0, &record.CorruptError{What: "magic"}
	}
	le := binary.LittleEndian
	if v := le.Uint16(b[versionPos:]); v != version {
		return 0, 0, &record.CorruptError{What: "version", Pos: versionPos, Want: version, Got: int64(int16(v)), Err: record.ErrUnknownVersion}
	}
	count := int64(le.Uint32(b[14:]))
	if fits := int64(len(b)-headSize) / int64(itemSize); count > fits {
		return 0, 0, &record.CorruptError{What: "number of items", Pos: 14, Want: fits, Got: count}
	}
	return int64(le.Uint64(b[6:])), int(count), nil
}

// OffsetsFile is an offsets file of version 1: the first offset of every batch file of a topic.
// Little-endian, never gzipped:
//
//	0 magic "seb@"     14 number of offsets N u32
//	4 version i16 = 1  18 zeros 14
//	6 time i64, µs     32 N * u64
type OffsetsFile struct {
	// Time is the time of writing, in microseconds since the Unix epoch.
	Time int64
	// Offsets are ascending.
	Offsets []uint64
}

// EncodeOffsets appends the file to dst.
func EncodeOffsets(dst []byte, f OffsetsFile) []byte {
	dst = appendHead(dst, MagicOffsets, f.Time, len(f.Offsets))
	for _, o := range f.Offsets {
		dst = binary.LittleEndian.AppendUint64(dst, o)
	}
	return dst
}

// DecodeOffsets decodes an offsets file of version 1, which must end with its last offset. Errors
// are ErrCorrupt.
func DecodeOffsets(b []byte) (OffsetsFile, error) {
	timeMicros, n, err := decodeHead(b, MagicOffsets, 8)
	if err != nil {
		return OffsetsFile{}, err
	}
	if len(b) != headSize+8*n {
		return OffsetsFile{}, &record.CorruptError{What: "file length", Want: int64(headSize + 8*n), Got: int64(len(b))}
	}
	offsets := make([]uint64, n) // bounded, because b has the bytes
	for i := range offsets {
		pos := headSize + 8*i
		offsets[i] = binary.LittleEndian.Uint64(b[pos:])
		if i > 0 && offsets[i] <= offsets[i-1] {
			return OffsetsFile{}, &record.CorruptError{What: "offsets do not ascend", Pos: int64(pos), Want: int64(offsets[i-1]) + 1, Got: int64(offsets[i])}
		}
	}
	return OffsetsFile{Time: timeMicros, Offsets: offsets}, nil
}
