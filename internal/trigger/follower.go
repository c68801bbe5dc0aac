package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/secrets"
	"github.com/sebbroker/seb/internal/trigger/store"
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
	Work      int           // evaluation per step of a turn, in units of work.go; 0: the default
	Sweep     int           // rows deleted per turn
	Prune     int           // firings examined per pruning pass
	TickEvery time.Duration // minimum time between two ticks
	Retry     follow.Backoff
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
		ReadBytes: 512 << 10, Pieces: 16, Outbox: 500, Dues: 2000, Work: workDefault, Sweep: 5000, Prune: 500, TickEvery: 50 * time.Millisecond,
		Retry: follow.Backoff{Min: 100 * time.Millisecond, Max: time.Minute}, SaveEvery: time.Hour, SaveRecords: 100_000,
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
	if o.Sizes.Work == 0 {
		sizes := *o.Sizes
		sizes.Work, o.Sizes = workDefault, &sizes
	}
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
	loop *follow.Loop
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
	e.loop = follow.NewLoop(follow.Options{
		Worker: &worker{Follower: e, inline: inline}, Path: o.Path, Changed: o.Log.Changed(), Now: o.Now, Backoff: o.Sizes.Retry,
		Logger: o.Logger, Message: "trigger engine stopped following the log", Closed: ErrClosed,
	})
	return e, nil
}
