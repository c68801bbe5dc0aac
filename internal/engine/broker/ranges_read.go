package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

const (
	// tries is the number of attempts for damaged or unreadable data, and of relocations of a
	// piece.
	tries = 3
	// sectionMin is the smallest section of a file, in bytes.
	sectionMin = 32 << 10
	// BlockMin is the smallest read, in bytes, while batch boundaries are not known. Each block
	// without a wanted batch doubles the next one, up to skipMax.
	BlockMin = 64 << 10
	skipMax  = 4 << 20
)

// readPiece reads one piece. Damage may come from the transfer, so damaged data is read again
// before it is reported. Missing or damaged data may have moved (rule R11), because a late SEAL may
// have taken the name of a collected object. Otherwise it is corruption (rule R9).
func (r *Reader) readPiece(ctx context.Context, where Catalog, p *Piece) {
	moves := 0
	for try := 1; ; try++ {
		p.Err = r.readShared(ctx, p)
		var d *damage
		if errors.As(p.Err, &d) {
			objstore.Forget(r.opt.Store, p.Key)
		}
		switch {
		case p.Err == nil || errors.Is(p.Err, state.ErrOverBudget) || ctx.Err() != nil:
			return
		case errors.Is(p.Err, errMissing):
			if moves == tries {
				p.Err = &StoreError{"data moved again after each relocation", errMissing}
				return
			}
			if !p.follow(ctx, where, errMissing) {
				return
			}
			moves++
			try = 0
			continue
		case try == tries && d != nil:
			if moves == tries {
				p.Err = &StoreError{"data moved again after each relocation", d.err}
				return
			}
			if !p.follow(ctx, where, d.err) {
				return
			}
			moves++
			try = 0
			continue
		case try == tries, d == nil && r.opt.Elsewhere():
			return
		}
		if pause.Wait(ctx, pause.Spread(time.Duration(try)*50*time.Millisecond)) != nil {
			return
		}
	}
}

// follow handles a missing or damaged object. It returns true if the data has moved.
func (p *Piece) follow(ctx context.Context, where Catalog, why error) (again bool) {
	moved, err := where.Missing(ctx, p)
	if err == nil && !moved {
		err = where.Damaged(p, why)
	}
	p.Err = err
	return err == nil
}

// readOnce reads a piece: as a section of a file if the store provides one and the data is
// verified, else into memory.
func (r *Reader) readOnce(ctx context.Context, p *Piece) (Chunk, *memory, error) {
	ctx, cancel := r.timeout(ctx, int64(p.Range.Len))
	defer cancel()
	known, near := r.index.Find(p.Range.Source(), p.Range.Base, p.Range.End(), p.Offset, p.Max)
	n := len(known)
	if n == 0 || r.opt.Share {
		return r.readBlocks(ctx, p, near, nil, BlockMin)
	}
	size := known[n-1].Pos + known[n-1].Size - near.Pos
	if size < sectionMin {
		return r.readBlocks(ctx, p, near, nil, BlockMin)
	}
	body, err := r.get(ctx, p, near.Pos, size)
	if err != nil {
		return Chunk{}, nil, err
	}
	s, ok := body.(*objstore.Section)
	if !ok {
		return r.readBlocks(ctx, p, near, body, size)
	}
	return Chunk{Base: known[0].Base, End: known[n-1].End, Size: size, Section: s, Verified: true}, newMemory(s), nil
}

// timeout returns a context for one attempt to read n bytes.
func (r *Reader) timeout(ctx context.Context, n int64) (context.Context, context.CancelFunc) {
	moving := time.Duration(float64(r.opt.PerMiB) * float64(n) / (1 << 20))
	limit := r.opt.Timeout
	if r.opt.Elsewhere() {
		limit = min(limit, standbyTimeout)
	}
	return context.WithTimeout(ctx, limit+moving)
}

// readBlocks reads from a known start of a batch until it has the batch that holds the wanted
// offset, and what follows. That is mostly one request, because readers continue where they
// stopped. body, if not nil, supplies the first least bytes.
func (r *Reader) readBlocks(ctx context.Context, p *Piece, near Segment, body io.ReadCloser, least int64) (Chunk, *memory, error) {
	v := verifier{Piece: p, pos: near.Pos, base: near.Base}
	for skip := int64(2 * BlockMin); ; skip = min(2*skip, skipMax) {
		mem, err := r.block(ctx, &v, body, least)
		if err != nil {
			return Chunk{}, nil, err
		}
		found, err := v.verify(mem.buf)
		if err != nil {
			mem.release()
			return Chunk{}, nil, err
		}
		r.index.Add(p.Range.Source(), v.segments)
		if found.Size > 0 {
			return found, mem, nil
		}
		mem.release()
		body, least = nil, max(skip, v.need)
	}
}

// block reads from the verifier's position: all wanted bytes, or fewer if memory is short, but at
// least least bytes if the range has them.
func (r *Reader) block(ctx context.Context, v *verifier, body io.ReadCloser, least int64) (*memory, error) {
	want := least
	if body == nil {
		want = max(v.Max, least)
	} else {
		defer body.Close()
	}
	rest := int64(v.Range.Len) - v.pos
	if rest <= 0 {
		return nil, damaged("batches end at offset %d, before %d", v.base, v.Offset)
	}
	mem, err := r.reserve(min(want, rest), min(least, rest, max(v.need, BlockMin)))
	if err != nil {
		return nil, err
	}
	if body == nil {
		if body, err = r.get(ctx, v.Piece, v.pos, int64(len(mem.buf))); err != nil {
			mem.release()
			return nil, err
		}
		defer body.Close()
	}
	if err := v.fill(body, mem.buf); err != nil {
		mem.release()
		return nil, err
	}
	return mem, nil
}

// fill reads buf from body.
func (p *Piece) fill(body io.Reader, buf []byte) error {
	_, err := io.ReadFull(body, buf)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, objstore.ErrNoVerdict) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return damaged("object is truncated")
	case errors.Is(err, objstore.ErrDamaged):
		return damaged("%w", err)
	}
	return &StoreError{"read " + p.Key, err}
}

// get opens n bytes from a position in the range.
func (r *Reader) get(ctx context.Context, p *Piece, pos, n int64) (io.ReadCloser, error) {
	from := int64(p.Range.Pos) + pos
	r.gets.Inc()
	r.bytes.AddInt64(n)
	obj, err := r.opt.Store.Get(ctx, p.Key, objstore.Range{Offset: from, Length: n})
	switch {
	case err == nil && obj.Size >= 0 && obj.Size < from+n:
		obj.Body.Close()
		return nil, damaged("object has %d bytes, its range ends at byte %d", obj.Size, from+n)
	case err == nil:
		return obj.Body, nil
	case errors.Is(err, objstore.ErrNotFound):
		return nil, errMissing
	case errors.Is(err, objstore.ErrDamaged):
		return nil, damaged("%w", err)
	case errors.Is(err, objstore.ErrRefused):
		if size, ok := r.sizeOf(ctx, p.Key); ok && size < from+n {
			return nil, damaged("object has %d bytes, its range ends at byte %d", size, from+n)
		}
	}
	return nil, &StoreError{"get " + p.Key, err}
}

// sizeOf requests an object's size, to tell an out-of-range request from an access error: both are
// ErrRefused.
func (r *Reader) sizeOf(ctx context.Context, key string) (size int64, ok bool) {
	obj, err := r.opt.Store.Get(ctx, key, objstore.Range{Length: 1})
	if err != nil {
		return 0, false
	}
	defer obj.Body.Close()
	return obj.Size, obj.Size >= 0
}

// Piece is a request for a range from an offset on, and its result.
type Piece struct {
	Part   int         // the caller's number for the group of pieces that this one belongs to
	Range  state.Range // the range; with Key, its location
	Key    string      // of the object
	Offset int64       // the first wanted offset, in the range
	Max    int64       // bytes, soft: at least one batch is returned

	// Chunk is the result if Release is not nil. Release frees its memory or file; the caller calls
	// it once.
	Chunk   Chunk
	Release func()
	// Err is why there is no chunk: ErrOverBudget, *StoreError, ErrClosed, the context's cause, or
	// the Catalog's error for a missing or damaged object.
	Err error
}

// Finish sets a piece's result.
func (p *Piece) Finish(c Chunk, release func()) {
	c.Records = min(c.End-c.Base, int64(p.Range.Records))
	p.Chunk, p.Release = c, release
}

// Chunk is a run of whole batches of one partition, in memory or a section of a file.
type Chunk struct {
	Base, End int64 // offsets [Base, End)
	Size      int64 // bytes
	// upper bound: after compaction there are fewer records than offsets
	Records  int64
	Parts    [][]byte          // in memory; valid until release, read-only
	Section  *objstore.Section // or in a file (Parts is nil); valid until release
	Verified bool              // batch CRCs are verified; a route that decodes checks them too
}

// Catalog locates data. The reader calls it if the store's object does not match a piece. Its
// methods may be called concurrently for different pieces.
type Catalog interface {
	// Missing is called if a piece's object is missing or holds other data. If the data has moved,
	// it updates Range and Key and returns moved. If the data is gone, it returns an error. Neither
	// means that the object should be there.
	Missing(ctx context.Context, p *Piece) (moved bool, err error)
	// Damaged is called if a piece's data in the store is damaged. It returns the piece's error.
	Damaged(p *Piece, err error) error
}

// StoreError is a failed read of data that should be in the store. It is ErrStoreUnavailable.
type StoreError struct {
	Doing string // the operation, as "get KEY"
	Err   error  // its error
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("%v: %s: %v", state.ErrStoreUnavailable, e.Doing, e.Err)
}

// Is makes it ErrStoreUnavailable.
func (e *StoreError) Is(t error) bool { return t == state.ErrStoreUnavailable }

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// errSilent: the store does not answer a confirmation.
var errSilent = fmt.Errorf("%w: it does not answer in time", state.ErrStoreUnavailable)

// errMissing: the object is not in the store.
var errMissing = errors.New("object is missing")

// damage is the error for stored data that does not match the range or its checksums.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }

func (d *damage) Unwrap() error { return d.err }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }

// Cut returns batches from parts, which begin at base and hold whole batches each. It starts with
// the batch that holds offset and stops before max bytes are exceeded, but returns at least one
// batch. It reads only headers, because the parts are the bytes that were sent to the store.
func Cut(parts [][]byte, base, offset, max int64) (out Chunk, err error) {
	out.Verified = true
	next := base
	for _, p := range parts {
		from := 0 // where the part's wanted batches begin
		for at := 0; at < len(p); {
			batch, _, err := record.Split(p[at:])
			if err != nil {
				return out, err
			}
			if batch.BaseOffset() != next || batch.Span() <= 0 {
				return out, fmt.Errorf("batch at offset %d of %d offsets, want offset %d", batch.BaseOffset(), batch.Span(), next)
			}
			if out.Size > 0 && out.Size+int64(batch.Len()) > max {
				out.add(p[from:at])
				return out, nil
			}
			next += batch.Span()
			at += batch.Len()
			if next <= offset {
				from = at
				continue
			}
			if out.Size == 0 {
				out.Base = batch.BaseOffset()
			}
			out.Size += int64(batch.Len())
			out.End = next
		}
		out.add(p[from:])
	}
	return out, nil
}

func (c *Chunk) add(p []byte) {
	if len(p) > 0 {
		c.Parts = append(c.Parts, p)
	}
}
