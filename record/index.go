package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// IndexEntrySize is the length of an encoded IndexEntry.
const IndexEntrySize = 68

// IndexEntry locates the batches of one partition in an object. A DATA object has one entry per
// partition, a pack one entry per object that the batches come from. Little-endian:
//
//	 0 topic id 16     28 offset span u32           44 min record timestamp i64, ms
//	16 partition u32   32 records u32               52 max record timestamp i64, ms
//	20 base offset i64 36 byte offset in object u32 60 append time i64, microseconds
//	                   40 length in bytes u32
type IndexEntry struct {
	Topic     ID
	Partition uint32
	// Base is the offset of the first record. The batches have Span offsets and Records records.
	Base          int64
	Span, Records uint32
	// Pos and Len locate the bytes in the object. EncodeObject sets Pos.
	Pos, Len uint32
	// MinTime and MaxTime are record timestamps in milliseconds.
	MinTime, MaxTime int64
	// AppendTime is in microseconds.
	AppendTime int64
}

func appendIndexEntry(dst []byte, e *IndexEntry) []byte {
	le := binary.LittleEndian
	dst = append(dst, e.Topic[:]...)
	dst = le.AppendUint32(dst, e.Partition)
	dst = le.AppendUint64(dst, uint64(e.Base))
	dst = le.AppendUint32(dst, e.Span)
	dst = le.AppendUint32(dst, e.Records)
	dst = le.AppendUint32(dst, e.Pos)
	dst = le.AppendUint32(dst, e.Len)
	dst = le.AppendUint64(dst, uint64(e.MinTime))
	dst = le.AppendUint64(dst, uint64(e.MaxTime))
	return le.AppendUint64(dst, uint64(e.AppendTime))
}

func decodeIndexEntry(b []byte) IndexEntry {
	le := binary.LittleEndian
	return IndexEntry{
		Topic: ID(b[:16]), Partition: le.Uint32(b[16:]), Base: int64(le.Uint64(b[20:])), Span: le.Uint32(b[28:]),
		Records: le.Uint32(b[32:]), Pos: le.Uint32(b[36:]), Len: le.Uint32(b[40:]), MinTime: int64(le.Uint64(b[44:])),
		MaxTime: int64(le.Uint64(b[52:])), AppendTime: int64(le.Uint64(b[60:])),
	}
}

// checkIndex checks that the entries of an object's index cover its batches without gaps, and that
// their fields are in range. h.ObjectLen must be set.
func checkIndex(h *Head, index []IndexEntry) error {
	pos, records := h.metaEnd(), uint64(0)
	for i := range index {
		e := &index[i]
		at := int64(HeadSize) + int64(h.StateLen) + int64(i)*IndexEntrySize
		switch {
		case uint64(e.Pos) != pos || e.Len < BatchHeadSize:
			return &CorruptError{What: "index: position of batches", Pos: at, Want: int64(pos), Got: int64(e.Pos)}
		case e.Span == 0 || e.Records > e.Span:
			return &CorruptError{What: "index: number of records", Pos: at, Want: int64(e.Span), Got: int64(e.Records)}
		case e.Base < 0 || e.Base > math.MaxInt64-int64(e.Span):
			return &CorruptError{What: "index: base offset", Pos: at, Got: e.Base}
		case i > 0 && h.Kind == KindPack && compareEntries(&index[i-1], e) >= 0:
			return &CorruptError{What: "index: pack not sorted by topic, partition, base offset", Pos: at}
		}
		pos += uint64(e.Len)
		records += uint64(e.Records)
	}
	if pos != h.ObjectLen {
		return &CorruptError{What: "index: end of batches", Want: int64(h.ObjectLen), Got: int64(pos)}
	}
	if records != uint64(h.Records) {
		return &CorruptError{What: "number of records", Pos: 14, Want: int64(records), Got: int64(h.Records)}
	}
	return nil
}

// compareEntries is the order of entries in a pack.
func compareEntries(a, b *IndexEntry) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
}
