package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Layout of a record in a Frame: length varint, attributes 0, timestamp delta 0, offset delta
// varint, key -1, value length varint, value, 0 headers.
const (
	frameFixed = 4 // the four single bytes
	frameMax   = math.MaxInt32 - BatchHeadSize - 4*binary.MaxVarintLen32
	// frameChecksum bounds the bytes that are read but not yet in the checksum, so that they are
	// still in the CPU's cache.
	frameChecksum = 32 << 10
)

// Frame builds batches from values that arrive on a socket, without copying them. The sizes are
// known in advance, so each value is read directly into its final position. Keys are null, there
// are no headers, and all records have the same timestamp.
//
//	f, err := NewFrame(sizes, now, pool.Get(FrameLen(sizes)))
//	_, err = f.ReadFrom(conn)
//	batches, summary, err := f.Finish()
//
// Reset prepares a Frame for other values. The zero Frame needs Reset first.
type Frame struct {
	buf       []byte
	sizes     []uint32
	timestamp int64
	batches   int

	next  int // the record to read next
	first int // first record of the open batch
	end   int // first record after the open batch; equals next when no batch is open
	start int // start of the open batch
	pos   int // position of the next byte
	crc   uint32
	crcAt int // the checksum covers [start+posAttributes, crcAt)
	err   error
}

// FrameLen returns the exact number of bytes of a Frame with values of these sizes. It returns 0 if
// there are no values or one is too large for a batch (near 2 GiB).
func FrameLen(sizes []uint32) int {
	total := 0
	for len(sizes) > 0 {
		n, size := planFrame(sizes)
		if n == 0 {
			return 0
		}
		total += size
		sizes = sizes[n:]
	}
	return total
}

// planFrame returns the number of values in the next batch, and its bytes; n is 0 if the first
// value is too large.
func planFrame(sizes []uint32) (n, size int) {
	size = BatchHeadSize
	for i, v := range sizes {
		if v > frameMax {
			break // the caller finds it as the first value of the next batch
		}
		body := frameFixed + varintSize(int64(i)) + varintSize(int64(v)) + int(v)
		whole := varintSize(int64(body)) + body
		if i > 0 && size+whole > BatchTarget {
			return i, size
		}
		size += whole
		n = i + 1
	}
	return n, size
}

// NewFrame returns a Frame for values of the given sizes in bytes. The timestamp is in
// milliseconds. The Frame writes into buf[:FrameLen(sizes)], or into its own buffer if buf is nil;
// a smaller buf is an error. The Frame uses both slices until Finish, and the result aliases buf.
func NewFrame(sizes []uint32, timestamp int64, buf []byte) (*Frame, error) {
	f := new(Frame)
	if err := f.Reset(sizes, timestamp, buf); err != nil {
		return nil, err
	}
	return f, nil
}

// Reset gives f the state that NewFrame returns for these arguments. It allocates nothing if buf is
// given.
func (f *Frame) Reset(sizes []uint32, timestamp int64, buf []byte) error {
	*f = Frame{err: errFrameUnset}
	n := FrameLen(sizes)
	switch {
	case len(sizes) == 0:
		return errors.New("frame: no records")
	case n == 0:
		return fmt.Errorf("frame: value over %d bytes: %w", frameMax, ErrTooLarge)
	case buf == nil:
		buf = make([]byte, n)
	case cap(buf) < n:
		return fmt.Errorf("frame: buffer of %d bytes, need %d", cap(buf), n)
	}
	*f = Frame{buf: buf[:n], sizes: sizes, timestamp: timestamp}
	return nil
}

var errFrameUnset = errors.New("frame: Reset was not called")

// Len returns the number of bytes that Finish will return.
func (f *Frame) Len() int { return len(f.buf) }

// ReadFrom reads the remaining values from r, one after another without a separator, and returns
// the number of bytes. It reads nothing after them. Values in the buffer of a *bufio.Reader are the
// cheapest. Too few bytes is an error that wraps io.ErrUnexpectedEOF. After an error the Frame
// needs Reset.
func (f *Frame) ReadFrom(r io.Reader) (int64, error) {
	buffered, _ := r.(*bufio.Reader)
	var total int64
	for f.next < len(f.sizes) || f.err != nil {
		n, err := f.readValue(r)
		total += int64(n)
		if err != nil {
			return total, err
		}
		if buffered != nil {
			total += int64(f.takeBuffered(buffered))
		}
	}
	return total, nil
}

// takeBuffered reads the values that are complete in the buffer of r, and returns their bytes.
func (f *Frame) takeBuffered(r *bufio.Reader) (taken int) {
	p, _ := r.Peek(r.Buffered())
	for f.next < len(f.sizes) && int(f.sizes[f.next]) <= len(p)-taken {
		slot := f.open()
		taken += copy(slot, p[taken:])
		f.close(len(slot))
	}
	_, _ = r.Discard(taken) // cannot fail: the bytes are buffered
	return taken
}

// ReadNext reads the next value from r, if each value has its own reader. Errors are those of
// ReadFrom.
func (f *Frame) ReadNext(r io.Reader) error {
	if f.err == nil && f.next == len(f.sizes) {
		return fmt.Errorf("frame: all %d records were read", len(f.sizes))
	}
	_, err := f.readValue(r)
	return err
}

func (f *Frame) readValue(r io.Reader) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	slot := f.open()
	got, err := io.ReadFull(r, slot)
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		f.err = fmt.Errorf("read record %d of %d: %d of %d bytes: %w", f.next+1, len(f.sizes), got, len(slot), err)
		return got, f.err
	}
	f.close(got)
	return got, nil
}

// open writes the bytes before the next value, and returns the slice for the value.
func (f *Frame) open() []byte {
	if f.next == f.end {
		f.openBatch()
	}
	size := int(f.sizes[f.next])
	delta := int64(f.next - f.first)
	body := frameFixed + varintSize(delta) + varintSize(int64(size)) + size
	b := f.buf[f.pos:]
	n := binary.PutVarint(b, int64(body))
	b[n], b[n+1] = 0, 0
	n += 2
	n += binary.PutVarint(b[n:], delta)
	b[n] = 1 // -1: null key
	n++
	n += binary.PutVarint(b[n:], int64(size))
	f.pos += n
	return b[n : n+size]
}

// close writes the bytes after the value, of which n bytes were read.
func (f *Frame) close(n int) {
	f.pos += n
	f.buf[f.pos] = 0 // headers
	f.pos++
	f.next++
	if f.next == f.end {
		f.closeBatch()
	} else if f.pos-f.crcAt >= frameChecksum {
		f.sum()
	}
}

// openBatch writes the header of the next batch. All its fields are known before the values arrive.
func (f *Frame) openBatch() {
	n, size := planFrame(f.sizes[f.next:])
	f.first, f.end, f.start = f.next, f.next+n, f.pos
	putBatchHead(f.buf[f.start:], &batchHead{
		length: size, count: n, baseTime: f.timestamp, maxTime: f.timestamp,
		producerID: -1, producerEpoch: -1, baseSequence: -1,
	})
	binary.BigEndian.PutUint64(f.buf[f.start:], uint64(f.first))
	f.crc, f.crcAt = 0, f.start+posAttributes
	f.pos += BatchHeadSize
	f.batches++
}

func (f *Frame) sum() {
	f.crc = crcUpdate(f.crc, f.buf[f.crcAt:f.pos])
	f.crcAt = f.pos
}

func (f *Frame) closeBatch() {
	f.sum()
	binary.BigEndian.PutUint32(f.buf[f.start+posCRC:], f.crc)
}

// Finish returns the batches, which alias the buffer given to NewFrame. Like Append it numbers them
// from offset 0, leader epoch 0; Patch sets both. Missing values are an error.
func (f *Frame) Finish() ([]byte, Summary, error) {
	if f.err != nil {
		return nil, Summary{}, f.err
	}
	if len(f.sizes) == 0 || f.next < len(f.sizes) || f.pos != len(f.buf) {
		return nil, Summary{}, fmt.Errorf("frame: %d of %d records read", f.next, len(f.sizes))
	}
	return f.buf, Summary{
		Batches: f.batches, Records: len(f.sizes), Span: int64(len(f.sizes)),
		MinTimestamp: f.timestamp, MaxTimestamp: f.timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}, nil
}

// Builder makes batches from records whose values are written in place, one after another, so that
// no list of records is needed. All records have the same timestamp and no headers.
//
//	b.Reset(buf, now)
//	b.Add(key, appendValue(b.Room(len(key)), ...))
//	batches, summary := b.Finish()
//
// The zero Builder needs Reset first.
type Builder struct {
	buf       []byte // the batches so far
	start     int    // of the open batch
	first     int    // number of its first record
	records   int
	batches   int
	timestamp int64
}

const (
	// builderFraming bounds the bytes of a record beside its key and value: four varints, attributes,
	// timestamp delta and count of headers.
	builderFraming = 4*binary.MaxVarintLen32 + 3
	// builderPrefix bounds the bytes before a value, without the key.
	builderPrefix = BatchHeadSize + builderFraming
)

// BuilderLen bounds the room that a Builder needs for records whose keys and values have a number of
// bytes together. Any two consecutive batches are larger than BatchTarget together, which bounds the
// number of batches.
func BuilderLen(records, bytes int) int {
	n := records*builderFraming + bytes
	return n + (2+2*n/BatchTarget)*BatchHeadSize + builderPrefix
}

// Reset makes b write to the beginning of buf. If the capacity of buf is BuilderLen, the result
// aliases buf; otherwise b allocates. The timestamp is in milliseconds.
func (b *Builder) Reset(buf []byte, timestamp int64) {
	*b = Builder{buf: buf[:0], timestamp: timestamp}
}

// Room returns an empty slice for the value of the next record, whose key has keyBytes bytes. Append
// to it and call Add with the result.
func (b *Builder) Room(keyBytes int) []byte {
	at := len(b.buf) + builderPrefix + keyBytes
	if at > cap(b.buf) {
		return nil
	}
	return b.buf[at:at]
}

// Add adds a record. value is the slice of Room with the appended bytes, or any other slice. A nil
// key is null.
func (b *Builder) Add(key, value []byte) {
	delta := b.records - b.first
	body := b.bodyLen(key, value, delta)
	if b.records == b.first || len(b.buf)-b.start+varintSize(int64(body))+body > BatchTarget {
		b.close()
		delta = 0
		body = b.bodyLen(key, value, delta)
		b.first, b.start = b.records, len(b.buf)
		b.buf = b.grow(BatchHeadSize)
		b.batches++
	}
	// The bytes before the value are at most builderPrefix and the key, so they do not overwrite it,
	// and the value moves to the left.
	var head [builderPrefix]byte
	h := binary.AppendVarint(head[:0], int64(body))
	h = append(h, 0, 0) // attributes, timestamp delta
	h = binary.AppendVarint(h, int64(delta))
	if key == nil {
		h = append(h, 1) // -1
	} else {
		h = binary.AppendVarint(h, int64(len(key)))
	}
	b.buf = append(append(b.buf, h...), key...)
	b.buf = binary.AppendVarint(b.buf, int64(len(value)))
	b.buf = append(append(b.buf, value...), 0) // no headers
	b.records++
}

// bodyLen is the length of a record without its length field.
func (b *Builder) bodyLen(key, value []byte, delta int) int {
	return 3 + varintSize(int64(delta)) + nullableSize(key) + varintSize(int64(len(value))) + len(value)
}

// grow returns the buffer with n more bytes of any content.
func (b *Builder) grow(n int) []byte {
	if len(b.buf)+n <= cap(b.buf) {
		return b.buf[:len(b.buf)+n]
	}
	return append(b.buf, make([]byte, n)...)
}

// close writes the head of the open batch.
func (b *Builder) close() {
	if b.records == b.first {
		return
	}
	batch := Batch(b.buf[b.start:])
	putBatchHead(batch, &batchHead{
		length: len(batch), count: b.records - b.first, baseTime: b.timestamp, maxTime: b.timestamp,
		producerID: -1, producerEpoch: -1, baseSequence: -1,
	})
	binary.BigEndian.PutUint64(batch, uint64(b.first))
	binary.BigEndian.PutUint32(batch[posCRC:], batch.checksum())
}

// Finish returns the batches, none without a record. Like Append it numbers them from offset 0,
// leader epoch 0; Patch sets both. Call Reset before other methods.
func (b *Builder) Finish() ([]byte, Summary) {
	b.close()
	return b.buf, Summary{
		Batches: b.batches, Records: b.records, Span: int64(b.records), MinTimestamp: b.timestamp, MaxTimestamp: b.timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
}
