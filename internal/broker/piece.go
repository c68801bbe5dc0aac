package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
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

// errMissing: the object is not in the store.
var errMissing = errors.New("object is missing")

// damage is the error for stored data that does not match the range or its checksums.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }

func (d *damage) Unwrap() error { return d.err }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }
