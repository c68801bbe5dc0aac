// Package keyindex keeps an index of record keys in a local SQLite file (FORMAT.md): the newest
// record of each key, and the offsets of all its records. It follows the log of the topics with
// key-index on. The transaction that stores entries also stores the position in the log, so the
// index continues exactly there after a crash. The file is a cache: after any error in its content
// it is rebuilt from the log.
//
// The rows of the file hold blocks and runs (RUNS.md): a block is a sorted list of entries as
// bytes, and a run is a list of blocks with an index above them. Several runs are merged into one.
package keyindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// LimitMax is the maximum number of entries of one List or History.
const LimitMax = 10_000

// Errors that callers may test for with errors.Is.
var (
	// ErrNotIndexed: the topic does not exist, or its key-index is off.
	ErrNotIndexed = errors.New("topic has no key index")
	// ErrClosed: the view was closed.
	ErrClosed = errors.New("key index is closed")
	// ErrUnavailable: the file cannot be opened or written (disk full, no permission), or was found
	// damaged and is being rebuilt. The view retries.
	ErrUnavailable = errors.New("key index is unavailable")
	// ErrInvalid: a parameter of the query is invalid.
	ErrInvalid = errors.New("invalid query")
)

// Options configure a View. Path and Log must be set; a zero value of any other field means its
// default.
type Options struct {
	// Path is the file; its companion files begin with the same name. They may be deleted while no
	// view is open.
	Path string
	Log  Log
	// CacheBytes is SQLite's page cache: 16 MiB.
	CacheBytes int64

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a new set that is not registered

	sizes *sizes // defaultSizes
}

const cacheBytes = 16 << 20

// View is a local index of the newest record of each key, and of all records of each key. It has no
// values: fetch the record at an entry's offset. Its methods may be called concurrently.
//
// A key may be in several partitions if producers choose partitions themselves. Within a partition
// the record with the highest offset is the newest. Across partitions it is the one with the
// highest timestamp, and of equal ones the one with the highest partition number.
type View struct {
	opt      Options
	met      *meters
	loop     *views.Loop
	follower *follower

	mu        sync.Mutex        // guards the fields below
	snap      *snapshot         // nil while no file is open
	err       error             // why no file can be opened
	opened    chan struct{}     // closed when snap or err is set
	moved     chan struct{}     // closed when positions change
	positions map[partKey]int64 // next offset to read
	// reached has the positions that damaged files had and the rebuilt one does not have yet. Queries
	// of these topics wait, because a key that was found before would be missing.
	reached map[partKey]int64
	broken  error      // why the file must be rebuilt
	readers int        // number of holders of snapshots
	idle    *sync.Cond // signals that readers is 0
}

// Open returns a view that follows o.Log from the position in its file until Close. It opens or
// creates the file once a topic has key-index on. An unusable file is deleted and rebuilt from the
// log; Lag shows that, no error. ctx supplies values to the reads of the log; after Open its
// cancellation is ignored. Error: missing options.
func Open(ctx context.Context, o Options) (*View, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open key index: path and log must be set")
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = cacheBytes
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	o.sizes = cmp.Or(o.sizes, &defaultSizes)
	v := &View{opt: o, opened: make(chan struct{}), moved: make(chan struct{}), positions: map[partKey]int64{}, reached: map[partKey]int64{}}
	v.idle = sync.NewCond(&v.mu)
	v.met = newMeters(v)
	v.follower = &follower{View: v, failed: map[partKey]*views.Retry{}}
	v.loop = views.NewLoop(views.Options{
		Worker: v.follower, Path: o.Path, Remove: localdb.Remove, Damaged: localdb.ErrDamaged,
		Changed: o.Log.Changed(), Now: time.Now, Backoff: o.sizes.retry, Logger: o.Logger,
		Message: "key index update failed", Closed: ErrClosed,
	})
	v.loop.Start(ctx)
	return v, nil
}

// Close stops following, waits for running queries, and closes the file. It may be called twice.
func (v *View) Close() error {
	v.loop.Close()
	return nil
}

// Entry is a record of a key: its location, without its value. The caller owns Key.
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

// Get returns the newest record of a key in a partition, or in any with partition -1; it may be a
// tombstone. ok is false if the index has none. The record may be missing if it was deleted
// meanwhile or the index lags (Lag). A caller that finds it missing treats the key as deleted and
// calls Forget. Errors: ErrNotIndexed, ErrInvalid, ErrClosed, ErrUnavailable, ctx's.
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

// ListQuery selects the keys of List.
type ListQuery struct {
	Prefix []byte // prefix of the keys
	After  []byte // only keys after this one; nil: from the first
	Limit  int    // maximum number of entries, 1 to LimitMax
}

// List returns the keys of a topic that have a value, each once with its newest record, in byte
// order. To continue, call it with After set to the last key. An empty result is the end; a
// non-empty one may be shorter than Limit if keys are long. A key that exists throughout appears
// exactly once, whatever is written meanwhile. Errors: those of Get.
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

// RecordID identifies a record of a topic.
type RecordID struct {
	Partition uint32
	Offset    int64
}

// HistoryQuery selects the records of History.
type HistoryQuery struct {
	Partition   int       // -1: any
	NewestFirst bool      // otherwise oldest first
	After       *RecordID // only records after this one in the requested order; nil: from the first
	Limit       int       // maximum number of entries, 1 to LimitMax
}

// History returns the records of a key, including tombstones. Those of one partition are ordered by
// offset. If the key is in several partitions they are ordered by timestamp, as far as the order
// within a partition allows. To continue, call it with After set to the last record; a result
// shorter than Limit is the end. Records that a finished compaction has removed are omitted. Before
// that, and while the index lags, a caller that finds a record missing calls Forget. Errors: those
// of Get.
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

// Forget marks entries whose records were found missing, at most LimitMax of them; unknown ones are
// ignored. Errors: those of Get.
func (v *View) Forget(ctx context.Context, topic record.ID, gone []Entry) error {
	if len(gone) == 0 {
		return nil
	}
	if err := checkLimit(len(gone)); err != nil {
		return err
	}
	var known []RunEntry
	err := v.query(ctx, topic, func(q *lookup) error {
		known = known[:0]
		for i := range gone {
			e := RunEntry{
				Key: append([]byte{}, gone[i].Key...), Topic: q.topic, Part: gone[i].Partition, Offset: gone[i].Offset,
				Time: gone[i].Timestamp, Flags: Gone,
			}
			if ok, err := q.exists(&e); err != nil {
				return err
			} else if ok {
				known = append(known, e)
			}
		}
		return nil
	})
	if err != nil || len(known) == 0 {
		return err
	}
	return v.loop.Do(ctx, func(ctx context.Context) error { return v.follower.forget(ctx, known) })
}

func checkLimit(n int) error {
	if n < 1 || n > LimitMax {
		return fmt.Errorf("%w: limit %d, want 1 to %d", ErrInvalid, n, LimitMax)
	}
	return nil
}

func (q *lookup) checkPartition(partition int) error {
	if partition < -1 || partition >= len(q.parts) {
		return fmt.Errorf("%w: partition %d of a topic with %d partitions", ErrInvalid, partition, len(q.parts))
	}
	return nil
}

// Log is the log that a View follows. Its methods may be called concurrently.
type Log interface {
	views.Log
	// Partitions lists the committed partitions of all topics with key-index on; known is false if
	// they are unknown at the moment.
	Partitions() (list []views.Partition, known bool)
	// Topic lists the partitions of one topic, by number; none if the topic does not exist or its
	// key-index is off.
	Topic(topic record.ID) []views.Partition
	// Records is the number of records in the partitions of all topics with key-index on.
	Records() int64
	// Queried records that a query is running: a read-only broker then keeps following the log for
	// a while.
	Queried()
}

// meters are the metrics of a view.
type meters struct {
	records  *metrics.Counter // entries read from the log
	rebuilds *metrics.Counter // rebuilt files and topics
	merged   *metrics.Counter // entries read by merges
	entries  atomic.Int64     // in the file
	runs     atomic.Int64
}

func newMeters(v *View) *meters {
	s := v.opt.Metrics
	m := &meters{
		records:  s.GetOrCreateCounter(`seb_view_records_total`),
		rebuilds: s.GetOrCreateCounter(`seb_view_rebuilds_total`),
		merged:   s.GetOrCreateCounter(`seb_view_merged_records_total`),
	}
	s.GetOrCreateGauge(`seb_view_lag_records`, func() float64 {
		parts, _ := v.opt.Log.Partitions()
		return float64(v.lag(parts))
	})
	s.GetOrCreateGauge(`seb_view_entries`, func() float64 { return float64(m.entries.Load()) })
	s.GetOrCreateGauge(`seb_view_runs`, func() float64 { return float64(m.runs.Load()) })
	return m
}
