package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/store"
)

// The errors that callers may test for with errors.Is.
var (
	ErrClosed = errors.New("the engine of triggers is closed")
	// ErrUnavailable: the file can not be opened or written (disk full, no permission), or is being made. It is tried again.
	ErrUnavailable = errors.New("the engine of triggers is unavailable")
	// ErrInvalid: something that was given is wrong; the text names it.
	ErrInvalid = errors.New("invalid")
)

// Options are what a Follower is opened with. Path and Log must be set; the zero value of every other field means its default.
type Options struct {
	// Path is the engine's file; others beside it begin with the same name. They may be deleted while no engine is open.
	Path string
	Log  Log
	// Snapshots keep copies of the file; nil: nobody does, and a file that is lost is made anew from the log.
	Snapshots Snapshots
	// Triggers and Firings are the names of the topics of definitions and firings: triggers, firings. EventPartitions is how
	// many partitions a topic of events has that the engine makes: 1.
	Triggers, Firings string
	EventPartitions   int
	// CacheBytes is what SQLite keeps of the file in memory, 32 MiB; RowBytes is about what the engine keeps of entities' rows
	// beside: 32 MiB.
	CacheBytes, RowBytes int64
	// MemoryBytes is about what triggers take beside: 64 MiB. A quarter is for compiled rules, the rest bounds how many triggers
	// can be made. Those that are there are followed, however many.
	MemoryBytes int64
	// Counts says of what a definition says of delivering how long a delivery decides about others to the same entity; nil:
	// it does not. A firing is kept at least so long after its last record.
	Counts func(deliver json.RawMessage) time.Duration
	// Now is the clock that says when to look: time.Now.
	Now func() time.Time

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere

	Sizes *Sizes // how much is done at a time; DefaultSizes
}

// Sizes are how much is done at a time. Tests make them small; all must be set.
type Sizes struct {
	ReadBytes int           // of a partition at a time
	Pieces    int           // of the topic of firings in a turn
	Outbox    int           // firings that are recorded by one append
	Dues      int           // deadlines of a trigger at a time
	Work      int           // how much evaluating may cost at a time, in units of work.go; 0: what a broker uses
	Sweep     int           // rows that are deleted at a time
	Prune     int           // firings that are looked at at a time whether they may go
	TickEvery time.Duration // the shortest time between two records that only make the log's time advance
	Retry     follow.Backoff
	Unsafe    bool // the file need not survive the machine
	// A copy of the file is saved SaveEvery after the one before at the earliest, of a large one later, if the file was made from
	// SaveRecords since, or if the log was trimmed. Without Options.Snapshots they need not be set.
	SaveEvery   time.Duration
	SaveRecords int64
}

// DefaultSizes are those that a broker uses.
func DefaultSizes() Sizes {
	return Sizes{
		ReadBytes: 512 << 10, Pieces: 16, Outbox: 500, Dues: 2000, Work: workUsual, Sweep: 5000, Prune: 500, TickEvery: 50 * time.Millisecond,
		Retry: follow.Backoff{Min: 100 * time.Millisecond, Max: time.Minute}, SaveEvery: time.Hour, SaveRecords: 100_000,
	}
}

// WithDefaults fills in what was left out.
func (o Options) WithDefaults() Options {
	if o.Triggers == "" {
		o.Triggers = "triggers"
	}
	if o.Firings == "" {
		o.Firings = "firings"
	}
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
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.Sizes == nil {
		usual := DefaultSizes()
		o.Sizes = &usual
	}
	if o.Sizes.Work == 0 {
		sizes := *o.Sizes
		sizes.Work, o.Sizes = workUsual, &sizes
	}
	return o
}

// rulesShare is the part of Options.MemoryBytes that is for compiled rules.
const rulesShare = 4

// HeadBytes is the part of MemoryBytes that bounds how many triggers can be made: see Memory.
func (o *Options) HeadBytes() int64 { return o.MemoryBytes - o.MemoryBytes/rulesShare }

// MemoryFor is the MemoryBytes of which HeadBytes are so many.
func MemoryFor(headBytes int64) int64 {
	return (headBytes*rulesShare + rulesShare - 2) / (rulesShare - 1)
}

// Follower keeps a file in step with the log, and lets others read it. Its methods may be called concurrently.
type Follower struct {
	opt  Options
	met  *meters
	loop *follow.Loop
	park func(ctx context.Context) // nil: Wait waits by itself

	// file is what callers read; nil while none is open. Whoever reads holds reading shared.
	reading sync.RWMutex
	file    *store.File
	broken  error // what a reader has found; guarded by mu

	busy                atomic.Int64 // since when (ms) a turn is under way; 0: none is
	savedAt, savedBytes atomic.Int64 // the newest snapshot: the log's time, µs, and how large its file is; 0: none is known

	mu  sync.Mutex // guards what follows
	pub Progress
	err error         // why there is no file
	new bool          // there is none because no trigger was ever made
	ch  chan struct{} // closed when pub changes
}

// newFollower makes one whose loop is not started. inline has copies of the file saved within its turns.
func newFollower(o Options, inline bool) (*Follower, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open triggers: path and log must be set")
	}
	e := &Follower{opt: o, ch: make(chan struct{})}
	e.met = newMeters(e)
	_, there := e.opt.Log.Topic(e.opt.Triggers)
	if e.new = !there; there { // known before the worker has had a look
		e.err = ErrUnavailable
	}
	e.loop = follow.NewLoop(follow.Options{
		Worker: &worker{Follower: e, inline: inline}, Path: o.Path, Changed: o.Log.Changed(), Now: o.Now, Backoff: o.Sizes.Retry,
		Logger: o.Logger, Message: "triggers can not be followed", Closed: ErrClosed,
	})
	return e, nil
}
