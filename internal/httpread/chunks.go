package httpread

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/record"
)

// answer is the memory of one answer to a reader, of the budget's fetch class, and the broker's chunks it is made of.
// It belongs to the request's goroutine.
type answer struct {
	s       *Source
	memory  forms.Memory
	fetched []*broker.Fetched
	window  int // least bytes read of a file at a time
}

// windowSize is the usual window of an answer.
const windowSize = 64 << 10

func (s *Source) newAnswer() answer {
	return answer{s: s, memory: forms.Memory{Class: s.fetch, Buffers: s.buffers}, window: windowSize}
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

// walk calls each for every batch of c that ends after offset from. The batch lives as long as the answer.
func (a *answer) walk(c *broker.Chunk, from int64, each func(record.Batch) error) error {
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
			if err := o.give(batch, from, each); err != nil {
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

func (o *order) walk(b []byte, from int64, each func(record.Batch) error) error {
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return &record.CorruptError{What: "batch", Err: err}
		}
		if err := o.give(batch, from, each); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func (o *order) give(batch record.Batch, from int64, each func(record.Batch) error) error {
	if err := o.check(batch); err != nil {
		return err
	}
	if o.next <= from {
		return nil
	}
	return each(batch)
}

// walkSection reads a section of a file in windows. Batches below from are skipped by their heads.
func (a *answer) walkSection(c *broker.Chunk, from int64, each func(record.Batch) error) error {
	sec, o := c.Section, orderOf(c)
	want := int64(0) // bytes of the batch at the window's start, if known
	for pos := int64(0); pos < sec.Len; {
		window, err := a.memory.Get(int(min(sec.Len-pos, max(int64(a.window), want))))
		if err != nil {
			return err
		}
		if _, err := sec.File.ReadAt(window, sec.Off+pos); err != nil {
			return brokenSection(err)
		}
		w := window
		kept := false
		for want = 0; len(w) >= record.BatchHeadSize; {
			head := record.Batch(w[:record.BatchHeadSize])
			n := batchLen(head)
			if n < record.BatchHeadSize || n > sec.Len-pos {
				return &record.CorruptError{What: "batch length", Pos: pos, Want: sec.Len - pos, Got: n}
			}
			if needed := head.BaseOffset()+head.Span() > from; needed && n > int64(len(w)) {
				want = n
				break
			} else if needed {
				kept = true
			}
			if err := o.giveIn(w, n, from, each); err != nil {
				return err
			}
			pos += n
			w = w[min(n, int64(len(w))):]
		}
		if !kept {
			a.memory.Put(window)
		}
		if want == 0 && len(w) > 0 && int64(len(w)) == sec.Len-pos {
			return &record.CorruptError{What: "batch head", Pos: pos, Want: record.BatchHeadSize, Got: int64(len(w))}
		}
	}
	return nil
}

// giveIn is give for the batch of n bytes at the start of a window, which holds it whole if it ends after from.
func (o *order) giveIn(w []byte, n, from int64, each func(record.Batch) error) error {
	if n > int64(len(w)) {
		return o.check(record.Batch(w[:record.BatchHeadSize]))
	}
	batch, _, err := record.Split(w[:n])
	if err != nil {
		return &record.CorruptError{What: "batch", Err: err}
	}
	return o.give(batch, from, each)
}

func brokenSection(err error) error {
	if errors.Is(err, io.EOF) {
		return &record.CorruptError{What: "file shorter than its section", Err: io.ErrUnexpectedEOF}
	}
	return err
}
