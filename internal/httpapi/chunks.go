package httpapi

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// answer is the memory of one answer to a reader, of the budget's fetch class, and the broker's chunks it is made of.
// It belongs to the request's goroutine.
type answer struct {
	s       *Source
	memory  budget.Arena
	fetched []*broker.Fetched
	window  int // least bytes read of a file at a time
}

// windowSize is the usual window of an answer: a batch as large as they are made, and the head of the next one.
const windowSize = record.BatchTarget + record.BatchHeadSize

func (s *Source) newAnswer() answer {
	return answer{s: s, memory: budget.Arena{Class: s.fetch, Buffers: s.buffers}, window: windowSize}
}

// release gives everything back; the answer can be used again.
func (a *answer) release() {
	for i, f := range a.fetched {
		f.Release()
		a.fetched[i] = nil
	}
	a.fetched = a.fetched[:0]
	a.memory.Release()
}

// batchLen is a batch's whole length, from its head, which counts from byte 12 on.
func batchLen(head record.Batch) int64 { return int64(int32(binary.BigEndian.Uint32(head[8:]))) + 12 }

// errStop ends a walk over batches early, without an error.
var errStop = errors.New("stop")

// order checks, by their heads, that batches follow one another without a gap: offsets are outside a batch's checksum.
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

// eachFunc gets a batch, which lives as long as the answer, or if it is volatile during the call.
type eachFunc func(b record.Batch, volatile bool) error

// walk calls each for every batch of c that ends after offset from.
func (a *answer) walk(c *broker.Chunk, from int64, each eachFunc) error {
	if c.Section != nil {
		return a.walkSection(c, from, each)
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
				return o.walk(joined, from, each)
			}
			if err := o.give(batch, from, each, false); err != nil {
				return err
			}
			part = rest
		}
	}
	return nil
}

// join copies parts, from byte pos of the first on, into one buffer: a batch does not lie in one piece.
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

func (o *order) walk(b []byte, from int64, each eachFunc) error {
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

// walkSection reads a section of a file batch by batch, each of usual size to where the one before it was: so what is read is
// looked at and copied while the processor has it at hand. Batches below from are skipped by their heads.
func (a *answer) walkSection(c *broker.Chunk, from int64, each eachFunc) error {
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
		// A large one keeps its buffer: there may not be memory for it and for copies of its values.
		large := int(n) > w.least
		if err := o.give(batch, from, each, !large); err != nil {
			return err
		}
		w.skip(n)
		if large {
			w.leave()
		}
	}
	return nil
}

// window is the part of a section that has been read: buf[at:end] is what lies at pos.
type window struct {
	sec     *objstore.Section
	memory  *budget.Arena
	least   int // bytes to read at a time
	pos     int64
	buf     []byte
	at, end int
}

// fill makes sure that n bytes are there; the section has them. Behind a large batch it reads no more than the head of the
// next one, which says how large that is.
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

// room moves what is there to the beginning of a buffer of n bytes or more.
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

// skip goes on n bytes further.
func (w *window) skip(n int64) {
	w.pos += n
	if n > int64(w.end-w.at) {
		w.at, w.end = 0, 0
		return
	}
	w.at += int(n)
}

// leave leaves the buffer to the answer; what lies behind is read again.
func (w *window) leave() { w.buf, w.at, w.end = nil, 0, 0 }

// close gives the buffer back.
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
