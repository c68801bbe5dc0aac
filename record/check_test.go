package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/test/must"
)

var twoRecords = []Record{{Timestamp: 100, Value: []byte("a")}, {Timestamp: 90, Value: []byte("b"), Headers: []Header{{"h", nil}}}}

func TestCheckRefusesHeaders(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*kmsg.RecordBatch)
		field  string // "": accepted
	}{
		{"nothing wrong", func(*kmsg.RecordBatch) {}, ""},
		{"any base offset", func(b *kmsg.RecordBatch) { b.FirstOffset = -77 }, ""},
		{"magic 1", func(b *kmsg.RecordBatch) { b.Magic = 1 }, FieldMagic},
		{"magic 3", func(b *kmsg.RecordBatch) { b.Magic = 3 }, FieldMagic},
		{"log append time", func(b *kmsg.RecordBatch) { b.Attributes = AttrLogAppendTime }, FieldAttributes},
		{"transactional", func(b *kmsg.RecordBatch) { b.Attributes = AttrTransactional }, FieldAttributes},
		{"control", func(b *kmsg.RecordBatch) { b.Attributes = AttrControl }, FieldAttributes},
		{"delete horizon", func(b *kmsg.RecordBatch) { b.Attributes = AttrDeleteHorizon }, FieldAttributes},
		{"unknown bit", func(b *kmsg.RecordBatch) { b.Attributes = math.MinInt16 }, FieldAttributes},
		{"codec 5", func(b *kmsg.RecordBatch) { b.Attributes = 5 }, FieldCompression},
		{"count above the span", func(b *kmsg.RecordBatch) { b.NumRecords = 3 }, FieldCount},
		{"count below the span", func(b *kmsg.RecordBatch) { b.NumRecords = 1 }, FieldCount},
		{"span and count too large", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 }, FieldRecord},
		{"span and count too small", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1, 0 }, FieldLength},
		{"no records", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta, b.Records = 0, -1, nil }, FieldCount},
		{"negative", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = -1, -2 }, FieldCount},
		{"the largest count", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = math.MaxInt32, math.MaxInt32-1 }, FieldRecord},
		{"max timestamp low", func(b *kmsg.RecordBatch) { b.MaxTimestamp = 99 }, FieldTimestamp},
		{"max timestamp high", func(b *kmsg.RecordBatch) { b.MaxTimestamp = 101 }, FieldTimestamp},
		{"max timestamp left out", func(b *kmsg.RecordBatch) { b.MaxTimestamp = -1 }, ""},
		{"timestamps overflow", func(b *kmsg.RecordBatch) { b.FirstTimestamp = math.MinInt64 + 5 }, FieldTimestamp},
		{"idempotent", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1, 0, 0 }, ""},
		{"no producer, any sequence", func(b *kmsg.RecordBatch) { b.ProducerEpoch, b.FirstSequence = 0, 0 }, ""},
		{"producer -2", func(b *kmsg.RecordBatch) { b.ProducerID = -2 }, FieldProducer},
		{"producer without epoch", func(b *kmsg.RecordBatch) { b.ProducerID, b.FirstSequence = 1, 0 }, FieldProducer},
		{"producer without sequence", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 1, 0 }, FieldSequence},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Check(kmsgEncode(twoRecords, c.change), Limits{})
			wantField(t, err, c.field)
		})
	}
}

// TestCheckRepair: CheckRepair corrects the max timestamps of several batches, and the result
// equals batches that were sent correctly. It finds damage before it writes.
func TestCheckRepair(t *testing.T) {
	good := kmsgEncode(twoRecords, func(*kmsg.RecordBatch) {})
	given := bytes.Clone(good)
	for _, m := range []int64{101, math.MaxInt64, 99, -1, math.MinInt64} {
		given = append(given, kmsgEncode(twoRecords, func(b *kmsg.RecordBatch) { b.MaxTimestamp = m })...)
	}
	sum, err := CheckRepair(given, Limits{})
	if err != nil || sum.Batches != 6 || sum.MaxTimestamp != 100 || sum.MinTimestamp != 90 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if want := bytes.Repeat(good, 6); !bytes.Equal(given, want) {
		t.Errorf("repaired to\n%x, want\n%x", given, want)
	}
	broken := kmsgEncode(twoRecords, func(b *kmsg.RecordBatch) { b.MaxTimestamp = 101 })
	broken[len(broken)-1] ^= 1
	was := bytes.Clone(broken)
	_, err = CheckRepair(broken, Limits{})
	wantField(t, err, FieldCRC)
	if !bytes.Equal(broken, was) {
		t.Error("a damaged batch was written to")
	}
}

// fieldAny accepts any field, for errors that several fields can describe.
const fieldAny = "*"

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *InvalidError
	switch {
	case field == "" && err != nil:
		t.Fatal(err)
	case field != "" && (!errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) || field != fieldAny && invalid.Field != field):
		t.Fatalf("%v, want field %q", err, field)
	}
}

// rawFields is a record with freely chosen fields.
type rawFields struct {
	length, offset, key, value, headers int64
	tail                                []byte
}

func (f rawFields) encode() []byte {
	b := []byte{0, 0}
	b = binary.AppendVarint(b, f.offset)
	b = binary.AppendVarint(b, f.key)
	b = binary.AppendVarint(b, f.value)
	b = binary.AppendVarint(b, f.headers)
	b = append(b, f.tail...)
	return append(binary.AppendVarint(nil, int64(len(b))+f.length), b...)
}

// Check refuses each invalid record, plain or compressed.
func TestCheckRefusesRecords(t *testing.T) {
	manyHeaders := bytes.Repeat([]byte{0, 1}, HeadersMax+1)
	for _, c := range []struct {
		name  string
		first []byte
		field string
	}{
		{"nothing wrong", rawFields{key: -1, value: -1}.encode(), ""},
		{"the most headers", rawFields{key: -1, value: -1, headers: HeadersMax, tail: manyHeaders[2:]}.encode(), ""},
		{"too many headers", rawFields{key: -1, value: -1, headers: HeadersMax + 1, tail: manyHeaders}.encode(), FieldHeaders},
		{"offset delta 1", rawFields{offset: 1, key: -1, value: -1}.encode(), FieldOffsetDelta},
		{"offset delta -1", rawFields{offset: -1, key: -1, value: -1}.encode(), FieldOffsetDelta},
		{"key length -2", rawFields{key: -2, value: -1}.encode(), FieldRecord},
		{"value length -2", rawFields{key: -1, value: -2}.encode(), FieldRecord},
		{"key beyond the record", rawFields{key: 5, value: -1}.encode(), FieldRecord},
		{"huge value", rawFields{key: -1, value: math.MaxInt32}.encode(), FieldRecord},
		{"value over 32 bits", rawFields{key: -1, value: 1 << 33}.encode(), FieldRecord},
		{"header count -1", rawFields{key: -1, value: -1, headers: -1}.encode(), FieldRecord},
		{"length too long", rawFields{key: -1, value: -1, length: 1}.encode(), fieldAny},
		{"length too short", rawFields{key: -1, value: -1, length: -1}.encode(), fieldAny},
		{"length negative", []byte{1}, FieldRecord},
		{"length of six bytes", []byte{0x8c, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 1, 1, 0}, FieldRecord},
		{"empty record", []byte{0}, FieldRecord},
	} {
		second := rawFields{offset: 1, key: -1, value: -1}.encode()
		plain := append(bytes.Clone(c.first), second...)
		for codec := None; codec <= Zstd; codec++ {
			b := kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) {
				kb.MaxTimestamp, kb.Records, kb.Attributes = 100, plain, int16(codec)
				if codec != None {
					var err error
					if kb.Records, err = deflate(codec, plain); err != nil {
						t.Fatal(err)
					}
				}
			})
			_, err := Check(b, Limits{})
			t.Run(c.name+"/"+codec.String(), func(t *testing.T) { wantField(t, err, c.field) })
		}
	}
}

func TestCheckRefusesBytes(t *testing.T) {
	good := kmsgEncode(twoRecords, nil)
	second := kmsgEncode(twoRecords, nil)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	long := bytes.Clone(good)
	binary.BigEndian.PutUint32(long[posLength:], math.MaxUint32/2)
	short := bytes.Clone(good)
	binary.BigEndian.PutUint32(short[posLength:], 48)
	negative := bytes.Clone(good)
	binary.BigEndian.PutUint32(negative[posLength:], math.MaxUint32)
	for _, c := range []struct {
		name  string
		b     []byte
		batch int
		field string
	}{
		{"nothing", nil, 0, FieldLength},
		{"one byte", good[:1], 0, FieldLength},
		{"cut off", good[:len(good)-1], 0, FieldLength},
		{"length too long", long, 0, FieldLength},
		{"length too short", short, 0, FieldLength},
		{"length negative", negative, 0, FieldLength},
		{"a flipped bit", flipped, 0, FieldCRC},
		{"a flipped bit in the second", append(bytes.Clone(second), flipped...), 1, FieldCRC},
		{"half a second batch", append(bytes.Clone(good), second[:30]...), 1, FieldLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Check(c.b, Limits{})
			wantField(t, err, c.field)
			var invalid *InvalidError
			if errors.As(err, &invalid); invalid.Batch != c.batch {
				t.Errorf("batch %d, want %d", invalid.Batch, c.batch)
			}
			if _, err := Verify(c.b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}

func TestCheckFollowsSequences(t *testing.T) {
	batch := func(id int64, epoch int16, seq int32) []byte {
		return kmsgEncode(twoRecords, func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, epoch, seq })
	}
	for _, c := range []struct {
		name  string
		b     [][]byte
		field string
	}{
		{"one after another", [][]byte{batch(1, 0, 5), batch(1, 0, 7), batch(1, 0, 9)}, ""},
		{"wrapping to 0", [][]byte{batch(1, 0, math.MaxInt32), batch(1, 0, 1)}, ""},
		{"a gap", [][]byte{batch(1, 0, 5), batch(1, 0, 8)}, FieldSequence},
		{"twice the same", [][]byte{batch(1, 0, 5), batch(1, 0, 5)}, FieldSequence},
		{"two producers", [][]byte{batch(1, 0, 5), batch(2, 0, 7)}, FieldProducer},
		{"two epochs", [][]byte{batch(1, 0, 5), batch(1, 1, 7)}, FieldProducer},
		{"with and without", [][]byte{batch(1, 0, 5), batch(-1, -1, -1)}, FieldProducer},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Check(bytes.Join(c.b, nil), Limits{})
			wantField(t, err, c.field)
			if err == nil && (s.BaseSequence != Batch(c.b[0]).BaseSequence() || s.Records != 2*len(c.b) || s.ProducerID != 1) {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestCheckLimits(t *testing.T) {
	big := []Record{{Value: make([]byte, 3<<20)}}
	for codec := Gzip; codec <= Zstd; codec++ {
		b, sum := must.Get2(Append(nil, big, EncodeOptions{Compression: codec}))(t)
		uncompressed, _ := must.Get2(Append(nil, big, EncodeOptions{}))(t)
		plain := len(uncompressed) - BatchHeadSize
		for _, c := range []struct {
			name  string
			l     Limits
			field string
		}{
			{"default decompressed size", Limits{Ratio: 1 << 20}, ""},
			{"bytes at the limit", Limits{Ratio: 1 << 20, DecompressedBytes: int64(plain)}, ""},
			{"bytes over the limit", Limits{Ratio: 1 << 20, DecompressedBytes: int64(plain) - 1}, FieldDecompressed},
			{"ratio over the limit", Limits{Ratio: 2}, FieldCompressionRatio},
			{"batch at the limit", Limits{Ratio: 1 << 20, BatchBytes: len(b)}, ""},
			{"batch over the limit", Limits{BatchBytes: len(b) - 1}, FieldBatchBytes},
		} {
			t.Run(codec.String()+"/"+c.name, func(t *testing.T) {
				got, err := Check(b, c.l)
				wantField(t, err, c.field)
				if (c.field != "") != errors.Is(err, ErrTooLarge) {
					t.Error(err)
				}
				if err == nil && got != sum {
					t.Errorf("%+v, want %+v", got, sum)
				}
			})
		}
		twice := append(bytes.Clone(b), b...)
		if _, err := Check(twice, Limits{Ratio: 1 << 20, DecompressedBytes: int64(2*plain) - 1}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: two batches exceed the limit together: %v", codec, err)
		}
		r := Reader{Limits: Limits{Ratio: 2}}
		r.Reset(b, 0)
		if r.Next() || !errors.Is(r.Err(), ErrTooLarge) || r.Next() {
			t.Errorf("%s: Reader: %v", codec, r.Err())
		}
	}
}

// Compressed data that Check must accept or refuse.
func TestCheckCompressedForms(t *testing.T) {
	plain := append(rawFields{key: -1, value: -1}.encode(), rawFields{offset: 1, key: -1, value: -1}.encode()...)
	z := func(codec Compression) []byte {
		b := must.Get(deflate(codec, plain))(t)
		return b
	}
	wide := must.Get(zstd.NewWriter(nil, zstd.WithWindowSize(16<<20), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false)))(t)
	var wideFrame bytes.Buffer
	wide.Reset(&wideFrame)
	wide.Write(plain)
	wide.Flush() // so that the size is unknown and the window is written
	must.NoError(t, wide.Close())
	for _, c := range []struct {
		name  string
		codec Compression
		b     []byte
		ok    bool
	}{
		{"raw snappy", Snappy, s2.EncodeSnappy(nil, plain), true},
		{"xerial snappy", Snappy, z(Snappy), true},
		{"xerial head only", Snappy, z(Snappy)[:16], false},
		{"xerial half a head", Snappy, z(Snappy)[:12], false},
		{"xerial cut off", Snappy, z(Snappy)[:len(z(Snappy))-1], false},
		{"xerial with half a length", Snappy, append(z(Snappy), 0, 0), false},
		{"snappy that claims 4 GiB", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'a'}, false},
		{"snappy that claims 16 MiB", Snappy, binary.AppendUvarint(nil, 16<<20), false},
		{"two gzip members", Gzip, append(z(Gzip), z(Gzip)...), false},
		{"gzip and a byte", Gzip, append(z(Gzip), 0), false},
		{"gzip cut off", Gzip, z(Gzip)[:len(z(Gzip))-1], false},
		{"lz4 and a byte", LZ4, append(z(LZ4), 0), false},
		{"lz4 cut off", LZ4, z(LZ4)[:len(z(LZ4))-5], false},
		{"lz4 legacy frame", LZ4, []byte{0x02, 0x21, 0x4c, 0x18, 1, 0, 0, 0, 0}, false},
		{"zstd and a byte", Zstd, append(z(Zstd), 0), false},
		{"zstd cut off", Zstd, z(Zstd)[:len(z(Zstd))-1], false},
		{"zstd window of 16 MiB", Zstd, wideFrame.Bytes(), false},
		{"nothing", Gzip, nil, false},
		{"nothing", Snappy, nil, false},
		{"nothing", LZ4, nil, false},
		{"nothing", Zstd, nil, false},
		{"not compressed", Gzip, plain, false},
		{"not compressed", LZ4, plain, false},
		{"not compressed", Zstd, plain, false},
	} {
		t.Run(c.codec.String()+"/"+c.name, func(t *testing.T) {
			b := kmsgEncode(twoRecords, func(kb *kmsg.RecordBatch) { kb.Records, kb.Attributes = c.b, int16(c.codec) })
			s, err := Check(b, Limits{})
			var r Reader
			n := 0
			for r.Reset(b, 0); r.Next(); n++ {
			}
			if c.ok && (err != nil || s.Records != 2 || r.Err() != nil || n != 2) {
				t.Fatalf("%+v, %v; read %d, %v", s, err, n, r.Err())
			}
			if !c.ok && (!errors.Is(err, ErrInvalid) || !errors.Is(r.Err(), ErrCorrupt)) {
				t.Fatalf("%v; reader: %v", err, r.Err())
			}
		})
	}
}

func TestStampAppendTime(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b, _ := must.Get2(Append(nil, twoRecords, EncodeOptions{Compression: codec}))(t)
		b = append(b, b...)
		Patch(b, 5, 1)
		StampAppendTime(b, 777)
		s, err := Verify(b)
		must.NoErrorf(t, err, "%s", codec)
		if s.MinTimestamp != 777 || s.MaxTimestamp != 777 {
			t.Errorf("%s: %+v", codec, s)
		}
		for _, r := range readAll(t, b, 0) {
			if r.Timestamp != 777 {
				t.Errorf("%s: offset %d has timestamp %d", codec, r.Offset, r.Timestamp)
			}
		}
		if first, _, _ := Split(b); first.Attributes() != AttrLogAppendTime|int16(codec) || first.BaseTimestamp() != 100 {
			t.Errorf("%s: attributes %x", codec, first.Attributes())
		}
		b[len(b)-1] ^= 1
		StampAppendTime(b, 778)
		if _, err := Verify(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: stamping hid a flipped bit: %v", codec, err)
		}
	}
}
