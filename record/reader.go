package record

import (
	"io"
	"slices"

	"github.com/sebbroker/seb/internal/codec"
)

// Reader iterates over the records of concatenated stored batches. The zero Reader needs Reset; it may be reset any
// number of times and keeps its buffers. It checks the checksum of each batch that it opens.
//
//	r.Reset(b, from)
//	for r.Next() {
//		use(r.Record())
//	}
//	return r.Err()
//
// Nothing is allocated per record. Keys, values and headers (their keys too, although they are strings) alias b, or for
// a compressed batch a buffer of the Reader: the latter are overwritten when the Reader moves on to the next batch.
type Reader struct {
	// Limits bounds the decompression of each batch; BatchBytes is not looked at. Set it before Reset.
	Limits Limits

	rest []byte // the batches not yet opened
	size int    // of what Reset was given
	from int64

	opened  bool // a batch was opened, so next holds
	next    int64
	batch   Batch
	records []byte // what is left of the open batch's records
	left    int    // records left in it
	last    int    // offset delta of the last record, or -1

	raw     rawRecord
	offset  int64
	rec     Record
	headers []Header
	inflate []byte
	err     error
}

// Reset starts over with the concatenated batches in b, which must not change while the Reader is in use. Records below
// offset from are skipped, and batches wholly below it are not even checked.
func (r *Reader) Reset(b []byte, from int64) {
	r.rest, r.size, r.from = b, len(b), from
	r.opened, r.next, r.batch, r.records, r.left, r.last = false, 0, nil, nil, 0, -1
	r.raw, r.rec, r.err = rawRecord{}, Record{}, nil
}

// Next moves on to the next record; false at the end or on an error, see Err.
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

// Record returns the record Next moved to. The Record itself is overwritten by the next call of Next.
func (r *Reader) Record() *Record { return &r.rec }

// NextValue moves on like Next and returns the value alone (nil for null), leaving Record behind; it is the fast path for
// values. ok is false at the end or on an error. Offset tells where the value is from.
func (r *Reader) NextValue() (value []byte, ok bool) {
	if !r.step() {
		return nil, false
	}
	return r.raw.value, true
}

// Offset returns the offset of the record that Next or NextValue moved to.
func (r *Reader) Offset() int64 { return r.offset }

// Err returns what ended the iteration: nil at the end of the data, a *CorruptError, or, where a batch decompresses to
// more than Limits allow, an *InvalidError that is ErrTooLarge.
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

// open takes the next batch.
func (r *Reader) open() bool {
	batch, rest, err := splitStored(r.rest, int64(r.size-len(r.rest)))
	if err != nil {
		r.err = err
		return false
	}
	base, want := batch.BaseOffset(), r.next
	if !r.opened {
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
	r.records, r.left = batch[BatchHeadSize:], batch.Count()
	if kind := batch.Compression(); kind != None && r.left > 0 {
		return r.decompress(kind)
	}
	return true
}

// decompress replaces r.records by what they decompress to.
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
			// More than the limit by a byte, so that its end is seen. append would leave five times as much behind.
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

// SetBuffer gives the Reader a buffer to decompress batches into, until TakeBuffer. A Reader that finds it too small replaces
// it by larger ones, one after the other; what a batch needs is its decompressed size and one byte.
func (r *Reader) SetBuffer(buf []byte) { r.inflate = buf[:0] }

// TakeBuffer returns the buffer that the Reader has decompressed into, nil if there is none, and ends the Reader's use of it:
// the records that it gave of compressed batches are no longer valid.
func (r *Reader) TakeBuffer() []byte {
	buf := r.inflate
	r.inflate, r.records, r.left = nil, nil, 0
	return buf
}

// corrupt ends the iteration with a fault in the open batch.
func (r *Reader) corrupt(what string, err error) bool {
	pos := r.size - len(r.rest) - len(r.batch)
	r.err = &CorruptError{What: what, Pos: int64(pos), Err: err}
	r.left = 0
	return false
}
