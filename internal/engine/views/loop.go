package views

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/base/wake"
)

// Worker does the work of a Loop. The loop calls its methods one at a time.
type Worker interface {
	// Work does a part of the outstanding work. It returns how long no more is due unless the log
	// changes; 0 means that more is due now. After Options.Damaged the loop deletes the file.
	Work(ctx context.Context) (wait time.Duration, err error)
	// Failed handles an error of Work. After Options.Damaged it closes the file, because the
	// loop deletes it next. rebuilt says that Work is called again at once, so readers may wait for
	// it instead of getting the error.
	Failed(err error, rebuilt bool)
	// Close withdraws the file from its readers, waits for them, and closes it. The loop calls it
	// once, at its end.
	Close()
}

// Options configure a Loop. All fields must be set.
type Options struct {
	Worker  Worker
	Path    string                  // of the file
	Remove  func(path string) error // deletes the file
	Damaged error                   // Work returns it, or wraps it, if the file is damaged
	Changed <-chan struct{}
	Now     func() time.Time
	Backoff pause.Growth
	Logger  *slog.Logger
	Message string // log message for the first of several errors in a row
	Closed  error  // error of Do after Close
}

// Loop runs a worker whenever the log has changed, Wake was called, or the wait that Work returned
// is over. After an error it backs off. It deletes a damaged file.
type Loop struct {
	o     Options
	stop  context.CancelFunc // nil until Start
	done  chan struct{}      // closed after Worker.Close
	once  sync.Once
	wake  wake.Signal
	calls chan func(ctx context.Context)

	retry   Retry
	rebuilt bool // since the last successful turn, which is one that left no more work
}

// NewLoop returns a loop that runs in the background after Start, or else only by calls of Step.
func NewLoop(o Options) *Loop {
	return &Loop{o: o, done: make(chan struct{}), wake: wake.New(), calls: make(chan func(context.Context))}
}

// Start runs the loop in the background until Close. ctx supplies values to the requests of the
// log; its cancellation is ignored.
func (l *Loop) Start(ctx context.Context) {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.run(ctx)
}

// Close ends the loop and waits for it. It may be called twice, but not concurrently with Step.
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

// Wake makes the loop run a turn soon.
func (l *Loop) Wake() { l.wake.Send() }

// Do makes the loop call f between two turns and returns f's error. Other errors: Options.Closed
// and the context's.
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

// Step runs one turn and returns how long no more work is due. It is for loops that were not
// started.
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

// failed handles an error of a turn and deletes a damaged file. The first rebuild since a
// successful turn is followed by the next turn at once; any other error backs off.
func (l *Loop) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	damaged := errors.Is(err, l.o.Damaged)
	rebuilt := damaged && !l.rebuilt
	l.o.Worker.Failed(err, rebuilt)
	if damaged {
		remove := l.o.Remove(l.o.Path)
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

// Idle is how long a turn waits if only a change can give it work. It also bounds the delay of a
// retry after the clock was set back.
const Idle = time.Hour

// Retry is the time of the next attempt after failures. The zero value has no failures.
type Retry struct {
	Times int // failures in a row
	until time.Time
}

// Again records a failure at now and returns the wait before the next attempt.
func (r *Retry) Again(now time.Time, b pause.Growth) time.Duration {
	r.Times++
	d := b.After(r.Times)
	r.until = now.Add(d)
	return d
}

// Left is the remaining wait before the next attempt, 0 if it is due. A wait above b.Max means that
// the clock was set back since Again, so the attempt is due.
func (r *Retry) Left(now time.Time, b pause.Growth) time.Duration {
	if d := r.until.Sub(now); d > 0 && d <= b.Max {
		return d
	}
	return 0
}
