package follow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/localdb"
)

// Worker is what a Loop drives. The loop calls its methods one at a time.
type Worker interface {
	// Work does some of what there is to do, and returns how long there is nothing more unless the log changes. An error that is
	// localdb.ErrDamaged says that the file must be deleted.
	Work(ctx context.Context) (wait time.Duration, err error)
	// Failed handles an error of Work. It closes the file after localdb.ErrDamaged, since the loop deletes it then. rebuilt
	// says that Work is called again at once, so readers may wait for it instead of hearing the error.
	Failed(err error, rebuilt bool)
	// Close withdraws the file from its readers, waits for them, and closes it. It is called once, at the end.
	Close()
}

// Options are what a Loop is made with. All must be set.
type Options struct {
	Worker  Worker
	Path    string // of the file
	Changed <-chan struct{}
	Now     func() time.Time
	Backoff Backoff
	Logger  *slog.Logger
	Message string // of the first of several errors, as it is logged
	Closed  error  // of Do after Close
}

// Loop runs a worker: whenever the log has changed, when Wake is called, and when the time that Work gave is over. After an
// error it waits longer each time. It deletes a file that is damaged.
type Loop struct {
	o     Options
	stop  context.CancelFunc // nil until Start
	done  chan struct{}      // closed when the worker was closed
	once  sync.Once
	wake  chan struct{} // capacity 1
	calls chan func(ctx context.Context)

	retry   Retry
	rebuilt bool // since the last good turn: one that had nothing more to do
}

// NewLoop returns a loop that runs after Start, or goes on only by Step.
func NewLoop(o Options) *Loop {
	return &Loop{o: o, done: make(chan struct{}), wake: make(chan struct{}, 1), calls: make(chan func(context.Context))}
}

// Start runs the loop until Close. ctx gives values to the requests of the log; its end does not matter.
func (l *Loop) Start(ctx context.Context) {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.run(ctx)
}

// Close ends the loop and waits for that. It may be called twice; beside Step it must not be called.
func (l *Loop) Close() {
	if l.stop == nil {
		l.once.Do(l.end)
		return
	}
	l.stop()
	<-l.done
}

func (l *Loop) end() {
	l.o.Worker.Close()
	close(l.done)
}

// Done is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Wake begins a turn soon.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Do has the loop call f between two turns, and returns its error. Other errors: Options.Closed, ctx's.
func (l *Loop) Do(ctx context.Context, f func(ctx context.Context) error) error {
	result := make(chan error, 1)
	select {
	case l.calls <- func(ctx context.Context) { result <- f(ctx) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.o.Closed
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.o.Closed
	}
}

func (l *Loop) run(ctx context.Context) {
	defer l.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := l.Step(ctx)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(wait)
		select {
		case <-l.o.Changed:
		case <-l.wake:
		case <-timer.C:
		case f := <-l.calls:
			f(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Step is one turn: it returns how long there is nothing more to do. It is for loops that were not started.
func (l *Loop) Step(ctx context.Context) time.Duration {
	if d := l.retry.Left(l.o.Now(), l.o.Backoff); d > 0 {
		return d
	}
	wait, err := l.o.Worker.Work(ctx)
	if err != nil {
		return l.failed(ctx, err)
	}
	if wait > 0 {
		l.retry, l.rebuilt = Retry{}, false
	}
	return wait
}

// failed deletes a damaged file. The next turn follows at once after the first rebuild since a good turn, and otherwise waits.
func (l *Loop) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	damaged := errors.Is(err, localdb.ErrDamaged)
	rebuilt := damaged && !l.rebuilt
	l.o.Worker.Failed(err, rebuilt)
	if damaged {
		remove := localdb.Remove(l.o.Path)
		if rebuilt && remove == nil {
			l.rebuilt = true
			return 0
		}
		if remove != nil {
			err = remove
			l.o.Worker.Failed(err, false)
		}
	}
	if l.retry.Times == 0 {
		l.o.Logger.Error(l.o.Message, "path", l.o.Path, "err", err)
	}
	return l.retry.Again(l.o.Now(), l.o.Backoff)
}
