// Package objstore is the bucket: a flat name space of immutable objects whose heart is put-if-absent.
//
// Three stores implement it: Disk, Memory and S3. One contract suite (storetest) holds for all of them. A name is
// stored at most once and its bytes never change; there is no overwrite anywhere in Seb (rule R1).
package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// The verdicts a store may give besides success. Every error a Store returns wraps exactly one of them (or is a context
// error wrapped together with ErrNoVerdict); test with errors.Is.
var (
	// ErrExists: put-if-absent found the name taken. By error code (PreconditionFailed), never by status alone.
	ErrExists = errors.New("object exists")
	// ErrNotFound: the name is not there; on S3 the code NoSuchKey from a GET and nothing else (rule R3).
	ErrNotFound = errors.New("object not found")
	// ErrNoVerdict: whether the request took effect is unknown (409, 5xx, reset, timeout). Repeat it with the same bytes.
	ErrNoVerdict = errors.New("no verdict from store")
	// ErrThrottled: like ErrNoVerdict, and the store asked for fewer requests (429, 503 SlowDown). errors.Is(err,
	// ErrNoVerdict) is true as well.
	ErrThrottled = &throttled{}
	// ErrRefused: the store refuses this caller or this request for good until somebody changes something (401, 403, no
	// such bucket, wrong region, failed fsync, disk full).
	ErrRefused = errors.New("store refused the request")
)

type throttled struct{}

func (*throttled) Error() string        { return "store is throttling" }
func (*throttled) Is(target error) bool { return target == ErrNoVerdict }

// Body is what a Put stores: parts in order. The caller must not change the parts while Put runs; a Store holds no
// reference to them once Put has returned, however late a transport closes its request.
type Body struct {
	Parts  [][]byte
	Size   int64  // sum of the lengths of Parts
	CRC32C uint32 // Castagnoli sum over all parts, valid if HasCRC; sent to stores that take one
	HasCRC bool
}

// NewBody returns a body of the given parts without a checksum.
func NewBody(parts ...[]byte) Body {
	b := Body{Parts: parts}
	for _, p := range parts {
		b.Size += int64(len(p))
	}
	return b
}

// Range is a part of an object: Length bytes from Offset. Length < 0 reads to the end. A range that reaches beyond the
// end gives what is there. Refused (ErrRefused): a negative offset, an offset above zero at or beyond the end, and a
// length of zero, which S3 can not express.
type Range struct {
	Offset int64
	Length int64
}

// Whole is the range of a whole object.
var Whole = Range{Length: -1}

// Object is an open read. The caller closes Body.
type Object struct {
	Size int64 // of the whole object, not of the range; -1 if the store did not say
	Body io.ReadCloser
}

// Entry is one name in a listing.
type Entry struct {
	Key  string
	Size int64
}

// ListOptions narrows a listing.
type ListOptions struct {
	Prefix string // names that begin with it; may end in the middle of a path element
	After  string // only names greater than it, "" for all
	Max    int    // at most so many; 0 means the store's page size. Never more than 1000 are given
}

// Store is one bucket with its prefix. Keys are relative, '/'-separated, without empty, "." or ".." elements, at most
// 512 bytes of [A-Za-z0-9._~-]. All methods may be called concurrently and honour ctx.
type Store interface {
	// Put stores body under key if no object has that key. nil means durable.
	// Errors: ErrExists, ErrNoVerdict (ErrThrottled), ErrRefused.
	Put(ctx context.Context, key string, body Body) error
	// Get opens a range of an object. Reading Body may fail with ErrNoVerdict. On S3 ctx governs that reading too: it must
	// live until Body is closed. Errors: ErrNotFound, ErrNoVerdict, ErrRefused.
	Get(ctx context.Context, key string, r Range) (Object, error)
	// List returns names in ascending byte order, and whether more follow. It shows every Put answered before it began.
	List(ctx context.Context, o ListOptions) (entries []Entry, more bool, err error)
	// Delete removes names; a name that is not there is no error. On an error any of them may or may not be gone.
	Delete(ctx context.Context, keys ...string) error
	// String names the store for people: no secrets.
	String() string
}

// Forgetter is implemented by stores that keep copies of what they have read.
type Forgetter interface {
	// Forget drops the copies of objects: they are read from the bucket itself again.
	Forget(keys ...string)
}

// Forget is for who has read what can not be: it may have been damaged on the way, and a store that keeps copies would
// give the same again.
func Forget(s Store, keys ...string) {
	if f, ok := As[Forgetter](s); ok {
		f.Forget(keys...)
	}
}

// ErrBroken: an fsync failed, so what the disk holds is not known. The store refuses writes until a new process opens it.
var ErrBroken = errors.New("fsync failed: what the disk holds is not known")

// Fragile is implemented by stores that a failed fsync ends (disk).
type Fragile interface {
	// Broken is closed by the first fsync that fails.
	Broken() <-chan struct{}
	// BrokenBy is nil before, and then says what failed; it wraps ErrBroken.
	BrokenBy() error
}

// Clocked is implemented by stores that tell the time (S3: the Date header of the last answer).
type Clocked interface {
	// ClockSkew is local time minus the store's, from the newest answer; ok is false before the first.
	ClockSkew() (skew time.Duration, ok bool)
}
