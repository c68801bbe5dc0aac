package keyindex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/follow"
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

// Options are what a View is opened with. Path and Log must be set; the zero value of every other field means its default.
type Options struct {
	// Path is the view's file; others beside it begin with the same name. They may be deleted while no view is open.
	Path string
	Log  Log
	// CacheBytes is what SQLite keeps of the file in memory: 16 MiB.
	CacheBytes int64

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere

	sizes *sizes // the usual ones
}

const cacheBytes = 16 << 20

// View is a local index of the newest record of each key, and of all records of each key. It holds no values: fetch
// the record at an entry's offset. Its methods may be called concurrently.
//
// A key may stand in several partitions, when producers name partitions themselves. Within a partition the record with
// the highest offset is the newest; of several partitions it is the one whose newest record has the highest timestamp,
// and of equal ones that with the highest partition number.
type View struct {
	opt      Options
	met      *meters
	loop     *follow.Loop
	follower *follower

	mu        sync.Mutex        // guards the fields below
	snap      *snapshot         // nil while no file is open
	err       error             // why none can be opened
	opened    chan struct{}     // closed when snap or err is set
	moved     chan struct{}     // closed when positions change
	positions map[partKey]int64 // next offset to read
	broken    error             // why the file must be made anew
	readers   int               // that hold snapshots
	idle      *sync.Cond        // told when readers turns 0
}

// Open returns a view that follows o.Log from where its file says, until Close. The file is not opened, or made, before
// a topic has its key-index on. A file that can not be used is deleted and made anew from the log, which Lag tells and
// no error. ctx gives values to the reads of the log; its end after Open does not matter. Error: options that are missing.
func Open(ctx context.Context, o Options) (*View, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open view: path and log must be set")
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = cacheBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.sizes == nil {
		o.sizes = &usualSizes
	}
	v := &View{opt: o, opened: make(chan struct{}), moved: make(chan struct{}), positions: map[partKey]int64{}}
	v.idle = sync.NewCond(&v.mu)
	v.met = newMeters(v)
	v.follower = &follower{View: v, failed: map[partKey]*follow.Retry{}}
	v.loop = follow.NewLoop(follow.Options{
		Worker: v.follower, Path: o.Path, Changed: o.Log.Changed(), Now: time.Now, Backoff: o.sizes.retry, Logger: o.Logger,
		Message: "the view of keys can not be written", Closed: ErrClosed,
	})
	v.loop.Start(ctx)
	return v, nil
}

// Close stops following, waits for running queries, and closes the file. It may be called twice.
func (v *View) Close() error {
	v.loop.Close()
	return nil
}

// Entry is a record of a key: where it is, not what it holds. The caller owns Key.
type Entry struct {
	Key       []byte
	Partition uint32
	Offset    int64
	Timestamp int64 // ms since 1970
	Deleted   bool  // the record is a tombstone: its value is null
}

func public(e *RunEntry) Entry {
	return Entry{Key: append([]byte{}, e.Key...), Partition: e.Part, Offset: e.Offset, Timestamp: e.Time, Deleted: e.IsDeleted()}
}

// Get returns the newest record of a key in a partition, or in any with partition -1; that may be a tombstone. ok is
// false if the view knows none. The record is there unless it is deleted meanwhile, or the view lags (Lag): whoever
// finds it gone takes the key for deleted, and tells Forget. Errors: ErrNotIndexed, ErrInvalid, ErrClosed,
// ErrUnavailable, ctx's.
func (v *View) Get(ctx context.Context, topic record.ID, key []byte, partition int) (e Entry, ok bool, err error) {
	err = v.query(ctx, topic, func(q *lookup) error {
		if err := q.checkPartition(partition); err != nil {
			return err
		}
		found, err := q.get(key, partition)
		if err == nil && found != nil {
			e, ok = public(found), true
		}
		return err
	})
	return e, ok, err
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
func (v *View) List(ctx context.Context, topic record.ID, q ListQuery) (list []Entry, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, err
	}
	err = v.query(ctx, topic, func(l *lookup) (err error) {
		list, err = l.list(&q)
		return err
	})
	return list, err
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
// with After as the place of the last one; an answer short of Limit is the end. What a compaction has taken is left out
// once that compaction is done; before, and while the view lags, whoever reads a record and finds it gone tells Forget.
// Errors: those of Get.
func (v *View) History(ctx context.Context, topic record.ID, key []byte, q HistoryQuery) (list []Entry, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, err
	}
	err = v.query(ctx, topic, func(l *lookup) (err error) {
		if err := l.checkPartition(q.Partition); err != nil {
			return err
		}
		list, err = l.history(key, &q)
		return err
	})
	return list, err
}

// Forget takes entries out whose records were found to be gone, at most LimitMax of them; those that are not there are
// skipped. Errors: those of Get.
func (v *View) Forget(ctx context.Context, topic record.ID, gone []Entry) error {
	if len(gone) == 0 {
		return nil
	}
	if err := checkLimit(len(gone)); err != nil {
		return err
	}
	var there []RunEntry
	err := v.query(ctx, topic, func(q *lookup) error {
		there = there[:0]
		for i := range gone {
			e := RunEntry{
				Key: append([]byte{}, gone[i].Key...), Topic: q.topic, Part: gone[i].Partition, Offset: gone[i].Offset,
				Time: gone[i].Timestamp, Flags: Gone,
			}
			if ok, err := q.exists(&e); err != nil {
				return err
			} else if ok {
				there = append(there, e)
			}
		}
		return nil
	})
	if err != nil || len(there) == 0 {
		return err
	}
	return v.loop.Do(ctx, func(ctx context.Context) error { return v.follower.forget(ctx, there) })
}

func checkLimit(n int) error {
	if n < 1 || n > LimitMax {
		return fmt.Errorf("%w: limit %d is not between 1 and %d", ErrInvalid, n, LimitMax)
	}
	return nil
}

func (q *lookup) checkPartition(partition int) error {
	if partition < -1 || partition >= len(q.parts) {
		return fmt.Errorf("%w: partition %d of a topic that has %d", ErrInvalid, partition, len(q.parts))
	}
	return nil
}
