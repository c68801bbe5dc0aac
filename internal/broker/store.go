package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/state"
)

const (
	// runMax is the most that is read at once for several partitions.
	runMax = 4 << 20
	// sectionMin is the least that is worth handing out as a section of a file.
	sectionMin = 32 << 10
	// blockMin is the least that is read at once while it is not known where batches begin; each block that holds none that
	// is wanted makes the next one twice as large, up to skipMax.
	blockMin = 64 << 10
	skipMax  = 4 << 20
)

// errMissing: the object is not in the store.
var errMissing = errors.New("object is missing")

// damage is stored data that is not what it must be.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }

func (d *damage) Unwrap() error { return d.err }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }

// readFar reads a piece from the store. Damage may come from the way, so it is read again before it is believed; a
// missing object is looked for in the newest state (rule R11) before it is corruption (rule R9).
func (b *Broker) readFar(ctx context.Context, c *piece) {
	moves := 0
	for try := 1; ; try++ {
		c.err = b.readShared(ctx, c)
		var d *damage
		switch {
		case c.err == nil || errors.Is(c.err, ErrOverBudget) || ctx.Err() != nil:
			return
		case errors.Is(c.err, errMissing):
			if moves == readTries {
				c.err = fmt.Errorf("%w: data moves faster than it can be read: %w", ErrStoreUnavailable, c.err)
				return
			}
			if !b.relocate(ctx, c) {
				return
			}
			moves++
			try = 0
			continue
		case try == readTries && errors.As(c.err, &d):
			b.corrupt(c, d.err)
			return
		case try == readTries:
			return
		}
		if !pause(ctx, time.Duration(try)*50*time.Millisecond) {
			return
		}
	}
}

// pause waits about d, or says false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// relocate handles a missing object: unless the newest state has the data somewhere else, or not at all any more, it is
// corruption.
func (b *Broker) relocate(ctx context.Context, c *piece) (again bool) {
	if settled, again := b.lookAgain(c); settled {
		return again
	}
	if err := b.log.ConfirmLost(ctx); err != nil {
		c.err = fmt.Errorf("%w: %s is missing, and the log can not be confirmed: %w", ErrStoreUnavailable, c.r.key, b.logError(err, -1))
		return false
	}
	if settled, again := b.lookAgain(c); settled {
		return again
	}
	b.corrupt(c, errMissing)
	return false
}

// lookAgain looks up a piece in the state as it is now. It is settled if that says other than before: again says that the
// data lies elsewhere, else c.err says why it is not to be had.
func (b *Broker) lookAgain(c *piece) (settled, again bool) {
	now, at := partPlan{}, planRange{}
	b.log.Read(func(s *state.State) {
		now.look(s, c.want)
		at = rangeOf(s, c.id, c.offset)
	})
	switch {
	case now.err != nil:
		c.err = now.err
		return true, false
	case now.id != c.id: // the topic was deleted, another has its name
		c.err = ErrUnknownTopic
		return true, false
	case at.key != "" && (at.key != c.r.key || at.Pos != c.r.Pos):
		c.r = at
		return true, true
	}
	return false, false
}

// rangeOf returns where an offset of a partition lies; no key if nowhere.
func rangeOf(s *state.State, id partKey, offset int64) planRange {
	t := s.Topic(id.topic)
	if t == nil || int(id.partition) >= len(t.Partitions) {
		return planRange{}
	}
	p := t.Partitions[id.partition]
	i := p.Find(offset)
	if i < 0 {
		return planRange{}
	}
	r := p.Ranges[i]
	return planRange{r, s.RangeKey(&r)}
}

// corrupt ends a piece with a named error and an alarm. Nothing is deleted or skipped (rule R9).
func (b *Broker) corrupt(c *piece, err error) {
	e := &CorruptError{Topic: c.want.Topic, Partition: c.want.Partition, Offset: c.r.Base, Key: c.r.key, Err: err}
	c.err = e
	b.met.corrupt.Inc()
	b.opt.Logger.Error("corrupt data in the bucket", "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
		"key", e.Key, "err", err)
}

// readOnce reads a piece: as a section of a file if the store has one and the data was verified before, else into memory.
func (b *Broker) readOnce(ctx context.Context, c *piece) (Chunk, *memory, error) {
	ctx, cancel := b.timeout(ctx, int64(c.r.Len))
	defer cancel()
	known, near := b.index.find(c.rangeKey(), c.r.Base, c.r.End(), c.offset, c.max)
	n := len(known)
	if n == 0 || b.opt.ShareReads {
		return b.readBlocks(ctx, c, near, nil, blockMin)
	}
	size := known[n-1].pos + known[n-1].size - near.pos
	if size < sectionMin {
		return b.readBlocks(ctx, c, near, nil, blockMin)
	}
	body, err := b.get(ctx, c, near.pos, size)
	if err != nil {
		return Chunk{}, nil, err
	}
	s, ok := body.(*objstore.Section)
	if !ok {
		return b.readBlocks(ctx, c, near, body, size)
	}
	return Chunk{Base: known[0].base, End: known[n-1].end, Size: size, Section: s, Verified: true}, newMemory(s), nil
}

// timeout bounds one attempt to read n bytes.
func (b *Broker) timeout(ctx context.Context, n int64) (context.Context, context.CancelFunc) {
	moving := time.Duration(float64(b.opt.Timeouts.PerMiB) * float64(n) / (1 << 20))
	return context.WithTimeout(ctx, b.opt.Timeouts.Read+moving)
}

// readBlocks reads from a place where a batch begins, until it has the batch that holds the wanted offset and what follows
// it. Mostly that is one request: readers go on where they stopped, and that place is known. body, if not nil, gives the
// first least bytes.
func (b *Broker) readBlocks(ctx context.Context, c *piece, near segment, body io.ReadCloser, least int64) (Chunk, *memory, error) {
	v := verifier{piece: c, pos: near.pos, base: near.base}
	for skip := int64(2 * blockMin); ; skip = min(2*skip, skipMax) {
		mem, err := b.block(ctx, &v, body, least)
		if err != nil {
			return Chunk{}, nil, err
		}
		found, err := v.verify(mem.buf)
		if err != nil {
			mem.release()
			return Chunk{}, nil, err
		}
		b.index.add(c.rangeKey(), v.segments)
		if found.Size > 0 {
			return found, mem, nil
		}
		mem.release()
		body, least = nil, max(skip, v.need)
	}
}

// block reads from the verifier's place on: what is wanted, or less if memory is short, but at least least bytes if the
// range has them.
func (b *Broker) block(ctx context.Context, v *verifier, body io.ReadCloser, least int64) (*memory, error) {
	want := least
	if body == nil {
		want = max(v.max, least)
	} else {
		defer body.Close()
	}
	rest := int64(v.r.Len) - v.pos
	if rest <= 0 {
		return nil, damaged("batches end at offset %d, before %d", v.base, v.offset)
	}
	mem, err := b.reserve(min(want, rest), min(least, rest, max(v.need, blockMin)))
	if err != nil {
		return nil, err
	}
	if body == nil {
		if body, err = b.get(ctx, v.piece, v.pos, int64(len(mem.buf))); err != nil {
			mem.release()
			return nil, err
		}
		defer body.Close()
	}
	if err := b.fill(v.piece, body, mem.buf); err != nil {
		mem.release()
		return nil, err
	}
	return mem, nil
}

// fill reads buf from body.
func (b *Broker) fill(c *piece, body io.Reader, buf []byte) error {
	_, err := io.ReadFull(body, buf)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, objstore.ErrNoVerdict) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return damaged("object is cut off")
	}
	return fmt.Errorf("%w: read %s: %w", ErrStoreUnavailable, c.r.key, err)
}

// get opens n bytes from a place in the range.
func (b *Broker) get(ctx context.Context, c *piece, pos, n int64) (io.ReadCloser, error) {
	from := int64(c.r.Pos) + pos
	b.met.storeReads.Inc()
	b.met.storeBytes.AddInt64(n)
	obj, err := b.opt.Store.Get(ctx, c.r.key, objstore.Range{Offset: from, Length: n})
	switch {
	case err == nil && obj.Size >= 0 && obj.Size < from+n:
		obj.Body.Close()
		return nil, damaged("object is %d bytes long, %d are referenced", obj.Size, from+n)
	case err == nil:
		return obj.Body, nil
	case errors.Is(err, objstore.ErrNotFound):
		return nil, errMissing
	case errors.Is(err, objstore.ErrRefused):
		if size, ok := b.sizeOf(ctx, c.r.key); ok && size < from+n {
			return nil, damaged("object is %d bytes long, %d are referenced", size, from+n)
		}
	}
	return nil, fmt.Errorf("%w: get %s: %w", ErrStoreUnavailable, c.r.key, err)
}

// sizeOf asks for an object's size: a store refuses a range beyond its end as it refuses a stranger.
func (b *Broker) sizeOf(ctx context.Context, key string) (size int64, ok bool) {
	obj, err := b.opt.Store.Get(ctx, key, objstore.Range{Length: 1})
	if err != nil {
		return 0, false
	}
	defer obj.Body.Close()
	return obj.Size, obj.Size >= 0
}
