package record

import (
	"bufio"
	"errors"
	"io"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/codec"
)

// Reader iterates over the records of concatenated stored batches. The zero Reader needs Reset.
// Reset may be called any number of times and keeps the buffers. The Reader verifies the checksum
// of each batch that it opens.
//
//	r.Reset(b, from)
//	for r.Next() {
//		use(r.Record())
//	}
//	return r.Err()
//
// The Reader allocates nothing per record. Keys, values and headers (also header keys, although
// they are strings) alias b. Those of a compressed batch alias a buffer of the Reader, which the
// next batch overwrites.
type Reader struct {
	// Limits bounds the decompression of each batch; BatchBytes is ignored. Set it before Reset.
	Limits Limits
	// Gaps lets a batch begin beyond the end of the one before, as in an answer of the broker that leaves out
	// batches of transactions.
	Gaps bool

	rest []byte // batches that are not opened yet
	size int    // bytes given to Reset
	from int64

	opened  bool // a batch was opened, so next is valid
	next    int64
	batch   Batch
	records []byte // remaining records of the open batch
	left    int    // number of records in records
	last    int    // offset delta of the last record, or -1

	raw     rawRecord
	offset  int64
	rec     Record
	headers []Header
	inflate []byte
	err     error
}

// Reset starts over with the concatenated batches in b, which must not change while the Reader uses
// them. The Reader skips records below offset from, and does not check batches that are completely
// below it.
func (r *Reader) Reset(b []byte, from int64) {
	r.rest, r.size, r.from = b, len(b), from
	r.opened, r.next, r.batch, r.records, r.left, r.last = false, 0, nil, nil, 0, -1
	r.raw, r.rec, r.err = rawRecord{}, Record{}, nil
}

// Next advances to the next record. It returns false at the end or on an error; see Err.
func (r *Reader) Next() bool {
	if !r.step() {
		return false
	}
	r.headers = r.headers[:0]
	if fault := r.raw.parseHeaders(&r.headers); fault != "" {
		return r.corrupt("record headers: "+fault, nil)
	}
	r.rec = Record{Offset: r.offset, Timestamp: r.timestamp(), Key: r.raw.key, Value: r.raw.value}
	if len(r.headers) > 0 {
		r.rec.Headers = r.headers
	}
	return true
}

// Record returns the current record. The next call of Next overwrites it.
func (r *Reader) Record() *Record { return &r.rec }

// NextValue advances like Next and returns only the value (nil for null). It does not update
// Record, and is the fast path for values. ok is false at the end or on an error. Offset returns
// the offset of the value.
func (r *Reader) NextValue() (value []byte, ok bool) {
	if !r.step() {
		return nil, false
	}
	return r.raw.value, true
}

// Offset returns the offset of the current record.
func (r *Reader) Offset() int64 { return r.offset }

// Err returns the reason for the end of the iteration: nil at the end of the data, a *CorruptError,
// or an *InvalidError that is ErrTooLarge if a batch decompresses to more than Limits allow.
func (r *Reader) Err() error { return r.err }

func (r *Reader) timestamp() int64 {
	if r.batch.Attributes()&AttrLogAppendTime != 0 {
		return r.batch.MaxTimestamp()
	}
	return r.batch.BaseTimestamp() + r.raw.timeDelta
}

// step parses the next record from r.from on into r.raw.
func (r *Reader) step() bool {
	for {
		for r.left > 0 {
			if r.err != nil {
				return false
			}
			n, fault := parseRecord(r.records, &r.raw)
			if fault != "" {
				return r.corrupt("record: "+fault, nil)
			}
			delta := r.raw.offsetDelta
			if delta <= r.last || int64(delta) >= r.batch.Span() {
				return r.corrupt("record offset", nil)
			}
			r.records, r.last = r.records[n:], delta
			r.left--
			if r.offset = r.batch.BaseOffset() + int64(delta); r.offset >= r.from {
				return true
			}
		}
		if len(r.records) > 0 && r.err == nil {
			return r.corrupt("bytes after the last record", nil)
		}
		if r.err != nil || len(r.rest) == 0 || !r.open() {
			return false
		}
	}
}

// open opens the next batch.
func (r *Reader) open() bool {
	batch, rest, err := splitStored(r.rest, int64(r.size-len(r.rest)))
	if err != nil {
		r.err = err
		return false
	}
	base, want := batch.BaseOffset(), r.next
	if !r.opened || r.Gaps && base > want {
		want = base
	}
	r.batch, r.rest, r.opened, r.next = batch, rest, true, base+batch.Span()
	r.records, r.left, r.last = nil, 0, -1
	if base != want {
		return r.corrupt("batch base offset", nil)
	}
	if r.next <= r.from {
		return true
	}
	if batch.checksum() != batch.CRC() {
		return r.corrupt("batch checksum", nil)
	}
	if batch.Control() {
		return true // markers are no records
	}
	r.records, r.left = batch[BatchHeadSize:], batch.Count()
	if kind := batch.Compression(); kind != None && r.left > 0 {
		return r.decompress(kind)
	}
	return true
}

// decompress replaces r.records by their decompressed bytes.
func (r *Reader) decompress(kind Compression) bool {
	limits := r.Limits.withDefaults()
	limit, field := limits.inflateLimit(len(r.records), limits.DecompressedBytes)
	f, err := codec.Open(codec.Kind(kind), r.records, limit)
	if err != nil {
		return r.corrupt("compressed records", err)
	}
	defer f.Close()
	buf := r.inflate[:0]
	if cap(buf) == 0 {
		buf = make([]byte, 0, min(limit, int64(4*len(r.records)+512)))
	}
	for {
		if len(buf) == cap(buf) {
			// Grow by one byte more than the limit, to detect the end. append would leave five
			// times as much garbage.
			buf = slices.Grow(buf, int(max(1, min(limit+1, 2*int64(cap(buf)))-int64(len(buf)))))
		}
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err == codec.ErrLimit {
			r.inflate, r.left = buf, 0
			r.err = inflatedMore(kind, field, limit)
			return false
		}
		if err != nil {
			r.inflate = buf
			return r.corrupt("compressed records", err)
		}
	}
	r.inflate, r.records = buf, buf
	return true
}

// SetBuffer sets the buffer for decompressed batches, until TakeBuffer. The Reader replaces a
// buffer that is too small by larger ones. A batch needs its decompressed size and one byte.
func (r *Reader) SetBuffer(buf []byte) { r.inflate = buf[:0] }

// TakeBuffer returns the buffer of decompressed batches, nil if there is none, and takes it from
// the Reader. Records of compressed batches become invalid.
func (r *Reader) TakeBuffer() []byte {
	buf := r.inflate
	r.inflate, r.records, r.left = nil, nil, 0
	return buf
}

// corrupt ends the iteration with an error in the open batch.
func (r *Reader) corrupt(what string, err error) bool {
	pos := r.size - len(r.rest) - len(r.batch)
	r.err = &CorruptError{What: what, Pos: int64(pos), Err: err}
	r.left = 0
	return false
}

// recordScan checks the records of one incoming batch and finds their smallest and largest
// timestamp.
type recordScan struct {
	count    int
	baseTime int64
	min, max int64
}

func (s *recordScan) record(i int, timeDelta int64, offsetDelta int) *InvalidError {
	if offsetDelta != i {
		return &InvalidError{Field: FieldOffsetDelta, Reason: "offset deltas are not 0, 1, 2, ...", Limit: int64(i), Given: int64(offsetDelta)}
	}
	t := s.baseTime + timeDelta
	if (t < s.baseTime) != (timeDelta < 0) {
		return &InvalidError{Field: FieldTimestamp, Reason: "timestamp overflows", Limit: s.baseTime, Given: timeDelta}
	}
	s.min, s.max = min(s.min, t), max(s.max, t)
	return nil
}

func headersFault(fault string, count int) *InvalidError {
	return &InvalidError{Field: FieldHeaders, Reason: fault, Limit: HeadersMax, Given: int64(count)}
}

// plain scans uncompressed records: exactly count of them, and no bytes after them.
func (s *recordScan) plain(b []byte) *InvalidError {
	var r rawRecord
	for i := range s.count {
		n, fault := parseRecord(b, &r)
		if fault != "" {
			return &InvalidError{Field: FieldRecord, Reason: fault, Given: int64(i)}
		}
		if fault := s.record(i, r.timeDelta, r.offsetDelta); fault != nil {
			return fault
		}
		if fault := r.parseHeaders(nil); fault != "" {
			return headersFault(fault, r.headerCount)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return &InvalidError{Field: FieldLength, Reason: "bytes after the last record", Given: int64(len(b))}
	}
	return nil
}

// stream is plain for decompressed records, without keeping them in memory.
func (s *recordScan) stream(r *bufio.Reader) *InvalidError {
	f := fieldReader{r: r}
	for i := range s.count {
		f.left = 5
		f.left = f.varint32(0)
		f.skip(1)
		timeDelta := f.varint64()
		offsetDelta := f.varint32(-1 << 31)
		if f.err != nil {
			return f.fault(i)
		}
		if fault := s.record(i, timeDelta, offsetDelta); fault != nil {
			return fault
		}
		f.skip(f.varint32(-1)) // key
		f.skip(f.varint32(-1)) // value
		headers := f.varint32(0)
		if headers > HeadersMax {
			return headersFault("too many headers", headers)
		}
		for range headers {
			f.skip(f.varint32(0))
			f.skip(f.varint32(-1))
		}
		if f.err != nil {
			return f.fault(i)
		}
		if f.left != 0 {
			return headersFault("length and fields do not match", headers)
		}
	}
	switch _, err := r.ReadByte(); err {
	case nil:
		return &InvalidError{Field: FieldLength, Reason: "bytes after the last record"}
	case io.EOF:
		return nil
	default:
		return &InvalidError{Field: FieldCompression, Reason: "after the last record", Err: err}
	}
}

var errField = errors.New("length does not fit")

// fieldReader reads the fields of one record with left remaining bytes. It keeps the first error.
type fieldReader struct {
	r    *bufio.Reader
	left int
	err  error
}

func (f *fieldReader) fault(i int) *InvalidError {
	if f.err == errField {
		return &InvalidError{Field: FieldRecord, Reason: f.err.Error(), Given: int64(i)}
	}
	err := f.err
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &InvalidError{Field: FieldRecord, Reason: "read record", Given: int64(i), Err: err}
}

// peek returns up to n of the next bytes without consuming them.
func (f *fieldReader) peek(n int) []byte {
	if f.err != nil {
		return nil
	}
	b, err := f.r.Peek(min(n, f.left))
	if err != nil && err != io.EOF {
		f.err = err
		return nil
	}
	return b
}

func (f *fieldReader) skip(n int) {
	if n <= 0 || f.err != nil {
		return
	}
	if n > f.left {
		f.err = errField
		return
	}
	f.left -= n
	_, f.err = f.r.Discard(n)
}

// varint32 reads a varint and fails if it is below lowest.
func (f *fieldReader) varint32(lowest int) int {
	v, n := varint32(f.peek(5))
	if f.err == nil && (n == 0 || v < lowest) {
		f.err = errField
	}
	f.skip(n)
	if f.err != nil {
		return 0
	}
	return v
}

func (f *fieldReader) varint64() int64 {
	v, n := varint64(f.peek(10))
	if f.err == nil && n == 0 {
		f.err = errField
	}
	f.skip(n)
	return v
}
