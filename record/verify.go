package record

// Verify checks concatenated stored batches: bounds, checksums, counts, and offsets without a gap,
// as committed batches of one partition have. It does not decompress or parse records, so it runs
// at the speed of the checksum. The error is a *CorruptError. Summary describes the timestamps of
// the result.
func Verify(b []byte) (Summary, error) {
	var s Summary
	var next int64
	size := len(b)
	if size == 0 {
		return s, &CorruptError{What: "no batch"}
	}
	for len(b) > 0 {
		pos := int64(size - len(b))
		batch, rest, err := splitStored(b, pos)
		if err != nil {
			return Summary{}, err
		}
		if want := batch.checksum(); want != batch.CRC() {
			return Summary{}, &CorruptError{What: "batch checksum", Pos: pos, Want: int64(want), Got: int64(batch.CRC())}
		}
		if s.Batches > 0 && batch.BaseOffset() != next {
			return Summary{}, &CorruptError{What: "batch base offset", Pos: pos, Want: next, Got: batch.BaseOffset()}
		}
		next = batch.BaseOffset() + batch.Span()
		s.add(batch)
		b = rest
	}
	return s, nil
}

// splitStored is Split for stored batches. It also checks the ranges of the header's fields. pos is
// the position of b, for the error.
func splitStored(b []byte, pos int64) (first Batch, rest []byte, err error) {
	n, fault := batchBounds(b)
	if fault != nil {
		return nil, b, &CorruptError{What: "batch", Pos: pos, Err: fault}
	}
	first = Batch(b[:n:n])
	if first.LastOffsetDelta() < 0 || first.Count() < 0 || int64(first.Count()) > first.Span() {
		return nil, b, &CorruptError{What: "batch record count", Pos: pos, Want: first.Span(), Got: int64(first.Count())}
	}
	if first.BaseOffset() < 0 || first.BaseOffset()+first.Span() < 0 {
		return nil, b, &CorruptError{What: "batch base offset", Pos: pos, Got: first.BaseOffset()}
	}
	return first, b[n:], nil
}

// add counts a stored batch by its header.
func (s *Summary) add(b Batch) {
	low := b.BaseTimestamp()
	if b.Attributes()&AttrLogAppendTime != 0 {
		low = b.MaxTimestamp()
	}
	if s.Batches == 0 {
		s.MinTimestamp, s.MaxTimestamp = low, b.MaxTimestamp()
		s.ProducerID, s.ProducerEpoch, s.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	}
	s.MinTimestamp = min(s.MinTimestamp, low)
	s.MaxTimestamp = max(s.MaxTimestamp, b.MaxTimestamp())
	s.Batches++
	s.Records += b.Count()
	s.Span += b.Span()
}
