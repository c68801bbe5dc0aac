package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

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
	return fmt.Sprintf("%v: %s: %v", ErrStoreUnavailable, e.Doing, e.Err)
}

// Is makes it ErrStoreUnavailable.
func (e *StoreError) Is(t error) bool { return t == ErrStoreUnavailable }

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// errSilent: the store does not answer a confirmation.
var errSilent = fmt.Errorf("%w: it does not answer in time", ErrStoreUnavailable)

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
