package triggers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/triggers/store"
)

// The errors that callers may test for with errors.Is.
var (
	ErrClosed = errors.New("the engine of triggers is closed")
	// ErrUnavailable: the file can not be opened or written (disk full, no permission), or is being made. It is tried again.
	ErrUnavailable = errors.New("the engine of triggers is unavailable")
	// ErrNotLeader: only the leader takes changes.
	ErrNotLeader = errors.New("this broker does not lead")
	// ErrUnknownTrigger: there is no trigger of that id.
	ErrUnknownTrigger = errors.New("unknown trigger")
	// ErrUnknownFiring: there is no firing of that id, or it was never recorded.
	ErrUnknownFiring = errors.New("unknown firing")
	// ErrInvalid: something that was given is wrong; the text names it.
	ErrInvalid = errors.New("invalid")
)

// Options are what an Engine is opened with. Path and Log must be set; the zero value of every other field means its default.
type Options struct {
	// Path is the engine's file; others beside it begin with the same name. They may be deleted while no engine is open.
	Path string
	Log  Log
	// Triggers and Firings are the names of the topics of definitions and firings: triggers, firings. EventPartitions is how
	// many partitions a topic of events has that the engine makes: 1.
	Triggers, Firings string
	EventPartitions   int
	// CacheBytes is what SQLite keeps of the file in memory, 32 MiB; RowBytes is about what the engine keeps of entities' rows
	// beside: 32 MiB.
	CacheBytes, RowBytes int64
	// Now is the clock that says when to look: time.Now.
	Now func() time.Time

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere

	sizes *sizes // the usual ones
}

// sizes are how much is done at a time.
type sizes struct {
	readBytes int // of a partition at a time
	outbox    int // firings that are recorded by one append
	dues      int // deadlines of a trigger at a time
	sweep     int // rows that are deleted at a time
	tickEvery time.Duration
	retryMin  time.Duration
	retryMax  time.Duration
	unsafe    bool // the file need not survive the machine
}

var usualSizes = sizes{
	readBytes: 512 << 10, outbox: 500, dues: 2000, sweep: 5000, tickEvery: 50 * time.Millisecond,
	retryMin: 100 * time.Millisecond, retryMax: time.Minute,
}

func (o Options) withDefaults() Options {
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
	if o.Now == nil {
		o.Now = time.Now
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
	return o
}

// Engine follows the log's events and finds out what fires. Its methods may be called concurrently.
type Engine struct {
	opt  Options
	met  *meters
	stop context.CancelFunc
	done chan struct{} // closed when the worker has returned
	wake chan struct{} // capacity 1: have a look

	change sync.Mutex // held by whoever changes a definition

	// file is what callers read; nil while none is open. Whoever reads holds reading shared.
	reading sync.RWMutex
	file    *store.File
	broken  error // what a reader has found; guarded by mu

	mu  sync.Mutex // guards what follows
	pub published
	err error         // why there is no file
	new bool          // there is none because no trigger was ever made
	ch  chan struct{} // closed when pub changes
}

// Open returns an engine that follows o.Log from where its file says, until Close. A file that can not be used is deleted
// and made anew from the log. ctx gives values to the requests of the log; its end after Open does not matter. Error:
// options that are missing.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e, err := newEngine(o)
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go newWorker(e).run(run)
	return e, nil
}

func newEngine(o Options) (*Engine, error) {
	if o.Path == "" || o.Log == nil {
		return nil, errors.New("open triggers: path and log must be set")
	}
	e := &Engine{opt: o.withDefaults(), done: make(chan struct{}), wake: make(chan struct{}, 1), ch: make(chan struct{})}
	e.met = newMeters(e)
	_, there := e.opt.Log.Topic(e.opt.Triggers)
	e.new = !there // known before the worker has had a look
	return e, nil
}

// Close stops following, waits for running queries, and closes the file. It may be called twice.
func (e *Engine) Close() error {
	e.stop()
	<-e.done
	return nil
}
