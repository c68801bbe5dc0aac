package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// Log is one shard's log on a store. Its methods may be called concurrently.
type Log struct {
	opt    Options
	start  time.Time
	in     inbox
	met    *meters
	queued atomic.Int64 // bytes of appends that wait to be frozen

	mu   sync.RWMutex // guards the core's committed state: the owner steps under Lock, others read under RLock
	core *core.Core

	health  health
	proven  core.Proven // of the collection: one pass runs at a time
	branch  string      // of the collection: the object that it raised an alarm for
	status  atomic.Pointer[Status]
	decided chan struct{} // closed when the role is no longer RoleStarting
	done    chan struct{} // closed when the log can not go on: fenced, stopped or closed
	ended   chan struct{} // closed when the owner and all it started have returned
	closing chan struct{} // closed by the first Close
	clock   clock
	closed  sync.Once
	kill    context.CancelFunc // ends running requests
}

// Status is what a log is at the moment.
type Status struct {
	Role  core.Role
	Epoch uint32 // that it leads or follows; once fenced, the one it led: what it shows is of that one
	Err   error  // with RoleStopped: why
	Over  error  // with RoleFenced and RoleStopped: what everything is refused with (core.Core.Err)
}

// Open starts a log and waits until it leads or, with Core.ReadOnly, follows. If ctx ends first, the log is closed again.
// The context's values go to the store's requests; its end after Open does not matter.
func Open(ctx context.Context, o Options) (*Log, error) {
	if o.Store == nil {
		return nil, errors.New("open log: no store")
	}
	o = o.withDefaults()
	l := &Log{
		opt: o, start: time.Now(), core: core.New(o.Core),
		in:      inbox{wake: make(chan struct{}, 1)},
		decided: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}), closing: make(chan struct{}),
	}
	l.clock.time.Accept = o.AcceptClock
	_, _ = l.time() // begins
	l.status.Store(&Status{})
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

// openError adds what the store said last to the reason for giving up.
func (l *Log) openError(cause error) error {
	if err := l.health.err(); err != nil {
		return fmt.Errorf("%w; last answer of the store: %w", cause, err)
	}
	return cause
}

// now is the time on the log's clock: nanoseconds that never go back, and never 0.
func (l *Log) now() int64 { return int64(time.Since(l.start) + firstNow) }

// firstNow is the time on a log's clock when it starts.
const firstNow = time.Second

// Read calls f with the committed state, which does not change until f returns. f must be quick: while it runs nothing
// is committed. It must keep nothing but what the state's package says is immutable.
func (l *Log) Read(f func(*state.State)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.core.State(); s != nil {
		f(s)
	}
}

// Status says what the log is at the moment.
func (l *Log) Status() Status { return *l.status.Load() }

// Done is closed when the log can not go on: it was fenced, it stopped, or it was closed. Status says which.
func (l *Log) Done() <-chan struct{} { return l.done }

// Readers tells whether anybody waits for new data (rule R11).
func (l *Log) Readers(waiting bool) { l.in.put(message{readers: &waiting}) }

// confirmation is one call of Confirm or ConfirmLost.
type confirmation struct {
	lost   bool
	answer chan error // capacity 1
}

// Confirm asks the store whether the committed state is the end of the log (rule R11): at the leader that nobody took
// over, elsewhere that the own position is still on the chain. When it returns nil, the state is no older than the call.
func (l *Log) Confirm(ctx context.Context) error { return l.confirm(ctx, false) }

// ConfirmLost is Confirm for who found that an object is missing which the committed state references: a position that
// only seems to be the end of the log is then looked for on the chain, and if it is not there, or objects below it were
// collected, the state is loaded anew. What is still referenced when it returns nil, and still missing, is lost.
func (l *Log) ConfirmLost(ctx context.Context) error { return l.confirm(ctx, true) }

func (l *Log) confirm(ctx context.Context, lost bool) error {
	c := &confirmation{lost: lost, answer: make(chan error, 1)}
	if !l.in.put(message{confirm: c}) {
		return ErrClosed
	}
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Alive returns nil once the goroutine that owns the log has handled everything that was sent to it
// before: the log makes progress, even if the store does not answer. Errors: ErrClosed, ctx's cause.
func (l *Log) Alive(ctx context.Context) error {
	answer := make(chan struct{}, 1)
	if !l.in.put(message{alive: answer}) {
		return ErrClosed
	}
	select {
	case <-answer:
		return nil
	case <-l.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close stops accepting appends (they are rejected with ErrClosed), flushes what is queued and waits until it is
// answered and everything has stopped. When ctx ends first, what is queued is rejected, what was sent is unknown, and
// running requests are cut off. It returns ctx's error then. Closing twice waits again.
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

// Kill is Close without flushing: what is queued is rejected, what was sent is unknown.
func (l *Log) Kill() {
	l.kill()
	<-l.ended
}
