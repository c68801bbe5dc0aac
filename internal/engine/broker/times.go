package broker

import (
	"context"
	"math"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
)

// The state keeps the largest timestamp of each range. A lookup by timestamp reads the range that
// the state points to, from the cache or the store. It also reads ranges whose records with that
// timestamp were compacted away.

// OffsetSince finds the first record with a timestamp of at least millis. The offset is -1 if there
// is none. It holds memory of the fetch class meanwhile. Errors: those of Bounds and Fetch,
// budget.ErrOver.
func (b *Broker) OffsetSince(ctx context.Context, l Lookup, millis int64) (offset, at int64, err error) {
	for from := int64(0); ; {
		span, found, err := b.SpanSince(l, from, millis)
		if err != nil || !found {
			return -1, -1, err
		}
		offset, at = -1, -1
		err = b.scan(ctx, l, span, func(r *record.Record) bool {
			offset, at = r.Offset, r.Timestamp
			return at < millis
		})
		if err != nil || at >= millis {
			return offset, at, err
		}
		from = span.End
	}
}

// OffsetOfNewest finds the first record with the largest timestamp. The offset is -1 if there are
// no records. Memory and errors are those of OffsetSince.
func (b *Broker) OffsetOfNewest(ctx context.Context, l Lookup) (offset, at int64, err error) {
	span, found, err := b.NewestTime(l)
	if err != nil || !found {
		return -1, -1, err
	}
	offset, at = -1, math.MinInt64
	err = b.scan(ctx, l, span, func(r *record.Record) bool {
		if r.Timestamp > at {
			offset, at = r.Offset, r.Timestamp
		}
		return at < span.MaxTime
	})
	if offset < 0 {
		at = -1
	}
	return offset, at, err
}

// scanBytes is the size of a read of a range, fewBytes that of one with at most few offsets.
const (
	scanBytes = 1 << 20
	fewBytes  = 64 << 10
	few       = 1000
)

// scanner reads the records of a range. It holds the memory of the largest decompressed batch.
type scanner struct {
	b        *Broker
	each     func(*record.Record) bool
	r        record.Reader
	held     *budget.Reservation // of the fetch class
	inflated int64               // bytes in held for r's buffer
}

// scan calls each for the records of a range until it returns false.
func (b *Broker) scan(ctx context.Context, l Lookup, span TimeSpan, each func(*record.Record) bool) error {
	limits, err := b.Limits(l.Topic.Name)
	if err != nil {
		return err
	}
	s := scanner{b: b, each: each}
	s.r.Limits.DecompressedBytes = limits.DecompressedBytes
	if s.held, err = b.opt.Budget.Class(budget.Fetch).Reserve(0); err != nil {
		return err
	}
	defer s.held.Release()
	bytes := scanBytes
	if span.End-span.Base <= few {
		bytes = fewBytes
	}
	for at := span.Base; at < span.End; {
		next, more, err := s.piece(ctx, Want{
			Topic: l.Topic.Name, ID: l.Topic.ID, Partition: l.Partition, Offset: at, MaxBytes: bytes, Isolation: l.Isolation,
		})
		if err != nil || !more || next <= at {
			return err
		}
		at = next
	}
	return nil
}

// piece scans one piece; next is the offset of the next piece.
func (s *scanner) piece(ctx context.Context, w Want) (next int64, more bool, err error) {
	f, err := s.b.Fetch(ctx, []Want{w}, 0, 0)
	if err != nil {
		return 0, false, err
	}
	defer f.Release()
	part := &f.Parts[0]
	if part.Err != nil {
		return 0, false, part.Err
	}
	next = w.Offset
	for i := range part.Chunks {
		more, err := s.chunk(&part.Chunks[i], w.Offset)
		if err != nil || !more {
			return 0, false, err
		}
		next = part.Chunks[i].End
	}
	return next, true, nil
}

func (s *scanner) chunk(chunk *Chunk, from int64) (more bool, err error) {
	data, done, err := s.b.contiguous(chunk)
	if err != nil {
		return false, err
	}
	defer done()
	for len(data) > 0 {
		batch, rest, err := record.Split(data)
		if err != nil {
			return false, err
		}
		if err := s.room(batch); err != nil {
			return false, err
		}
		for s.r.Reset(batch, from); s.r.Next(); {
			if !s.each(s.r.Record()) {
				return false, nil
			}
		}
		if err := s.r.Err(); err != nil {
			return false, err
		}
		data = rest
	}
	return true, nil
}

// room reserves what a batch decompresses to.
func (s *scanner) room(batch record.Batch) error {
	if batch.Compression() == record.None {
		return nil
	}
	n, err := batch.DecompressedSize(s.r.Limits.DecompressedBytes)
	if err != nil || n <= s.inflated {
		return err
	}
	if err := s.held.Grow(n - s.inflated); err != nil {
		return err
	}
	s.inflated = n
	return nil
}

// contiguous returns a chunk in one piece. If it must be copied, the memory is from the fetch
// class; done releases it.
func (b *Broker) contiguous(chunk *Chunk) (data []byte, done func(), err error) {
	if chunk.Section == nil && len(chunk.Parts) == 1 {
		return chunk.Parts[0], func() {}, nil
	}
	buffers := b.opt.Budget.Buffers()
	held, err := b.opt.Budget.Class(budget.Fetch).Reserve(int64(budget.SizeFor(int(chunk.Size))))
	if err != nil {
		return nil, nil, err
	}
	data = buffers.Get(int(chunk.Size))
	done = func() {
		buffers.Put(data)
		held.Release()
	}
	if chunk.Section != nil {
		if _, err := chunk.Section.File.ReadAt(data, chunk.Section.Off); err != nil {
			done()
			return nil, nil, err
		}
		return data, done, nil
	}
	at := 0
	for _, p := range chunk.Parts {
		at += copy(data[at:], p)
	}
	return data, done, nil
}
