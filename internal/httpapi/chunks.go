package httpapi

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/record"
)

// answer is the memory of one answer to a reader, of the budget's fetch class, and the broker's chunks it is made of.
// It belongs to the request's goroutine.
type answer struct {
	a       *API
	res     *budget.Reservation
	slack   int64
	bufs    [][]byte
	fetched []*broker.Fetched
}

// windowMin is how much is read of a file at a time, at least.
const windowMin = 64 << 10

func (s *answer) need(n int64) (err error) {
	if n <= s.slack {
		return nil
	}
	if s.res == nil {
		s.res, err = s.a.fetch.Reserve(n)
	} else {
		err = s.res.Grow(n - s.slack)
	}
	if err == nil {
		s.slack = n
	}
	return err
}

// get returns a buffer of length n that lives as long as the answer, or until put.
func (s *answer) get(n int) ([]byte, error) {
	size := int64(budget.SizeFor(n))
	if err := s.need(size); err != nil {
		return nil, err
	}
	s.slack -= size
	b := s.a.buffers.Get(n)
	s.bufs = append(s.bufs, b)
	return b, nil
}

// put gives back the buffer that get returned last.
func (s *answer) put() {
	last := len(s.bufs) - 1
	s.slack += int64(cap(s.bufs[last]))
	s.a.buffers.Put(s.bufs[last])
	s.bufs = s.bufs[:last]
}

// release gives everything back; the answer can be used again.
func (s *answer) release() {
	for _, f := range s.fetched {
		f.Release()
	}
	for _, b := range s.bufs {
		s.a.buffers.Put(b)
	}
	s.res.Release()
	*s = answer{a: s.a, bufs: s.bufs[:0], fetched: s.fetched[:0]}
}

// batchLen is a batch's whole length, from its head, which counts from byte 12 on.
func batchLen(head record.Batch) int64 { return int64(int32(binary.BigEndian.Uint32(head[8:]))) + 12 }

// errStop ends a walk over batches early, without an error.
var errStop = errors.New("stop")

// walk calls each for every batch of c that ends after offset from. The batch lives as long as the answer.
func (s *answer) walk(c *broker.Chunk, from int64, each func(record.Batch) error) error {
	if c.Section != nil {
		return s.walkSection(c, from, each)
	}
	for i, part := range c.Parts {
		for len(part) > 0 {
			batch, rest, err := record.Split(part)
			if err != nil {
				return s.walkJoined(c, i, len(c.Parts[i])-len(part), from, each)
			}
			if batch.BaseOffset()+batch.Span() > from {
				if err := each(batch); err != nil {
					return err
				}
			}
			part = rest
		}
	}
	return nil
}

// walkJoined goes on at byte pos of part i, where a batch does not lie in one piece.
func (s *answer) walkJoined(c *broker.Chunk, i, pos int, from int64, each func(record.Batch) error) error {
	n := -pos
	for _, p := range c.Parts[i:] {
		n += len(p)
	}
	joined, err := s.get(n)
	if err != nil {
		return err
	}
	copied := copy(joined, c.Parts[i][pos:])
	copied += copy(joined[copied:], slices.Concat(c.Parts[i+1:]...))
	for joined = joined[:copied]; len(joined) > 0; {
		batch, rest, err := record.Split(joined)
		if err != nil {
			return &record.CorruptError{What: "batch", Err: err}
		}
		if batch.BaseOffset()+batch.Span() > from {
			if err := each(batch); err != nil {
				return err
			}
		}
		joined = rest
	}
	return nil
}

// walkSection reads a section of a file in windows. Batches below from are skipped by their heads.
func (s *answer) walkSection(c *broker.Chunk, from int64, each func(record.Batch) error) error {
	sec := c.Section
	want := 0 // bytes of the batch at the window's start, if known
	for pos := int64(0); pos < sec.Len; {
		window, err := s.get(int(min(sec.Len-pos, int64(max(windowMin, want)))))
		if err != nil {
			return err
		}
		if _, err := sec.File.ReadAt(window, sec.Off+pos); err != nil {
			return brokenSection(err)
		}
		used, n, err := eachInWindow(window, from, each)
		if err != nil {
			return err
		}
		pos += int64(used.skipped)
		if want = n; want > 0 && int64(want) > sec.Len-pos {
			return &record.CorruptError{What: "batch longer than its object's section", Pos: pos, Want: sec.Len - pos, Got: int64(want)}
		}
		if !used.kept {
			s.put()
		}
	}
	return nil
}

func brokenSection(err error) error {
	if errors.Is(err, io.EOF) {
		return &record.CorruptError{What: "file shorter than its section", Err: io.ErrUnexpectedEOF}
	}
	return err
}

// windowUse says what was done with a window.
type windowUse struct {
	skipped int  // where the next window begins, from this one's start; may be beyond its end
	kept    bool // batches in it were given away
}

// eachInWindow gives the whole batches in window to each. want is the length of the first that is not whole, if its
// head is; it is 0 if the window ended with a batch or within a head.
func eachInWindow(window []byte, from int64, each func(record.Batch) error) (u windowUse, want int, err error) {
	for {
		rest := window[u.skipped:]
		if len(rest) < record.BatchHeadSize {
			if u.skipped == 0 {
				return u, 0, &record.CorruptError{What: "batch head", Want: record.BatchHeadSize, Got: int64(len(rest))}
			}
			return u, 0, nil
		}
		head := record.Batch(rest[:record.BatchHeadSize])
		n := batchLen(head)
		if n < record.BatchHeadSize || head.LastOffsetDelta() < 0 {
			return u, 0, &record.CorruptError{What: "batch head", Got: n}
		}
		needed := head.BaseOffset()+head.Span() > from
		if !needed {
			if u.skipped += int(n); u.skipped >= len(window) {
				return u, 0, nil
			}
			continue
		}
		if n > int64(len(rest)) {
			return u, int(n), nil
		}
		batch, _, err := record.Split(rest)
		if err != nil {
			return u, 0, &record.CorruptError{What: "batch", Err: err}
		}
		u.skipped += int(n)
		u.kept = true
		if err := each(batch); err != nil {
			return u, 0, err
		}
		if u.skipped == len(window) {
			return u, 0, nil
		}
	}
}
