package record

import "io"

// bodyVerifier reads an object's batches in order, compares them with the index, and computes the
// body checksum.
type bodyVerifier struct {
	head      *Head
	index     []IndexEntry
	checksums bool // also verify each batch's own checksum

	entry   int    // of the index; -1 before the first batch
	pos     uint64 // in the object
	end     uint64 // of the entry
	next    int64  // the expected base offset
	records uint64 // of this entry so far
	crc     uint32
}

// newBodyVerifier returns a verifier for the batches that h and index describe. The checksum of
// index is h.MetaCRC.
func newBodyVerifier(h *Head, index []IndexEntry, checksums bool) *bodyVerifier {
	return &bodyVerifier{head: h, index: index, checksums: checksums, entry: -1, pos: h.metaEnd(), end: h.metaEnd(), crc: h.MetaCRC}
}

// part verifies the next bytes, which must be whole batches.
func (w *bodyVerifier) part(b []byte) error {
	for len(b) > 0 {
		batch, rest, err := splitStored(b, int64(w.pos))
		if err != nil {
			return err
		}
		sum := batch.CRC()
		if w.checksums {
			sum = batch.checksum()
		}
		if err := w.batch(batch, uint64(len(batch)), sum); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// VerifyBody reads the batches of an object, which follow its index in r, and verifies them like
// DecodeObject. It reads into buf, which must not be empty. Errors: *CorruptError; those of r,
// except for io.EOF and io.ErrUnexpectedEOF, which mean that the object is too short.
func VerifyBody(h *Head, index []IndexEntry, r io.Reader, buf []byte) error {
	w := newBodyVerifier(h, index, true)
	if err := w.readAll(r, buf); err != nil {
		return err
	}
	if err := w.done(); err != nil {
		return err
	}
	if w.crc != h.BodyCRC {
		return &CorruptError{What: "body checksum", Pos: 108, Want: int64(w.crc), Got: int64(h.BodyCRC)}
	}
	return nil
}

// readAll verifies the batches up to the length of the object.
func (w *bodyVerifier) readAll(r io.Reader, buf []byte) error {
	for w.pos < w.head.ObjectLen {
		if err := w.read(r, buf); err != nil {
			return err
		}
	}
	return nil
}

// read verifies the next batch.
func (w *bodyVerifier) read(r io.Reader, buf []byte) error {
	var space [BatchHeadSize]byte
	head := Batch(space[:])
	if got, err := io.ReadFull(r, head); err != nil {
		return w.cut(err, got)
	}
	if head[posMagic] != magicV2 {
		return &CorruptError{What: "batch", Pos: int64(w.pos), Err: &InvalidError{Field: FieldMagic, Reason: "not a batch of version 2", Limit: magicV2, Given: int64(head[posMagic])}}
	}
	size, fault := batchLength(head, int64(w.head.ObjectLen-w.pos))
	if fault != nil {
		return &CorruptError{What: "batch", Pos: int64(w.pos), Err: fault}
	}
	if err := head.checkStored(int64(w.pos)); err != nil {
		return err
	}
	sum := CRC32C(head[posAttributes:])
	for left := size - BatchHeadSize; left > 0; {
		n, err := io.ReadFull(r, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return w.cut(err, int(size-left)+n)
		}
		sum, left = crcUpdate(sum, buf[:n]), left-int64(n)
	}
	return w.batch(head, uint64(size), sum)
}

// cut returns the error of a read that ended got bytes behind the last batch.
func (w *bodyVerifier) cut(err error, got int) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return &CorruptError{What: "object is too short", Want: int64(w.head.ObjectLen), Got: int64(w.pos) + int64(got)}
}

// batch verifies a batch of size bytes that starts with b, at least its header. sum is the checksum
// of its data, or its own one if checksums is false.
func (w *bodyVerifier) batch(b Batch, size uint64, sum uint32) error {
	if w.pos == w.end {
		if err := w.nextEntry(); err != nil {
			return err
		}
	}
	epoch := uint32(b.LeaderEpoch())
	switch {
	case w.pos+size > w.end:
		return w.corrupt("batch crosses the end of its index entry", int64(w.end), int64(w.pos+size))
	case b.BaseOffset() != w.next:
		return w.corrupt("batch base offset", w.next, b.BaseOffset())
	case epoch > w.head.Epoch || epoch != w.head.Epoch && w.head.Kind == KindData:
		return w.corrupt("batch leader epoch", int64(w.head.Epoch), int64(epoch))
	case sum != b.CRC():
		return w.corrupt("batch checksum", int64(sum), int64(b.CRC()))
	}
	w.crc = crcUpdate(w.crc, b[:batchPrefix])
	w.pos += size
	w.next += b.Span()
	w.records += uint64(b.Count())
	return nil
}

// nextEntry checks the sums of the current entry and starts the next.
func (w *bodyVerifier) nextEntry() error {
	if err := w.endEntry(); err != nil {
		return err
	}
	if w.entry++; w.entry == len(w.index) {
		return w.corrupt("batch beyond the index", 0, 0)
	}
	e := &w.index[w.entry]
	w.end, w.next, w.records = w.pos+uint64(e.Len), e.Base, 0
	return nil
}

func (w *bodyVerifier) endEntry() error {
	if w.entry < 0 {
		return nil
	}
	e := &w.index[w.entry]
	if span := w.next - e.Base; span != int64(e.Span) {
		return w.corrupt("offset span of an index entry", span, int64(e.Span))
	}
	if w.records != uint64(e.Records) {
		return w.corrupt("records of an index entry", int64(w.records), int64(e.Records))
	}
	return nil
}

// done checks that the batches end at the end of the object.
func (w *bodyVerifier) done() error {
	if w.pos != w.head.ObjectLen {
		return w.corrupt("end of batches", int64(w.head.ObjectLen), int64(w.pos))
	}
	return w.endEntry()
}

func (w *bodyVerifier) corrupt(what string, want, got int64) error {
	return &CorruptError{What: what, Pos: int64(w.pos), Want: want, Got: got}
}

// ObjectCRC32C returns the checksum of a whole object: prefix followed by parts, as EncodeObject
// returned them. parts must be whole batches. For a large batch it combines the batch's stored
// checksum instead of reading the data. A batch that was damaged after its checksum was computed
// therefore gives a sum that does not match its bytes, and a store that compares sums refuses the
// object.
func ObjectCRC32C(prefix []byte, parts [][]byte) uint32 {
	const worthwhile = 4 << 10 // below this size, reading is as fast as combining
	crc := CRC32C(prefix)
	for _, p := range parts {
		for len(p) > 0 {
			n, fault := batchBounds(p)
			if fault != nil { // not batches: compute the checksum of the bytes
				crc = crcUpdate(crc, p)
				break
			}
			if b := Batch(p[:n]); n < worthwhile {
				crc = crcUpdate(crc, b)
			} else {
				crc = crcUpdate(crc, b[:posAttributes])
				crc = CombineCRC32C(crc, b.CRC(), int64(n-posAttributes))
			}
			p = p[n:]
		}
	}
	return crc
}
