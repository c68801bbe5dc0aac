package view

import (
	"context"
	"errors"
	"log/slog"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/record"
)

// LimitMax is the most entries that one List or History gives.
const LimitMax = 10_000

// The errors that callers may test for with errors.Is.
var (
	// ErrNotIndexed: the topic is not there, or its key-index is off.
	ErrNotIndexed = errors.New("topic has no key index")
	// ErrClosed: the view was closed.
	ErrClosed = errors.New("view is closed")
	// ErrUnavailable: the view's file can not be opened or written (disk full, no permission). It is tried again.
	ErrUnavailable = errors.New("view is unavailable")
	// ErrInvalid: a query that asks for what can not be.
	ErrInvalid = errors.New("invalid query")
)

// Log is what a view follows. Package node adapts a broker to it. Its methods may be called concurrently, except Read,
// which the view calls from one goroutine.
type Log interface {
	// Cluster is the id of the cluster whose log this is.
	Cluster() record.ID
	// Partitions lists the partitions of all topics whose key-index is on, as committed.
	Partitions() []Partition
	// Topic lists those of one topic, by number; none if it is not there or its key-index is off.
	Topic(topic record.ID) []Partition
	// Origin is the nonce of the epoch in which an offset of a partition was committed; zero if that is not known.
	Origin(topic record.ID, partition uint32, offset int64) record.ID
	// Read gives whole committed batches: the one that holds offset first, then what follows it up to about bytesMax. None
	// if nothing is there yet.
	Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (Batches, error)
	// Changed has an element whenever Partitions may have changed since it was last received from (capacity 1). Waiting on
	// it makes no request.
	Changed() <-chan struct{}
	// Asked tells that somebody asks the view: a broker that only follows goes on following for a while.
	Asked()
}

// Partition is a partition as committed: offsets [Start, Next) are there.
type Partition struct {
	Topic       record.ID
	Partition   uint32
	Start, Next int64
	// Records is how many records there are; fewer than offsets where compaction took some away.
	Records int64
}

// Batches are whole batches of one partition in offset order, cut anywhere between batches.
type Batches struct {
	Parts [][]byte // read-only, until Release
	// Release gives them back; nil if there is nothing to give back. It is called once.
	Release func()
}

// Options are what a View is opened with. Path and Log must be set; the zero value of every other field means its default.
type Options struct {
	// Path is the view's file; others beside it begin with the same name. They may be deleted while no view is open.
	Path string
	Log  Log
	// CacheBytes is what SQLite keeps of the file in memory: 16 MiB.
	CacheBytes int64

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere
}

// View is a local index of the newest record of each key, and of all records of each key. It holds no values: fetch
// the record at an entry's offset. Its methods may be called concurrently.
//
// A key may stand in several partitions, when producers name partitions themselves. Within a partition the record with
// the highest offset is the newest; of several partitions it is the one whose newest record has the highest timestamp,
// and of equal ones that with the highest partition number.
type View struct {
	opt Options
}

// Open returns a view that follows o.Log from where its file says. The file is not opened, or made, before a topic has
// its key-index on. A file that can not be used is deleted and made anew from the log, which Lag tells and no error.
// Error: options that are missing.
func Open(o Options) (*View, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open view: path and log must be set")
	}
	return &View{opt: o}, nil
}

// Close stops following, waits for running queries, and closes the file. It may be called twice.
func (v *View) Close() error { return nil }

// Entry is a record of a key: where it is, not what it holds. The caller owns Key.
type Entry struct {
	Key       []byte
	Partition uint32
	Offset    int64
	Timestamp int64 // ms since 1970
	Deleted   bool  // the record is a tombstone: its value is null
}

// Get returns the newest record of a key in a partition, or in any with partition -1; that may be a tombstone. ok is
// false if the view knows none. A tombstone's record may have been compacted away: all others are there, unless the
// partition is trimmed meanwhile. Errors: ErrNotIndexed, ErrInvalid, ErrClosed, ErrUnavailable, ctx's.
func (v *View) Get(ctx context.Context, topic record.ID, key []byte, partition int) (e Entry, ok bool, err error) {
	return Entry{}, false, ErrNotIndexed
}

// ListQuery says which keys List gives.
type ListQuery struct {
	Prefix []byte // only keys that begin so
	After  []byte // only keys behind this one; nil: from the first
	Limit  int    // at most so many, 1 to LimitMax
}

// List returns the keys of a topic that have a value, each once with its newest record, in the order of their bytes.
// To go on, ask again with After as the last key. An empty answer is the end; one that is not may be short of Limit
// when keys are long. A key that is there all the while comes exactly once, whatever is written meanwhile. Errors: those
// of Get.
func (v *View) List(ctx context.Context, topic record.ID, q ListQuery) ([]Entry, error) {
	return nil, ErrNotIndexed
}

// Place names a record of a topic.
type Place struct {
	Partition uint32
	Offset    int64
}

// HistoryQuery says which records of a key History gives.
type HistoryQuery struct {
	Partition   int    // -1: any
	NewestFirst bool   // else oldest first
	After       *Place // only what comes behind this record, in the order asked for; nil: from the first
	Limit       int    // at most so many, 1 to LimitMax
}

// History returns the records of a key, tombstones too. Those of one partition come by offset; if the key stands in
// several they come by timestamp, as far as that goes without changing the order within a partition. To go on, ask again
// with After as the place of the last one; an answer short of Limit is the end. Some of the records may have been compacted
// away: whoever reads one and finds it gone tells Forget. Errors: those of Get.
func (v *View) History(ctx context.Context, topic record.ID, key []byte, q HistoryQuery) ([]Entry, error) {
	return nil, ErrNotIndexed
}

// Forget takes entries out whose records were found to be gone, at most LimitMax of them; those that are not there are
// skipped. Errors: those of Get.
func (v *View) Forget(ctx context.Context, topic record.ID, gone []Entry) error {
	return ErrNotIndexed
}

// Lag is how many records of a topic are committed and not yet in the view (offsets, to be exact); 0 if the topic has no
// key index.
func (v *View) Lag(topic record.ID) int64 { return 0 }

// WaitFor waits until the record at an offset is in the view, and does not mind whether it is written yet. Errors: those
// of Get.
func (v *View) WaitFor(ctx context.Context, topic record.ID, partition uint32, offset int64) error {
	return ErrNotIndexed
}
