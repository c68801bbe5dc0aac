package compare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// window is how far, in records, the check looks for the place where two partitions agree again.
const window = 1 << 16

// batch is what a reader passes on at a time.
type batch struct {
	items []item
	next  int64 // offset that follows
}

// stream has the items of a span in order, with some of those ahead. Its reader runs in a goroutine.
type stream struct {
	batches chan batch
	moved   func(n int64) // called with the offsets that were passed

	ahead    []item
	start    int64
	total    int64 // items that left the reader
	marks    []*mark
	checksum hash.Hash // of all items that were passed
}

func newStream(start int64, moved func(int64)) *stream {
	return &stream{batches: make(chan batch, 1), moved: moved, start: start, checksum: sha256.New()}
}

// run reads into the stream until the end, and ends the stream.
func (s *stream) run(ctx context.Context, r *reader) error {
	defer close(s.batches)
	return r.read(ctx, func(items []item, next int64) error {
		select {
		case s.batches <- batch{items, next}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// at returns the item that is k after the position, or nil after the end. The item is valid until the next
// call of advance.
func (s *stream) at(k int) *item {
	for k >= len(s.ahead) {
		b, ok := <-s.batches
		if !ok {
			return nil
		}
		for i := range b.items {
			s.see(&b.items[i])
		}
		s.ahead = append(s.ahead, b.items...)
		s.moved(b.next - s.start)
		s.start = b.next
	}
	return &s.ahead[k]
}

// see counts an item and sets the marks that it passes.
func (s *stream) see(i *item) {
	for _, m := range s.marks {
		if !m.hasNext {
			if i.offset < m.offset {
				m.before++
			} else {
				m.next, m.hasNext = i.sum, true
			}
		}
	}
	s.total++
	s.checksum.Write(i.sum[:])
}

// advance moves the position by n items, which at has returned.
func (s *stream) advance(n int) { s.ahead = s.ahead[n:] }

// count sets the counts of a stream that was read to its end.
func (s *stream) count(side *Side) {
	side.Records, side.Checksum = s.total, hex.EncodeToString(s.checksum.Sum(nil)[:8])
}
