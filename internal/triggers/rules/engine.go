package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// The errors that callers may test for with errors.Is.
var (
	// ErrNotLeader: only the leader makes changes.
	ErrNotLeader = errors.New("this broker is not the leader")
	// ErrUnknownTrigger: no trigger has that ID.
	ErrUnknownTrigger = errors.New("unknown trigger")
	// ErrUnknownFiring: no recorded firing has that ID.
	ErrUnknownFiring = errors.New("unknown firing")
)

// Engine follows the events of the log and computes firings. Its methods may be called
// concurrently.
type Engine struct {
	opt      Options
	follower *Follower
	encrypts sync.WaitGroup // encryptAll
	stop     context.CancelFunc

	change sync.Mutex // held during the change of a definition
}

// Open returns an engine that follows o.Log from the position of its file, until Close. It deletes
// an unusable file and rebuilds it from the log. ctx provides values to requests of the log; its
// end after Open has no effect. Error: a missing option.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o = o.WithDefaults()
	f, err := newFollower(o, false)
	if err != nil {
		return nil, err
	}
	f.loop.Start(ctx)
	e := &Engine{opt: o, follower: f}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	if o.Keys != nil {
		e.encrypts.Go(func() { e.encryptAll(ctx) })
	}
	return e, nil
}

// Close stops following, waits for running queries, and closes the file. A second call has no
// effect.
func (e *Engine) Close() error {
	if e.stop != nil {
		e.stop()
	}
	e.encrypts.Wait()
	e.follower.loop.Close()
	return nil
}

// Lag returns the number of records of its topics that the engine has not read yet.
func (e *Engine) Lag() int64 { return e.follower.Lag() }

// LagTime returns how far the engine is behind the log, without the triggers that read the history;
// 0: not behind.
func (e *Engine) LagTime() time.Duration { return e.follower.LagTime() }

// Changed returns a channel that closes when the engine has published progress: there may be
// firings to deliver.
func (e *Engine) Changed() <-chan struct{} {
	_, ch, _ := e.follower.Peek()
	return ch
}

// Started waits until the engine has opened its file after the start, or has found out that it cannot.
func (e *Engine) Started(ctx context.Context) {
	for {
		_, newer, err := e.follower.Peek()
		if err != ErrUnavailable { // a failed open adds its error
			return
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return
		}
	}
}

// Triggers returns all triggers by ID. The caller must not change them.
func (e *Engine) Triggers() ([]*Head, error) {
	p, _, err := e.follower.Peek()
	return p.Triggers, err
}

// Next returns the first trigger with an ID after the given one, or nil.
func (e *Engine) Next(after string) (*Head, error) {
	p, _, err := e.follower.Peek()
	i, there := slices.BinarySearchFunc(p.Triggers, after, func(h *Head, id string) int { return cmp.Compare(h.ID, id) })
	if there {
		i++
	}
	if err != nil || i == len(p.Triggers) {
		return nil, err
	}
	return p.Triggers[i], nil
}

// Head returns a trigger by its ID, or ErrUnknownTrigger.
func (e *Engine) Head(id string) (*Head, error) {
	p, _, err := e.follower.Peek()
	if err != nil {
		return nil, err
	}
	h := p.Find(id)
	if h == nil {
		return nil, unknown(id)
	}
	return h, nil
}

func unknown(id string) error { return fmt.Errorf("%w: %q", ErrUnknownTrigger, id) }

// Users returns the IDs of the triggers that need a topic: those that read its events; for the
// topics of definitions and firings, all. It waits until the engine has read all definitions of the
// log. Errors: ErrUnavailable, ErrClosed, ctx's.
func (e *Engine) Users(ctx context.Context, topic string) (ids []string, err error) {
	if err := e.caughtUp(ctx); err != nil {
		return nil, err
	}
	list, err := e.Triggers()
	for _, t := range list {
		if t.Topic == topic || topic == e.opt.Triggers || topic == e.opt.Firings {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// Stored returns a trigger and its stored definition by its ID, or ErrUnknownTrigger. It does not
// compile the expression.
func (e *Engine) Stored(ctx context.Context, id string) (*Head, *rule.Stored, error) {
	h, value, err := e.follower.Definition(ctx, id)
	if h == nil && err == nil {
		err = unknown(id)
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := rule.ParseStored(value)
	return h, d, err
}

// Trigger reads a trigger from the file by its ID; or ErrUnknownTrigger.
func (e *Engine) Trigger(ctx context.Context, id string) (*Trigger, error) {
	t, err := e.follower.Trigger(ctx, id)
	if t == nil && err == nil {
		err = unknown(id)
	}
	return t, err
}

// Stepped is an Engine without goroutines and timers, for callers that decide the order of events,
// such as a simulator. It runs only within Step. Its methods must not be called concurrently.
type Stepped struct{ *Engine }

// OpenStepped is Open for a Stepped. A call that waits for the engine, such as Put, calls park with
// its context until the condition holds or the context ends. park may return at any time. Error: a
// missing option.
func OpenStepped(o Options, park func(ctx context.Context)) (*Stepped, error) {
	o = o.WithDefaults()
	f, err := newFollower(o, true)
	if err != nil {
		return nil, err
	}
	f.park = park
	return &Stepped{&Engine{opt: o, follower: f}}, nil
}

// Step does some of the pending work, and returns the time until there is more if the caller does
// nothing. It returns soon after the end of ctx.
func (s *Stepped) Step(ctx context.Context) time.Duration { return s.follower.loop.Step(ctx) }

// meters are the metrics of the package.
type meters struct {
	events, skipped, duplicates, unstamped *metrics.Counter
	steps, deadlines                       *metrics.Counter
	fired, retracted, recorded, ticks      *metrics.Counter
	saves, saveFailures, restores          *metrics.Counter
	rebuilds, failures                     *metrics.Counter
	degraded, pruned                       *metrics.Counter
}

func newMeters(e *Follower) *meters {
	s := e.opt.Metrics
	counter := func(name string) *metrics.Counter { return s.NewCounter("seb_triggers_" + name) }
	s.NewGauge("seb_triggers_lag_records", func() float64 { return float64(e.Lag()) })
	s.NewGauge("seb_triggers_lag_seconds", func() float64 { return e.LagTime().Seconds() })
	count := func(which func(h *Head) bool) func() float64 {
		return func() (n float64) {
			p, _, _ := e.Peek()
			for _, h := range p.Triggers {
				if which(h) {
					n++
				}
			}
			return n
		}
	}
	s.NewGauge("seb_triggers_backfilling", count(func(h *Head) bool { return h.Backfilling }))
	s.NewGauge("seb_triggers_late", count(func(h *Head) bool { return h.Late }))
	s.NewGauge("seb_triggers_blocked", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Secrets.Locked)
	})
	s.NewGauge("seb_triggers_readable_secrets", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Secrets.Readable)
	})
	s.NewGauge("seb_triggers_unreadable_partitions", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Unreadable)
	})
	s.NewGauge("seb_triggers_snapshot_timestamp_seconds", func() float64 { return float64(e.savedAt.Load()) / 1e6 })
	s.NewGauge("seb_triggers_snapshot_bytes", func() float64 { return float64(e.savedBytes.Load()) })
	return &meters{
		events: counter("events_total"), skipped: counter(`events_skipped_total{why="malformed"}`),
		unstamped: counter(`events_skipped_total{why="no_append_time"}`), duplicates: counter(`events_skipped_total{why="duplicate"}`),
		steps: counter("steps_total"), deadlines: counter("deadlines_total"), fired: counter("firings_total"),
		retracted: counter("retractions_total"), recorded: counter("firings_recorded_total"), ticks: counter("ticks_total"),
		saves: counter("snapshots_total"), saveFailures: counter("snapshot_failures_total"), restores: counter("restores_total"),
		rebuilds: counter("rebuilds_total"), failures: counter("failures_total"), degraded: counter("degraded_rows_total"),
		pruned: counter("firings_pruned_total"),
	}
}
