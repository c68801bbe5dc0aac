package httpapi

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// answer is the memory of one answer, of the budget's fetch class, and the broker's chunks in it.
// It belongs to the request's goroutine.
type answer struct {
	s       *Source
	memory  budget.Arena
	fetched []*broker.Fetched
	window  int // smallest read of a file
}

// windowSize is the usual window of an answer: a batch of target size and the head of the next one.
const windowSize = record.BatchTarget + record.BatchHeadSize

func (s *Source) newAnswer() answer {
	return answer{s: s, memory: budget.Arena{Class: s.fetch, Buffers: s.buffers}, window: windowSize}
}

// release releases all memory; the answer can be reused.
func (a *answer) release() {
	for i, f := range a.fetched {
		f.Release()
		a.fetched[i] = nil
	}
	a.fetched = a.fetched[:0]
	a.memory.Release()
}

// batchLen returns a batch's whole length from its head; the length field counts from byte 12.
func batchLen(head record.Batch) int64 { return int64(int32(binary.BigEndian.Uint32(head[8:]))) + 12 }

// errStop ends an iteration over batches early, without an error.
var errStop = errors.New("stop")

// order checks that the heads of batches follow one another without a gap, because checksums do not
// cover offsets.
type order struct{ next, end int64 }

func orderOf(c *broker.Chunk) *order { return &order{next: c.Base, end: c.End} }

func (o *order) check(head record.Batch) error {
	base, span := head.BaseOffset(), head.Span()
	if base != o.next || span <= 0 || span > o.end-base {
		return &record.CorruptError{What: "batch base offset", Want: o.next, Got: base}
	}
	o.next += span
	return nil
}

// eachFunc receives a batch. It is valid as long as the answer, or only during the call if it is
// volatile.
type eachFunc func(b record.Batch, volatile bool) error

// eachBatch calls each for every batch of c that ends after offset from.
func (a *answer) eachBatch(c *broker.Chunk, from int64, each eachFunc) error {
	if c.Section != nil {
		return a.eachInSection(c, from, each)
	}
	o := orderOf(c)
	for i, part := range c.Parts {
		for len(part) > 0 {
			batch, rest, err := record.Split(part)
			if err != nil {
				joined, err := a.join(c.Parts[i:], len(c.Parts[i])-len(part))
				if err != nil {
					return err
				}
				return o.eachInBuffer(joined, from, each)
			}
			if err := o.give(batch, from, each, false); err != nil {
				return err
			}
			part = rest
		}
	}
	return nil
}

// join copies parts, from byte pos of the first, into one buffer, for a batch that is not
// contiguous.
func (a *answer) join(parts [][]byte, pos int) ([]byte, error) {
	n := -pos
	for _, p := range parts {
		n += len(p)
	}
	joined, err := a.memory.Get(n)
	if err != nil {
		return nil, err
	}
	at := copy(joined, parts[0][pos:])
	for _, p := range parts[1:] {
		at += copy(joined[at:], p)
	}
	return joined, nil
}

func (o *order) eachInBuffer(b []byte, from int64, each eachFunc) error {
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return &record.CorruptError{What: "batch", Err: err}
		}
		if err := o.give(batch, from, each, false); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func (o *order) give(batch record.Batch, from int64, each eachFunc, volatile bool) error {
	if err := o.check(batch); err != nil {
		return err
	}
	if o.next <= from {
		return nil
	}
	return each(batch, volatile)
}

// eachInSection reads a section of a file batch by batch. It reads batches of usual size into the
// same window, so that they stay in the processor's cache while they are checked and copied. It
// skips batches below from by their heads.
func (a *answer) eachInSection(c *broker.Chunk, from int64, each eachFunc) error {
	o, w := orderOf(c), window{sec: c.Section, least: a.window, memory: &a.memory}
	defer w.close()
	for w.pos < w.sec.Len {
		left := w.sec.Len - w.pos
		if left < record.BatchHeadSize {
			return &record.CorruptError{What: "batch head", Pos: w.pos, Want: record.BatchHeadSize, Got: left}
		}
		if err := w.fill(record.BatchHeadSize); err != nil {
			return err
		}
		head := record.Batch(w.buf[w.at : w.at+record.BatchHeadSize])
		n := batchLen(head)
		if n < record.BatchHeadSize || n > left {
			return &record.CorruptError{What: "batch length", Pos: w.pos, Want: left, Got: n}
		}
		if head.BaseOffset()+head.Span() <= from {
			if err := o.check(head); err != nil {
				return err
			}
			w.skip(n)
			continue
		}
		if err := w.fill(int(n)); err != nil {
			return err
		}
		batch, _, err := record.Split(w.buf[w.at : w.at+int(n)])
		if err != nil {
			return &record.CorruptError{What: "batch", Err: err}
		}
		// A large batch keeps its buffer, because memory may not suffice for it and for copies of
		// its values.
		large := int(n) > w.least
		if err := o.give(batch, from, each, !large); err != nil {
			return err
		}
		w.skip(n)
		if large {
			w.detach()
		}
	}
	return nil
}

// window is the part of a section that has been read: buf[at:end] holds the bytes at pos.
type window struct {
	sec     *objstore.Section
	memory  *budget.Arena
	least   int // bytes to read at a time
	pos     int64
	buf     []byte
	at, end int
}

// fill makes n bytes available; the section must have them. After a large batch it reads only the
// head of the next one, which holds its length.
func (w *window) fill(n int) error {
	have := w.end - w.at
	if have >= n {
		return nil
	}
	most := int(min(w.sec.Len-w.pos, int64(max(n+record.BatchHeadSize, w.least))))
	if w.at+most > len(w.buf) {
		if err := w.room(most); err != nil {
			return err
		}
	}
	if _, err := w.sec.File.ReadAt(w.buf[w.end:w.at+most], w.sec.Off+w.pos+int64(have)); err != nil {
		return brokenSection(err)
	}
	w.end = w.at + most
	return nil
}

// room moves the available bytes to the start of a buffer of at least n bytes.
func (w *window) room(n int) error {
	to, old := w.buf, []byte(nil)
	if n > len(to) {
		larger, err := w.memory.Get(n)
		if err != nil {
			return err
		}
		to, old = larger[:cap(larger)], w.buf
	}
	w.end = copy(to, w.buf[w.at:w.end])
	w.buf, w.at = to, 0
	if old != nil {
		w.memory.Put(old)
	}
	return nil
}

// skip advances by n bytes.
func (w *window) skip(n int64) {
	w.pos += n
	if n > int64(w.end-w.at) {
		w.at, w.end = 0, 0
		return
	}
	w.at += int(n)
}

// detach leaves the buffer to the answer. The bytes after it are read again.
func (w *window) detach() { w.buf, w.at, w.end = nil, 0, 0 }

// close releases the buffer.
func (w *window) close() {
	if w.buf != nil {
		w.memory.Put(w.buf)
	}
}

func brokenSection(err error) error {
	if errors.Is(err, io.EOF) {
		return &record.CorruptError{What: "file shorter than its section", Err: io.ErrUnexpectedEOF}
	}
	return err
}

// cut removes from a fetch's chunks the batches that end below the wanted offset, and those after
// the wanted number of records or bytes is reached. It keeps whole batches, at least one.
func (g *Reading) cut(chunks []broker.Chunk) ([]broker.Chunk, error) {
	var list []broker.Chunk
	all := int64(0)
	for i := range chunks {
		all += chunks[i].Records
	}
	for i := range chunks {
		c := &chunks[i]
		if c.End <= g.Offset {
			continue
		}
		if c.Size == 0 { // left out
			list = append(list, *c)
			continue
		}
		// Otherwise only the heads tell how many records are wanted.
		exact := c.Records == c.End-c.Base || all <= g.MaxRecords
		bounded := g.MaxRecords < c.Records+g.Count || g.MaxBytes > 0 && g.Bytes+c.Size > g.MaxBytes
		if c.Base >= g.Offset && exact && !bounded {
			g.Count += c.Records
			g.Bytes += c.Size
			list = append(list, *c)
			continue
		}
		part, err := g.cutChunk(c)
		if err != nil && len(list) == 0 {
			return nil, err
		}
		if part.Size > 0 {
			list = append(list, part)
		}
		if err != nil || part.End < c.End {
			break
		}
	}
	return list, nil
}

// cutChunk finds the wanted batches of one chunk by their heads. Batches that compaction has
// emptied count nothing.
func (g *Reading) cutChunk(c *broker.Chunk) (broker.Chunk, error) {
	out := *c
	from, to := int64(0), int64(0)
	first := true
	err := heads(c, func(pos int64, b record.Batch, size int64) bool {
		if b.BaseOffset()+b.Span() <= g.Offset {
			from, to = pos+size, pos+size
			return true
		}
		if g.Count > 0 && (g.Count >= g.MaxRecords || g.MaxBytes > 0 && g.Bytes+size > g.MaxBytes) {
			// Even if no batch was taken, the batches that follow belong to the next answer.
			out.End = b.BaseOffset()
			return false
		}
		if first {
			out.Base, first = b.BaseOffset(), false
		}
		out.End = b.BaseOffset() + b.Span()
		g.Count += min(int64(b.Count()), out.End-max(b.BaseOffset(), g.Offset))
		g.Bytes += size
		to = pos + size
		return true
	})
	out.Size = to - from
	if c.Section != nil {
		out.Section = &objstore.Section{File: c.Section.File, Off: c.Section.Off + from, Len: out.Size}
	} else {
		out.Parts = slice(c.Parts, from, to)
	}
	return out, err
}

// slice returns bytes [from, to) of consecutive parts.
func slice(parts [][]byte, from, to int64) [][]byte {
	var out [][]byte
	for _, p := range parts {
		n := int64(len(p))
		if low, high := min(max(from, 0), n), min(max(to, 0), n); low < high {
			out = append(out, p[low:high])
		}
		from, to = from-n, to-n
	}
	return out
}

// heads calls each with the head and the length of every batch of c, until it returns false.
func heads(c *broker.Chunk, each func(pos int64, head record.Batch, size int64) bool) error {
	var head [record.BatchHeadSize]byte
	o := orderOf(c)
	for pos := int64(0); pos < c.Size; {
		if err := readAt(c, head[:], pos); err != nil {
			return err
		}
		b := record.Batch(head[:])
		size := batchLen(b)
		if size < record.BatchHeadSize || size > c.Size-pos {
			return &record.CorruptError{What: "batch length", Pos: pos, Want: c.Size - pos, Got: size}
		}
		if err := o.check(b); err != nil {
			return err
		}
		if !each(pos, b, size) {
			return nil
		}
		pos += size
	}
	return nil
}

func readAt(c *broker.Chunk, dst []byte, pos int64) error {
	if c.Section != nil {
		if _, err := c.Section.File.ReadAt(dst, c.Section.Off+pos); err != nil {
			return brokenSection(err)
		}
		return nil
	}
	n := 0
	for _, p := range slice(c.Parts, pos, pos+int64(len(dst))) {
		n += copy(dst[n:], p)
	}
	if n < len(dst) {
		return &record.CorruptError{What: "batch head", Pos: pos, Want: int64(len(dst)), Got: int64(n)}
	}
	return nil
}
