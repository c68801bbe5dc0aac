package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Log is one shard's log on a store. Its methods may be called concurrently.
type Log struct {
	opt    Options
	start  time.Time
	in     inbox
	met    *meters
	queued atomic.Int64 // bytes of appends that wait to be frozen

	// guards the core's committed state: the owner steps under Lock, others read under RLock
	mu   sync.RWMutex
	core *core.Core

	health    health
	feeds     feeds
	verdict   atomic.Int64 // when the store last answered
	feeding   atomic.Bool  // Hooks.Fed wants the committed slots
	sweeping  sync.Mutex   // held by collect and scrub; guards the next three
	proven    core.Proven
	collected state.Position // of the last pass
	branch    string         // the object that an alarm was raised for
	status    atomic.Pointer[Status]
	access    atomic.Pointer[access.Table] // the committed principals and rules
	decided   chan struct{}                // closed when the role is no longer RoleStarting
	done      chan struct{}                // closed when the log has ended
	ended     chan struct{}                // closed when the owner and all its goroutines have returned
	closing   chan struct{}                // closed by the first Close
	clock     clock
	closed    sync.Once
	kill      context.CancelFunc // cancels running requests
}

// Status is the current role of a log.
type Status struct {
	Role core.Role
	// that it leads or follows; once fenced, the one it led, to which its state belongs
	Epoch uint32
	// Journaled: the commit objects of the epoch that it leads are in a journal of the store.
	Journaled bool
	Err       error // with RoleStopped: the cause
	// with RoleFenced and RoleStopped: the error of all further requests (core.Core.Err)
	Ended error
}

// Open starts a log and waits until it leads or, with Core.ReadOnly, follows. If ctx ends first,
// Open closes the log. ctx supplies values to the store's requests; after Open its cancellation is
// ignored.
func Open(ctx context.Context, o Options) (*Log, error) {
	if o.Store == nil {
		return nil, errors.New("open log: no store")
	}
	o = o.withDefaults()
	_, o.Core.Journals = objstore.As[objstore.Journaler](o.Store)
	l := &Log{
		opt: o, start: time.Now(), core: core.New(o.Core),
		in:      inbox{wake: wake.New()},
		decided: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}), closing: make(chan struct{}),
	}
	l.restartClock()
	l.status.Store(&Status{})
	l.access.Store(&access.Table{})
	l.met = newMeters(l)
	run, kill := context.WithCancel(context.WithoutCancel(ctx))
	l.kill = kill
	go newOwner(l).run(run)
	select {
	case <-l.decided:
	case <-ctx.Done():
		l.Kill()
		return nil, fmt.Errorf("open log on %s: %w", o.Store, l.openError(context.Cause(ctx)))
	}
	if s := l.Status(); s.Role == core.RoleStopped {
		l.Kill()
		return nil, fmt.Errorf("open log on %s: %w", o.Store, s.Err)
	}
	return l, nil
}

// openError adds the store's last error to the cause of giving up.
func (l *Log) openError(cause error) error {
	if err := l.health.err(); err != nil {
		return fmt.Errorf("%w; last error of the object store: %w", cause, err)
	}
	return cause
}

// now is the log's monotonic clock in nanoseconds; never 0.
func (l *Log) now() int64 { return int64(time.Since(l.start) + firstNow) }

// firstNow is the value of now at the start.
const firstNow = time.Second

// Read calls f with the committed state, which does not change until f returns. f must be quick,
// because nothing is committed meanwhile. It may retain only data that package state documents as
// immutable.
func (l *Log) Read(f func(*state.State)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.core.State(); s != nil {
		f(s)
	}
}

// Access returns the committed principals and rules, which do not change. It is never nil.
func (l *Log) Access() *access.Table { return l.access.Load() }

// Status returns the current status.
func (l *Log) Status() Status { return *l.status.Load() }

// Done is closed when the log has ended: it stopped, it was closed, or it was fenced without
// Options.Standby. Status tells which.
func (l *Log) Done() <-chan struct{} { return l.done }

// Readers sets whether readers wait for new data (rule R11).
func (l *Log) Readers(waiting bool) {
	l.in.put(message{do: func(ctx context.Context, o *owner) {
		if o.readers != waiting {
			o.readers = waiting
			o.step(ctx, &core.Event{Kind: core.EvReaders, On: waiting})
		}
	}})
}

// Confirm asks the store whether the committed state is the end of the log (rule R11). A leader
// checks that it was not fenced, a follower that its position is still on the chain. If it returns
// nil, the state is at least as new as the call.
func (l *Log) Confirm(ctx context.Context) error { return l.confirm(ctx, false) }

// ConfirmLost is Confirm for a caller that found an object missing which the committed state
// references. A follower then checks that its position is on the chain. If it is not, or objects
// below it were collected, it loads the state again. An object that is still referenced and missing
// after a nil return is lost.
func (l *Log) ConfirmLost(ctx context.Context) error { return l.confirm(ctx, true) }

func (l *Log) confirm(ctx context.Context, lost bool) error {
	return l.call(ctx, func(ctx context.Context, o *owner, answer chan<- error) {
		o.tag++
		o.confirms[o.tag] = answer
		o.step(ctx, &core.Event{Kind: core.EvConfirm, Tag: o.tag, Lost: lost})
	})
}

// call lets the owner call f, which sends one answer, now or later, and returns the answer.
func (l *Log) call(ctx context.Context, f func(context.Context, *owner, chan<- error)) error {
	answer := make(chan error, 1)
	if !l.in.put(message{answer: answer, do: func(ctx context.Context, o *owner) { f(ctx, o, answer) }}) {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Alive returns nil once the owner goroutine has handled everything that was sent to it before: the
// log makes progress, even if the store does not answer. Errors: ErrClosed, the context's cause.
func (l *Log) Alive(ctx context.Context) error {
	_, err := l.ask(func(_ context.Context, _ *owner, answer chan<- reported) { answer <- reported{} })(ctx)
	return err
}

// Close rejects further appends with ErrClosed, stores and answers the queued ones, and waits until
// everything has stopped. If ctx ends first, queued appends are rejected, sent ones are unknown,
// running requests are canceled, and Close returns ctx's error. A second Close waits again.
func (l *Log) Close(ctx context.Context) error {
	l.closed.Do(func() { close(l.closing) })
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		l.kill()
		<-l.ended
		return fmt.Errorf("close log: %w", context.Cause(ctx))
	}
}

// Kill is Close without flushing: queued appends are rejected, sent ones are unknown.
func (l *Log) Kill() {
	l.kill()
	<-l.ended
}
