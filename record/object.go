package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Object is a decoded object of version 2. State and the batches alias the bytes that it was
// decoded from.
type Object struct {
	Head  Head
	State []byte
	Index []IndexEntry
	data  []byte
}

// Batches returns the concatenated batches of index entry i.
func (o *Object) Batches(i int) []byte {
	e := &o.Index[i]
	end := int(e.Pos) + int(e.Len)
	return o.data[e.Pos:end:end]
}

// batchPrefix is the part of each batch that the body checksum covers: the bytes outside the
// batch's own checksum, and that checksum.
const batchPrefix = posAttributes

// EncodeObject encodes the start of an object: head, state records and index. The object is the
// returned prefix followed by parts. The parts are whole batches in the order of the index entries;
// one part may hold many small batches. The caller sets all fields of the entries except Pos. In h
// the caller sets all fields except Records, ObjectLen, StateLen, IndexCount and the checksums
// other than PrevCRC. EncodeObject sets those.
//
// EncodeObject checks the batches' headers against the entries: lengths, base offsets, spans,
// counts, and in DATA the leader epoch, so call Patch first. It does not verify the batches'
// checksums, so that it does not read the data. On an error h and index are invalid.
func EncodeObject(h *Head, state []byte, index []IndexEntry, parts [][]byte) (prefix []byte, err error) {
	return encodeObject(h, state, index, false, func(w *bodyVerifier) error {
		for _, p := range parts {
			if err := w.part(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// EncodeObjectOf is EncodeObject for an object without state records, whose batches it reads from r.
// It verifies the checksums of the batches, too. It reads into buf, which must not be empty. Errors are
// also those of r, except for io.EOF and io.ErrUnexpectedEOF, which mean that the object is too short.
func EncodeObjectOf(h *Head, index []IndexEntry, r io.Reader, buf []byte) (prefix []byte, err error) {
	return encodeObject(h, nil, index, true, func(w *bodyVerifier) error { return w.readAll(r, buf) })
}

// encodeObject is EncodeObject of the batches that body verifies.
func encodeObject(h *Head, state []byte, index []IndexEntry, checksums bool, body func(w *bodyVerifier) error) (prefix []byte, err error) {
	if err := layOut(h, len(state), index); err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	prefix = make([]byte, HeadSize, h.metaEnd())
	prefix = append(prefix, state...)
	for i := range index {
		prefix = appendIndexEntry(prefix, &index[i])
	}
	h.MetaCRC = CRC32C(prefix[HeadSize:])
	walk := newBodyVerifier(h, index, checksums)
	if err := body(walk); err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	if err := walk.done(); err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	h.BodyCRC = walk.crc
	h.Encode(prefix[:0])
	return prefix, nil
}

// layOut sets the lengths in h and the positions in index, and checks both.
func layOut(h *Head, stateLen int, index []IndexEntry) error {
	if int64(stateLen) > ObjectBytesMax || int64(len(index)) > ObjectBytesMax/IndexEntrySize {
		return fmt.Errorf("%d bytes of state, %d index entries: %w", stateLen, len(index), ErrTooLarge)
	}
	h.StateLen, h.IndexCount = uint32(stateLen), uint32(len(index))
	pos, records := h.metaEnd(), uint64(0)
	for i := range index {
		if pos > ObjectBytesMax {
			break
		}
		index[i].Pos = uint32(pos)
		pos += uint64(index[i].Len)
		records += uint64(index[i].Records)
	}
	if pos > ObjectBytesMax || records > ObjectBytesMax {
		return fmt.Errorf("object over %d bytes or records: %w", int64(ObjectBytesMax), ErrTooLarge)
	}
	h.ObjectLen, h.Records = pos, uint32(records)
	if err := h.check(); err != nil {
		return err
	}
	return checkIndex(h, index)
}

// DecodeMeta decodes head, state records and index from b, the start of an object. If b is too
// short, need is the number of bytes from the object's start for the next call, h is set once its
// bytes are present, and err is nil. An object with fewer bytes is corrupt. Otherwise need is 0,
// state aliases b, and everything except the batches and the body checksum is verified. Errors are
// those of DecodeHead.
func DecodeMeta(b []byte) (h Head, state []byte, index []IndexEntry, need int, err error) {
	if len(b) < HeadSize {
		if len(b) >= versionPos+2 {
			err = checkVersion(b)
		}
		return Head{}, nil, nil, HeadSize, err
	}
	if h, err = DecodeHead(b); err != nil {
		return Head{}, nil, nil, 0, err
	}
	if uint64(len(b)) > h.ObjectLen {
		return Head{}, nil, nil, 0, &CorruptError{What: "object length", Pos: 88, Want: int64(len(b)), Got: int64(h.ObjectLen)}
	}
	end := int(h.metaEnd())
	if len(b) < end {
		return h, nil, nil, end, nil
	}
	meta := b[HeadSize:end:end]
	if crc := CRC32C(meta); crc != h.MetaCRC {
		return Head{}, nil, nil, 0, &CorruptError{What: "state and index checksum", Pos: HeadSize, Want: int64(crc), Got: int64(h.MetaCRC)}
	}
	state = meta[:h.StateLen:h.StateLen]
	index = make([]IndexEntry, h.IndexCount) // bounded, because b has the bytes of all entries
	for i := range index {
		index[i] = decodeIndexEntry(meta[int(h.StateLen)+i*IndexEntrySize:])
	}
	if err := checkIndex(&h, index); err != nil {
		return Head{}, nil, nil, 0, err
	}
	return h, state, index, 0, nil
}

// DecodeObject decodes a whole object and verifies all of it: head, state, index, the body
// checksum, each batch's checksum, and the index against the batches. The result aliases b. Errors
// are those of DecodeHead.
func DecodeObject(b []byte) (*Object, error) {
	h, state, index, need, err := DecodeMeta(b)
	if err != nil {
		return nil, err
	}
	if need > 0 || uint64(len(b)) != h.ObjectLen {
		return nil, &CorruptError{What: "object is too short", Want: int64(max(h.ObjectLen, uint64(need))), Got: int64(len(b))}
	}
	walk := newBodyVerifier(&h, index, true)
	if err := walk.part(b[walk.pos:]); err != nil {
		return nil, err
	}
	if err := walk.done(); err != nil {
		return nil, err
	}
	if walk.crc != h.BodyCRC {
		return nil, &CorruptError{What: "body checksum", Pos: 108, Want: int64(walk.crc), Got: int64(h.BodyCRC)}
	}
	return &Object{Head: h, State: state, Index: index, data: b}, nil
}

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
