package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// Piece is a range that somebody wants, from an offset on: what to read, and then what was read.
type Piece struct {
	Part   int         // whose it is: the caller's number for what its pieces belong to
	Range  state.Range // with Key: where it lies
	Key    string      // of the object
	Offset int64       // the first that is wanted, one of the range's
	Max    int64       // bytes, soft: at least one batch is given

	// Chunk is what was read, if Release is not nil; that gives its memory or file back, and is to be called once.
	Chunk   Chunk
	Release func()
	// Err says why nothing was read: ErrOverBudget, *StoreError, ErrClosed, the cause of the context's end, or what the
	// Catalog has made of a missing or damaged object.
	Err error
}

// Give ends a piece with what was read.
func (p *Piece) Give(c Chunk, release func()) {
	c.Records = min(c.End-c.Base, int64(p.Range.Records))
	p.Chunk, p.Release = c, release
}

// Chunk is a run of whole batches of one partition, in memory or a section of a file.
type Chunk struct {
	Base, End int64             // offsets [Base, End)
	Size      int64             // bytes
	Records   int64             // it holds at most so many: after compaction fewer than offsets
	Parts     [][]byte          // in memory; valid until it is released, read-only
	Section   *objstore.Section // or in a file (Parts nil); valid until it is released
	Verified  bool              // batch CRCs are known good; a route that decodes checks them anyway
}

// Catalog knows where data lies: it is asked when something is not as a piece has it. Its methods may be called
// concurrently for different pieces.
type Catalog interface {
	// Missing is told that a piece's object is not in the store, or that something else is there. If the data lies elsewhere
	// now it points Range and Key there and says that they moved; if they are not to be had it says why; neither means that
	// they should be there.
	Missing(ctx context.Context, p *Piece) (moved bool, err error)
	// Damaged is told that what lies in the store for a piece is not what was written, and makes the piece's error of it.
	Damaged(p *Piece, err error) error
}

// StoreError says what could not be had from the store at the moment, though it should be there. It is ErrStoreUnavailable.
type StoreError struct {
	Doing string // what was done
	Err   error  // what came of it
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

// damage is stored data that is not what it must be.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }

func (d *damage) Unwrap() error { return d.err }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }
