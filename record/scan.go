package record

import (
	"bufio"
	"errors"
	"io"
)

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
