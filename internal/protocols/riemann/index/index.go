package index

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// The errors that callers may test for with errors.Is.
var (
	ErrClosed = errors.New("the index of Riemann events is closed")
	// ErrUnavailable: the file cannot be opened or written, or is being rebuilt. The index retries.
	ErrUnavailable = errors.New("the index of Riemann events is unavailable")
)

// Log is the log of the index. Its methods may be called concurrently.
type Log interface {
	views.Log
	// Topic returns the ID of a topic; ok is false if it does not exist.
	Topic(name string) (id record.ID, ok bool)
	// Position returns the committed position of one moment, with the offsets of a topic. known is
	// false if the state is unknown.
	Position(topics ...record.ID) (p views.Position, known bool)
	// Append appends records to a partition and waits until they are committed. With expected >= 0
	// it is refused (state.ErrOffsetMismatch) unless that is the next offset. After an error other
	// than state.ErrOutcomeUnknown the records are in no slot and never will be. After that one
	// this broker leads no more.
	Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record, expected int64) error
	// Queried makes a broker that follows another one continue to follow.
	Queried()
	// LeadingEpoch returns the epoch in which this broker leads, and so knows everything committed before;
	// 0: it does not lead. A fenced broker may lead again, in a later epoch.
	LeadingEpoch() uint32
}

// Options configure an Index. Path, Log and Topic must be set; the zero value of another field
// means its default.
type Options struct {
	Path  string // of the file; the names of its companions start with it
	Log   Log
	Topic string
	// TTL is the time to live of events without one: 60 s.
	TTL time.Duration
	// EntriesMax and BytesMax bound the events in the index: 1,000,000, and 512 MiB. Events with
	// new hosts or services are refused beyond.
	EntriesMax, BytesMax int64
	// AnswerBytes bounds the events of one answer: 1 MiB. QueueBytes bounds the events that wait
	// for one subscriber: 256 KiB.
	AnswerBytes, QueueBytes int64
	// CacheBytes is SQLite's page cache: 8 MiB.
	CacheBytes int64
	// ReadBytes bounds the records of one transaction: 512 KiB. Of several events of a host and a
	// service in one transaction only the last is written.
	ReadBytes int
	// Now is the clock of the leader. Default: time.Now.
	Now func() time.Time

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a set that is not registered

	expireBatch int // events that one append expires
}

func (o Options) withDefaults() Options {
	o.TTL = cmp.Or(o.TTL, time.Minute)
	o.EntriesMax = cmp.Or(o.EntriesMax, 1_000_000)
	o.BytesMax = cmp.Or(o.BytesMax, 512<<20)
	o.AnswerBytes, o.QueueBytes = cmp.Or(o.AnswerBytes, 1<<20), cmp.Or(o.QueueBytes, 256<<10)
	o.CacheBytes = cmp.Or(o.CacheBytes, 8<<20)
	o.ReadBytes, o.expireBatch = cmp.Or(o.ReadBytes, 512<<10), cmp.Or(o.expireBatch, 500)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	return o
}

// retryBackoff is the backoff of the worker and of refused appends.
var retryBackoff = pause.Growth{Min: 100 * time.Millisecond, Max: time.Minute}

// Index follows the log. Its methods may be called concurrently.
type Index struct {
	opt    Options
	met    *meters
	loop   *views.Loop
	worker *worker

	slots    chan struct{} // one for each running query
	fileLock sync.RWMutex  // a query holds it shared
	file     *file         // nil while none is open

	busy atomic.Int64 // start of the current turn of the worker (ms); 0: none

	mu     sync.Mutex // guards the fields below
	pub    progress
	err    error         // why no file is open
	broken error         // damage that a query has found
	moved  chan struct{} // closed when pub or err changes
}

// progress is what the worker publishes. It is immutable.
type progress struct {
	topic  record.ID // zero: the topic does not exist
	next   []int64   // by partition
	behind int64     // append time (ms) up to which all records were read; 0: all were read, or unknown
}

// Open returns an index that follows the log until Close. It creates the file when the topic
// exists. ctx supplies values to requests of the log. Error: missing options.
func Open(ctx context.Context, o Options) (*Index, error) {
	if o.Path == "" || o.Log == nil || o.Topic == "" {
		return nil, errors.New("open index of Riemann events: path, log and topic must be set")
	}
	x := newIndex(o)
	x.loop.Start(ctx)
	return x, nil
}

func newIndex(o Options) *Index {
	x := &Index{opt: o.withDefaults(), err: ErrUnavailable, moved: make(chan struct{}), slots: make(chan struct{}, localdb.ReadersMax)}
	x.met = newMeters(x)
	x.worker = &worker{Index: x, subscribers: map[*Subscription]struct{}{}}
	x.loop = views.NewLoop(views.Options{
		Worker: x.worker, Path: x.opt.Path, Remove: localdb.Remove, Damaged: localdb.ErrDamaged,
		Changed: x.opt.Log.Changed(), Now: x.opt.Now, Backoff: retryBackoff, Logger: x.opt.Logger,
		Message: "index of Riemann events update failed", Closed: ErrClosed,
	})
	return x
}

// Close stops following, waits for queries, ends the subscriptions and closes the file. It may be
// called twice.
func (x *Index) Close() error {
	x.loop.Close()
	return nil
}

// Topic is the name of the topic.
func (x *Index) Topic() string { return x.opt.Topic }

// AnswerBytes bounds the events of an answer.
func (x *Index) AnswerBytes() int64 { return x.opt.AnswerBytes }

// publish publishes progress, or why there is none.
func (x *Index) publish(p progress, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pub, x.err, x.broken = p, err, nil
	close(x.moved)
	x.moved = make(chan struct{})
}

// peek returns the published progress, and a channel that closes when there is newer.
func (x *Index) peek() (p progress, newer <-chan struct{}, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pub, x.moved, x.err
}

// CatchUp waits until the index contains everything that is committed now.
func (x *Index) CatchUp(ctx context.Context) error {
	x.opt.Log.Queried()
	id, ok := x.opt.Log.Topic(x.opt.Topic)
	if !ok {
		return x.wait(ctx, func(*progress) bool { return true })
	}
	pos, known := x.opt.Log.Position(id)
	if !known {
		return ErrUnavailable
	}
	return x.wait(ctx, func(p *progress) bool {
		if p.topic != id || len(p.next) < len(pos.Topics[0]) {
			return false
		}
		for i, span := range pos.Topics[0] {
			if p.next[i] < span.Next {
				return false
			}
		}
		return true
	})
}

func (x *Index) wait(ctx context.Context, ok func(p *progress) bool) error {
	for {
		p, newer, err := x.peek()
		if errors.Is(err, ErrClosed) || err == nil && ok(&p) {
			return err
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.loop.Done():
			return ErrClosed
		}
	}
}

// meters are the metrics of an index.
type meters struct {
	records, skipped, refused, expired, rebuilds, dropped *metrics.Counter
	entries, bytes, subscribers                           atomic.Int64
}

func newMeters(x *Index) *meters {
	s := x.opt.Metrics
	m := &meters{
		records:  s.GetOrCreateCounter(`seb_riemann_index_records_total`),
		skipped:  s.GetOrCreateCounter(`seb_riemann_index_skipped_total`),
		refused:  s.GetOrCreateCounter(`seb_riemann_index_refused_total`),
		expired:  s.GetOrCreateCounter(`seb_riemann_index_expired_total`),
		rebuilds: s.GetOrCreateCounter(`seb_riemann_index_rebuilds_total`),
		dropped:  s.GetOrCreateCounter(`seb_riemann_subscribers_dropped_total`),
	}
	s.GetOrCreateGauge(`seb_riemann_index_entries`, func() float64 { return float64(m.entries.Load()) })
	s.GetOrCreateGauge(`seb_riemann_index_bytes`, func() float64 { return float64(m.bytes.Load()) })
	s.GetOrCreateGauge(`seb_riemann_subscribers`, func() float64 { return float64(m.subscribers.Load()) })
	return m
}

// Status is the size of an index, and its lag behind the log.
type Status struct {
	Entries, Bytes, Subscribers int64
	// LagRecords is the number of records of the topic that the index has not read. LagTime is an upper
	// bound on the age of the oldest of them.
	LagRecords int64
	LagTime    time.Duration
	// Err: queries fail with ErrUnavailable, for this reason.
	Err error
}

// Status returns the state of the index. It does no I/O.
func (x *Index) Status() Status {
	p, _, err := x.peek()
	s := Status{Entries: x.met.entries.Load(), Bytes: x.met.bytes.Load(), Subscribers: x.met.subscribers.Load()}
	if errors.Is(err, ErrUnavailable) {
		s.Err = err
	}
	id, _ := x.opt.Log.Topic(x.opt.Topic)
	pos, _ := x.opt.Log.Position(id)
	if len(pos.Topics) == 0 {
		return s
	}
	for i, span := range pos.Topics[0] {
		next := span.Start
		if p.topic == id && i < len(p.next) {
			next = max(next, p.next[i])
		}
		s.LagRecords += max(0, span.Next-next)
	}
	if since := cmp.Or(p.behind, x.busy.Load()); s.LagRecords > 0 && since > 0 {
		s.LagTime = max(0, x.opt.Now().Sub(time.UnixMilli(since)))
	}
	return s
}
