package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// The errors that callers may test for with errors.Is.
var (
	ErrClosed = errors.New("the trigger engine is closed")
	// ErrUnavailable: the file cannot be opened or written (disk full, no permission), or is being
	// rebuilt. The engine retries.
	ErrUnavailable = errors.New("the trigger engine is unavailable")
	// ErrInvalid: an argument is invalid; the text names it.
	ErrInvalid = errors.New("invalid")
)

// Options are the options of an engine. Path and Log must be set; the zero value of every other
// field means its default.
type Options struct {
	// Path is the engine's file; the names of its other files start with it. The files may be
	// deleted while no engine is open.
	Path string
	Log  Log
	// Snapshots stores copies of the file; nil: no copies, and a lost file is rebuilt from the log.
	Snapshots Snapshots
	// Triggers and Firings are the names of the topics of definitions and firings. Defaults:
	// triggers, firings. EventPartitions is the number of partitions of a topic of events that the
	// engine creates. Default: 1.
	Triggers, Firings string
	EventPartitions   int
	// CacheBytes bounds SQLite's page cache, RowBytes the engine's cache of rows, approximately.
	// Default: 32 MiB each.
	CacheBytes, RowBytes int64
	// MemoryBytes bounds the memory of triggers approximately. Default: 64 MiB. A quarter is for
	// compiled rules; the rest bounds the triggers that can be created. Existing triggers are
	// followed even if they exceed it.
	MemoryBytes int64
	// CapSpan returns the time for which a delivery under a definition's deliver counts towards the
	// caps of an entity. A firing is kept at least that long after its last record. nil: 0.
	CapSpan func(deliver json.RawMessage) time.Duration
	// Keys encrypt the secrets in deliver sections; nil: no key, and they are stored as given. The
	// leader encrypts readable ones, unless Sealable returns an error: the format level of the
	// bucket is too low. nil: it allows it.
	Keys     *secrets.Ring
	Sealable func() error
	// Entities finds the events of an entity, for Engine.History; nil: it has none.
	Entities Entities
	// Now is the clock of polling and backoff. Default: time.Now.
	Now func() time.Time

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // default: a set that is not registered

	Sizes *Sizes // amounts of work; DefaultSizes
}

// Sizes are the amounts of work that are done at a time. Tests make them small; all must be set.
type Sizes struct {
	ReadBytes int           // one read of a partition
	Pieces    int           // of the topic of firings per turn
	Outbox    int           // firings in one append
	Dues      int           // deadlines of one transaction
	Work      int           // evaluation per step of a turn, in units of recordWork; 0: the default
	Costly    int           // of an event, from which a trigger's deadlines pass separately; 0: the default
	Shared    int           // bytes of state in a row that triggers share; 0: the default
	Sweep     int           // rows deleted per turn
	Prune     int           // firings examined per pruning pass
	TickEvery time.Duration // minimum time between two ticks
	Retry     pause.Growth
	Unsafe    bool // the file need not survive a crash of the machine
	// A copy of the file is saved at least SaveEvery after the previous one, for a large file
	// later. It is due after SaveRecords new records, or if the log was trimmed. Without
	// Options.Snapshots both may be 0.
	SaveEvery   time.Duration
	SaveRecords int64
}

// DefaultSizes returns the sizes of a broker.
func DefaultSizes() Sizes {
	return Sizes{
		ReadBytes: 512 << 10, Pieces: 16, Outbox: 1000, Dues: 2000, Work: workDefault, Costly: costlyDefault, Shared: sharedDefault, Sweep: 5000, Prune: 500, TickEvery: 50 * time.Millisecond,
		Retry: pause.Growth{Min: 100 * time.Millisecond, Max: time.Minute}, SaveEvery: time.Hour, SaveRecords: 100_000,
	}
}

// WithDefaults sets the fields that are zero to their defaults.
func (o Options) WithDefaults() Options {
	o.Triggers = cmp.Or(o.Triggers, "triggers")
	o.Firings = cmp.Or(o.Firings, "firings")
	if o.EventPartitions < 1 {
		o.EventPartitions = 1
	}
	if o.RowBytes <= 0 {
		o.RowBytes = 32 << 20
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 64 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.Sizes == nil {
		sizes := DefaultSizes()
		o.Sizes = &sizes
	}
	sizes := *o.Sizes
	sizes.Work, sizes.Costly = cmp.Or(sizes.Work, workDefault), cmp.Or(sizes.Costly, costlyDefault)
	sizes.Shared, o.Sizes = cmp.Or(sizes.Shared, sharedDefault), &sizes
	return o
}

// rulesShare is the inverse of the share of Options.MemoryBytes for compiled rules.
const rulesShare = 4

// HeadBytes is the part of MemoryBytes that bounds the triggers that can be created (Memory).
func (o *Options) HeadBytes() int64 { return o.MemoryBytes - o.MemoryBytes/rulesShare }

// MemoryFor returns the MemoryBytes whose HeadBytes are headBytes.
func MemoryFor(headBytes int64) int64 {
	return (headBytes*rulesShare + rulesShare - 2) / (rulesShare - 1)
}

// Follower keeps the file up to date with the log, and serves queries from it. Its methods may be
// called concurrently.
type Follower struct {
	opt  Options
	met  *meters
	loop *views.Loop
	park func(ctx context.Context) // nil: Wait uses channels

	// file serves queries; nil while none is open. A query holds fileLock shared.
	fileLock sync.RWMutex
	file     *store.File
	broken   error // an error that a query found in the file; guarded by mu

	purged              atomic.Int64 // see Engine.Purged
	busy                atomic.Int64 // start of the current turn (ms); 0: no turn runs
	savedAt, savedBytes atomic.Int64 // newest snapshot: log time (µs), file size; 0: unknown

	mu  sync.Mutex // guards the fields below
	pub Progress
	err error         // reason why no file is open
	new bool          // no file, because no trigger was ever created
	ch  chan struct{} // closes when pub changes
}

// newFollower returns a Follower whose loop is not started. inline saves copies of the file within
// its turns.
func newFollower(o Options, inline bool) (*Follower, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open triggers: path and log must be set")
	}
	e := &Follower{opt: o, ch: make(chan struct{})}
	e.met = newMeters(e)
	_, there := e.opt.Log.Topic(e.opt.Triggers)
	if e.new = !there; there { // known before the worker's first turn
		e.err = ErrUnavailable
	}
	e.loop = views.NewLoop(views.Options{
		Worker: &worker{Follower: e, inline: inline}, Path: o.Path, Remove: localdb.Remove, Damaged: localdb.ErrDamaged,
		Changed: o.Log.Changed(), Now: o.Now, Backoff: o.Sizes.Retry,
		Logger: o.Logger, Message: "trigger engine stopped following the log", Closed: ErrClosed,
	})
	return e, nil
}

// errLog: the log cannot be read. The state in memory still agrees with the file.
var errLog = errors.New("read log")

// piece is the result of reading a partition.
type piece struct {
	views.Batches
	key    store.CursorKey
	cursor store.Cursor // after the piece
	to     int64        // the piece ends before this offset
}

// next reads a piece after a cursor, up to the end of a span; nil if there are no records. The
// caller releases it.
func (w *worker) next(ctx context.Context, key store.CursorKey, span views.Span) (p *piece, err error) {
	from := max(w.cursors[key].Next, span.Start)
	if from >= span.Next {
		return nil, nil
	}
	return w.readAt(ctx, key, views.Span{Start: from, Next: span.Next})
}

// readAt reads a piece at the start of a span. The caller releases it.
func (w *worker) readAt(ctx context.Context, key store.CursorKey, span views.Span) (p *piece, err error) {
	from := span.Start
	b, err := w.opt.Log.Read(ctx, key.Topic, key.Partition, from, w.readBytes(key))
	if err != nil {
		return nil, &unreadable{key: key, offset: from, err: err}
	}
	p = &piece{Batches: b, key: key, cursor: w.cursors[key], to: span.Next}
	p.cursor.Next = min(max(from, b.From), p.to)
	s, whole := w.blocked[key], true
	for one, err := range b.All() {
		if err != nil && p.cursor.Next == from { // else the batches before it come first
			p.Release()
			return nil, &unreadable{key: key, offset: from, batch: true, err: err}
		}
		if err != nil || s != nil && s.readTo > 0 && one.BaseOffset() >= s.readTo && p.cursor.Next > from {
			p.to, whole = p.cursor.Next, false
			break
		}
		p.cursor.Next = min(max(p.cursor.Next, one.BaseOffset()+one.Span()), p.to)
	}
	if whole { // what is left out behind the last batch
		p.cursor.Next = min(max(p.cursor.Next, b.End), p.to)
	}
	if p.cursor.Next == from { // no batch after all
		p.Release()
		return nil, nil
	}
	p.cursor.Origin = w.opt.Log.Origin(key.Topic, key.Partition, p.cursor.Next-1)
	return p, nil
}

// each calls f for the unread records of a piece. stamped reports whether the timestamp is the
// append time. r is valid during the call.
func (w *worker) each(p *piece, f func(r *record.Record, stamped bool) error) error {
	return w.eachFrom(p, w.cursors[p.key].Next, f)
}

// eachFrom calls f for the records of a piece from an offset on.
func (w *worker) eachFrom(p *piece, from int64, f func(r *record.Record, stamped bool) error) error {
	for one, err := range p.All() {
		if err != nil {
			return err
		}
		stamped := one.Attributes()&record.AttrLogAppendTime != 0
		for w.reader.Reset(one, from); w.reader.Next() && w.reader.Offset() < p.to; {
			if err := f(w.reader.Record(), stamped); err != nil {
				return err
			}
		}
		if err := w.reader.Err(); err != nil {
			return &unreadable{key: p.key, offset: max(one.BaseOffset(), from), batch: true, err: err}
		}
		if one.BaseOffset()+one.Span() >= p.to {
			break
		}
	}
	return nil
}

// apply runs a transaction over the records of a piece, and advances the cursor past it.
func (w *worker) apply(ctx context.Context, p *piece, change func(tx *store.Tx) error) error {
	err := w.f.Update(ctx, func(tx *store.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return tx.PutCursor(p.key, p.cursor)
	})
	if err == nil {
		w.cursors[p.key] = p.cursor
	}
	return err
}

// Log is the log of the engine. Its methods may be called concurrently.
type Log interface {
	views.Log
	// Topic returns a topic by name; ok is false if it does not exist.
	Topic(name string) (t Topic, ok bool)
	// Create creates a topic. It returns nil if one with that name exists.
	Create(ctx context.Context, name string, partitions int, settings map[string]string) error
	// Stamp sets a topic to append time for new records.
	Stamp(ctx context.Context, name string) error
	// Position returns a committed position of one moment: the append time of the newest committed
	// slot, and the offsets at that time. Everything that is committed later has a later append
	// time, and what an open transaction hides one that is not before views.Span.Open. known is false
	// if the state is unknown.
	Position(topics ...record.ID) (p views.Position, known bool)
	// Append appends records to a partition atomically, and waits until they are committed. It
	// returns the offset of the first. After an error they may appear once, later, or never; on a
	// broker that is not the leader, never.
	Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record) (base int64, err error)
	// LeadingEpoch returns the epoch in which this broker leads, and so knows everything committed before;
	// 0: it does not lead. A fenced broker may lead again, in a later epoch.
	LeadingEpoch() uint32
	// Leads reports whether this broker leads, as LeadingEpoch does.
	Leads() bool
}

// Topic is a topic of the log.
type Topic struct {
	ID         record.ID
	Partitions int
	// AppendTime: the timestamps of its records are append times.
	AppendTime bool
}

// AppendTimes are the settings of topics whose timestamps the engine uses.
var AppendTimes = map[string]string{"timestamp-type": "append"}

// EventSettings are the settings of a topic that is created for events: append times, and a key
// index, which finds the events of an entity. No function changes the map.
var EventSettings = map[string]string{"timestamp-type": "append", "key-index": "true"}

// Ensure returns a topic, and creates it if it does not exist. ErrInvalid: it exists with other
// settings.
func Ensure(ctx context.Context, log Log, name string, partitions int, settings map[string]string) (Topic, error) {
	t, ok := log.Topic(name)
	if !ok {
		if err := log.Create(ctx, name, partitions, settings); err != nil {
			return t, fmt.Errorf("create topic %s: %w", name, err)
		}
		if t, ok = log.Topic(name); !ok {
			return t, fmt.Errorf("topic %q does not exist after its creation", name)
		}
	}
	if err := timed(&t, name); err != nil && settings["timestamp-type"] != "" {
		return t, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t, nil
}

// timed returns an error for a topic without append times.
func timed(t *Topic, name string) error {
	if t.AppendTime {
		return nil
	}
	return fmt.Errorf("topic %q must have timestamp-type=append: triggers use the append times of events", name)
}
