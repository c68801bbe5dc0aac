// Package objstore is the bucket: a flat name space of immutable objects with put-if-absent.
//
// Three stores implement it: Disk, Memory, and package s3. One contract suite (storetest) checks all
// of them. Package anystore opens each by its address. A name is stored at most once and its bytes
// never change; nothing in Seb overwrites an object (rule R1).
package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
)

// The verdicts of a store besides success. Every error of a Store wraps exactly one of them,
// possibly together with a context error; test with errors.Is.
var (
	// ErrExists: put-if-absent found the name taken. Decided by the error code
	// (PreconditionFailed), never by the status alone.
	ErrExists = errors.New("object exists")
	// ErrNotFound: the name does not exist; on S3 only the code NoSuchKey of a GET (rule R3).
	ErrNotFound = errors.New("object not found")
	// ErrNoVerdict: it is unknown whether the request took effect (409, 5xx, reset, timeout).
	// Repeat it with the same bytes.
	ErrNoVerdict = errors.New("no verdict from store")
	// ErrThrottled: like ErrNoVerdict, and the store asked for fewer requests (429, 503 SlowDown).
	// It also matches ErrNoVerdict.
	ErrThrottled = &throttled{}
	// ErrRefused: the store refuses this caller or this request until an operator changes something
	// (401, 403, no such bucket, wrong region, failed fsync, disk full).
	ErrRefused = errors.New("store refused the request")
)

// ErrDamaged: a file of the store is damaged, and the object may have been in it, or bytes of the
// object are missing. It also matches ErrRefused.
var ErrDamaged = &damaged{}

type damaged struct{}

func (*damaged) Error() string        { return "the bucket is damaged" }
func (*damaged) Is(target error) bool { return target == ErrRefused }

// ErrOutOfRange: a range begins at or behind the end of its object. It is damage if the object should
// be longer. It also matches ErrRefused.
var ErrOutOfRange = &outOfRange{}

type outOfRange struct{}

func (*outOfRange) Error() string        { return "the range is not in the object" }
func (*outOfRange) Is(target error) bool { return target == ErrRefused }

type throttled struct{}

func (*throttled) Error() string        { return "store is throttling" }
func (*throttled) Is(target error) bool { return target == ErrNoVerdict }

// Body is the content of a Put: parts in order. The caller must not change the parts during Put. A
// Store holds no reference to them after Put has returned, even if a transport closes its request
// later.
type Body struct {
	Parts [][]byte
	Size  int64 // sum of the lengths of Parts
	// Castagnoli checksum of all parts, valid if HasCRC; sent to stores that accept one
	CRC32C uint32
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

// Range is a part of an object: Length bytes from Offset. Length < 0 reads to the end. A range
// beyond the end returns the existing bytes. ErrOutOfRange: an offset above zero at or beyond the
// end. ErrRefused: a negative offset, and a length of zero, which S3 cannot express.
type Range struct {
	Offset int64
	Length int64
}

// Whole is the range of a whole object.
var Whole = Range{Length: -1}

// Object is an open read. The caller closes Body.
type Object struct {
	Size int64 // of the whole object, not the range; -1 if the store did not report it
	Body io.ReadCloser
}

// Entry is one name in a listing.
type Entry struct {
	Key  string
	Size int64
}

// ListOptions narrows a listing.
type ListOptions struct {
	Prefix string // prefix of the names; may end in the middle of a path element
	After  string // only names greater than it; "" for all
	Max    int    // maximum number of names, 0: the store's page size; never more than 1000
}

// Store is one bucket with its prefix. Keys are relative, '/'-separated, without empty, "." or ".."
// elements, at most 512 bytes of [A-Za-z0-9._~-]. All methods may be called concurrently and honor
// ctx.
type Store interface {
	// Put stores body under key if no object has that key. nil means durable.
	// Errors: ErrExists, ErrNoVerdict (ErrThrottled), ErrRefused.
	Put(ctx context.Context, key string, body Body) error
	// Get opens a range of an object. Reading Body may fail with ErrNoVerdict, and on a disk with
	// ErrDamaged. On S3 ctx also governs that reading: it must live until Body is closed. Errors:
	// ErrNotFound, ErrNoVerdict, ErrRefused (ErrOutOfRange, ErrDamaged).
	Get(ctx context.Context, key string, r Range) (Object, error)
	// List returns names in ascending byte order, and whether more follow. It shows every Put that
	// was answered before List began.
	List(ctx context.Context, o ListOptions) (entries []Entry, more bool, err error)
	// Delete removes names; a missing name is no error. After an error any of the names may be
	// deleted or not.
	Delete(ctx context.Context, keys ...string) error
	// String is the store's name for messages, without secrets.
	String() string
}

// Forgetter is implemented by stores that keep copies of objects.
type Forgetter interface {
	// Forget drops the copies of objects, so that the next reads go to the bucket.
	Forget(keys ...string)
}

// Forget drops a store's copies of objects, if it keeps any. Call it after reading invalid data:
// the data may have been damaged in transit, and a copy would return the same bytes again.
func Forget(s Store, keys ...string) {
	if f, ok := As[Forgetter](s); ok {
		f.Forget(keys...)
	}
}

// Direct returns the store below the one that keeps copies, or s if none does.
func Direct(s Store) Store {
	if f, ok := As[Forgetter](s); ok {
		if w, ok := f.(Unwrapper); ok {
			return w.Unwrap()
		}
	}
	return s
}

// Extent is a range of an object.
type Extent struct {
	Key   string
	Range Range // its length is above zero
}

// Ahead is implemented by stores that can fetch bytes before a reader asks for them.
type Ahead interface {
	// FetchAhead starts to fetch the wanted first bytes of the extents and the window behind them,
	// except bytes that are local or on their way. It starts few large requests, in order, as far as
	// there is memory for them, and does not wait. Without a window it starts none. An error of such a
	// request has no effect, because a reader asks again. local reports whether all wanted bytes were
	// local.
	FetchAhead(next []Extent, wanted, window int64) (local bool)
	// AheadMax bounds the bytes that are fetched and not yet read, for all readers together. 0: the
	// store fetches nothing ahead.
	AheadMax() int64
}

// ErrBroken: an fsync failed, so the content of the disk is unknown. The store refuses writes until
// a new process opens it.
var ErrBroken = errors.New("fsync failed: the content of the disk is unknown")

// FilePutter is implemented by stores that send an object from a file (S3).
type FilePutter interface {
	// PutFile is Put with the bytes of a section of a file. After PutFile has returned, a transport
	// may still read the file, which may be closed.
	PutFile(ctx context.Context, key string, content *io.SectionReader) error
}

// PutFile is Put with the bytes of a section of a file. A store that is no FilePutter gets them in
// memory.
func PutFile(ctx context.Context, s Store, key string, content *io.SectionReader) error {
	if f, ok := s.(FilePutter); ok {
		return f.PutFile(ctx, key, content)
	}
	b := make([]byte, content.Size())
	if _, err := content.ReadAt(b, 0); err != nil && err != io.EOF {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return s.Put(ctx, key, NewBody(b))
}

// Fragile is implemented by stores that a failed fsync disables (disk).
type Fragile interface {
	// Broken is closed by the first fsync that fails.
	Broken() <-chan struct{}
	// BrokenBy is nil before that, and then the failure; it wraps ErrBroken.
	BrokenBy() error
}

// ErrUnsuitable: a journal is not possible here. It is no verdict about an object.
var ErrUnsuitable = errors.New("the store cannot keep a journal")

// Journaler is implemented by stores that can keep the objects of a folder in a journal (disk).
type Journaler interface {
	// Own claims a folder that holds no object yet. From then on Put appends its objects to a
	// journal of this store, and a Put of another process first ends that journal. nil: the claim
	// is durable. After an error the folder is unchanged or claimed. Put works in both cases; only
	// after ErrRefused it is refused as well.
	// Errors: ErrExists (the folder has objects or another claim), ErrUnsuitable (the file system
	// or the spec does not allow journals), ErrNoVerdict, ErrRefused.
	Own(ctx context.Context, folder string) error
}

// Damage is a part of a file with several objects that cannot be read.
type Damage struct {
	Folder string // of the objects
	Lost   bool   // objects may be in the part; otherwise all of them can be read without it
	Bytes  int64  // that cannot be read, if Lost
	Err    error  // names the file and the part
}

// DamageFinder is implemented by stores that keep several objects in a file (disk).
type DamageFinder interface {
	// Damage finds the unreadable parts of the files that hold objects below a prefix. The content
	// of the objects is not read. Errors: ErrNoVerdict, ErrRefused.
	Damage(ctx context.Context, prefix string) ([]Damage, error)
}

// Clocked is implemented by stores that report their time (S3: the Date header of responses).
type Clocked interface {
	// ClockSkew is local time minus the store's, by the newest response; ok is false before the
	// first.
	ClockSkew() (skew time.Duration, ok bool)
}

// Requests are numbers of requests.
type Requests struct {
	Put, List, Get, Delete int64
}

// Counting is implemented by stores that count what they send (S3), because each request has a
// price.
type Counting interface {
	// Requests returns the requests since the store was opened, with the repeated ones.
	Requests() Requests
}

// Retry repeats a request without a verdict, up to five times. The pause before the first time doubles
// with each.
func Retry(ctx context.Context, first time.Duration, request func() error) error {
	for left := 5; ; left-- {
		err := request()
		if !errors.Is(err, ErrNoVerdict) || left == 0 || pause.Wait(ctx, first) != nil {
			return err
		}
		first *= 2
	}
}

// Section is the body of an object in a file: the result of Disk.Get. A caller that wants the
// kernel to copy the bytes (sendfile) uses the fields or WriteTo; others use Read. Not for
// concurrent use. Close closes File.
type Section struct {
	File *os.File // opened for this section alone, which may move its position
	Off  int64    // position of the section in File
	Len  int64    // length of the section, independent of reads

	read    int64        // bytes already read
	release func() error // if not nil, called once instead of closing File
	done    bool
}

// Read implements io.Reader. A file that is shorter than it was when opened gives ErrDamaged: a file
// of a bucket never shrinks, and a deleted one keeps its bytes while it is open.
func (s *Section) Read(p []byte) (int, error) {
	left := s.Len - s.read
	if left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := s.File.ReadAt(p, s.Off+s.read)
	s.read += int64(n)
	if n == len(p) {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, s.broken(err)
}

// WriteTo implements io.WriterTo for the unread bytes. If w is a TCP connection the kernel copies
// them.
func (s *Section) WriteTo(w io.Writer) (int64, error) {
	left := s.Len - s.read
	if left <= 0 {
		return 0, nil
	}
	if _, err := s.File.Seek(s.Off+s.read, io.SeekStart); err != nil {
		return 0, s.broken(err)
	}
	n, err := io.Copy(w, &io.LimitedReader{R: s.File, N: left})
	s.read += n
	if err == nil && n < left {
		err = s.broken(io.ErrUnexpectedEOF)
	}
	return n, err
}

func (s *Section) broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read %s: %w: the file ends before byte %d", s.File.Name(), ErrDamaged, s.Off+s.Len)
	}
	return fmt.Errorf("read %s: %w: %w", s.File.Name(), ErrNoVerdict, err)
}

// Close closes File, or gives it back to the store. It may be called twice.
func (s *Section) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	if s.release != nil {
		return s.release()
	}
	if err := s.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// KeyBytesMax is the longest key in bytes, without the store's prefix.
const KeyBytesMax = 512

// pageMax is the maximum number of names in one page of a listing, as on S3.
const pageMax = 1000

// ValidKey reports whether key obeys the rules of Store: relative, '/'-separated, no empty, "." or
// ".." element, at most KeyBytesMax bytes of [A-Za-z0-9._~-].
func ValidKey(key string) bool {
	if len(key) == 0 || len(key) > KeyBytesMax {
		return false
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "" || element == "." || element == ".." || !validBytes(element) {
			return false
		}
	}
	return true
}

func validBytes(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '~', c == '-':
		default:
			return false
		}
	}
	return true
}

var errBadKey = errors.New("invalid key")

// Begin makes the checks that all operations on named objects start with: the keys, then the
// context.
func Begin(ctx context.Context, step string, keys ...string) error {
	for _, key := range keys {
		if !ValidKey(key) {
			return fmt.Errorf("%s %q: %w: %w", step, key, ErrRefused, errBadKey)
		}
	}
	return Alive(ctx, step)
}

// Alive returns the verdict of a call whose ctx has ended, else nil.
func Alive(ctx context.Context, step string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", step, ErrNoVerdict, Ended(ctx))
}

// Ended is the error of an ended ctx, with its cause if there is one.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// Clip turns r into offset and length within an object of size bytes.
func (r Range) Clip(size int64) (offset, length int64, err error) {
	if err := r.Validate(); err != nil {
		return 0, 0, err
	}
	if r.Offset > 0 && r.Offset >= size {
		return 0, 0, fmt.Errorf("%w: range starts at %d, object has %d bytes", ErrOutOfRange, r.Offset, size)
	}
	length = size - r.Offset
	if r.Length > 0 {
		length = min(length, r.Length)
	}
	return r.Offset, length, nil
}

// Validate refuses a range that can contain no byte.
func (r Range) Validate() error {
	if r.Offset < 0 || r.Length == 0 {
		return fmt.Errorf("%w: range of %d bytes from %d", ErrRefused, r.Length, r.Offset)
	}
	return nil
}

// PageSize is the maximum number of entries in a listing whose caller wants at most wanted, 0 being any
// number.
func PageSize(wanted int) int {
	if wanted <= 0 || wanted > pageMax {
		return pageMax
	}
	return wanted
}

// CheckBody checks Size, because a header with another length would truncate the object.
func CheckBody(key string, body Body) error {
	if n := NewBody(body.Parts...).Size; n != body.Size {
		return fmt.Errorf("put %s: %w: body size %d, parts have %d bytes", key, ErrRefused, body.Size, n)
	}
	return nil
}

// PossiblePrefix reports whether a valid key can begin with prefix.
func PossiblePrefix(prefix string) bool {
	return prefix == "" || ValidKey(prefix) || ValidKey(prefix+"x")
}
