package log

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

const (
	// SkewMax is the largest accepted difference between the machine's clock and the store's.
	SkewMax = 60 * time.Second
	// LeapMax is how far ahead of the log's last time a clock may be at a start.
	LeapMax = 400 * 24 * time.Hour
	// leapDistrust is the leap at a start from which retention distrusts the clock at first.
	leapDistrust = 24 * time.Hour
	// never is a time (µs, in 2001) below which a log holds only empty slots, which count from 0.
	never = 1e15
)

// Reading is the readings of the clocks at one moment.
type Reading struct {
	Mono int64 // monotonic clock, ns
	Wall int64 // the machine's clock, µs since 1970
	// Store: the store reports its time, and the machine's clock is ahead of it by Skew.
	Store bool
	Skew  time.Duration
}

// Clock gives the times of a leader's commits (rule R15). If the store reports its time, the
// machine's clock must agree with it. Otherwise the machine's clock is read once, at the start, and
// must agree with the log; from then on the monotonic clock counts. The zero value is ready for
// use. A Clock is not safe for concurrent use.
type Clock struct {
	Accept bool // trust the machine's clock at the start, whatever the log says

	begun   bool
	started Reading
	last    int64 // the log's last time when this run became leader, µs
	settled bool  // the clock agrees with last, or need not
	leap    time.Duration
}

// ErrClock matches every *ClockError.
var ErrClock = errors.New("the clock is wrong")

// ClockError is why no commit may get the time of the clocks.
type ClockError struct {
	// Skew is how far the machine's clock is ahead of the store's; 0 if it contradicts the log
	// instead.
	Skew time.Duration
	// Last is the log's last time, and Leap how far the clock is ahead of it, if the clock
	// contradicts the log.
	Last time.Time
	Leap time.Duration
}

func (e *ClockError) Error() string {
	switch {
	case e.Skew != 0:
		return fmt.Sprintf("clock is %v off the store's (at most %v is allowed), and writes wait: set the machine's clock",
			e.Skew.Round(time.Second), SkewMax)
	case e.Leap <= 0:
		return fmt.Sprintf("clock is %v behind the log's last time, %s, and writes wait: set the machine's clock; or, if the log's time is wrong, "+
			`run "seb time reset"; --accept-clock continues at the log's time`, (-e.Leap).Round(time.Second), e.Last.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("clock is %d days ahead of the log's last time, %s (at most %d are accepted), and writes wait: set the machine's clock, "+
		"or start with --accept-clock", e.Leap/(24*time.Hour), e.Last.UTC().Format(time.RFC3339), LeapMax/(24*time.Hour))
}

// Is reports whether target is ErrClock.
func (e *ClockError) Is(target error) bool { return target == ErrClock }

// Lead sets the log's last time, µs, when this run becomes leader.
func (c *Clock) Lead(last int64) { c.last = last }

// Time is the time of a commit that is made now, µs since 1970. With a *ClockError no commit may be
// made; the time is returned nevertheless.
func (c *Clock) Time(r Reading) (int64, error) {
	if !c.begun {
		c.begun, c.started = true, r
	}
	at := r.Wall
	if r.Store {
		if r.Skew.Abs() > SkewMax {
			return at, &ClockError{Skew: r.Skew}
		}
	} else {
		at = c.started.Wall + (r.Mono-c.started.Mono)/1000
	}
	if c.settled || c.last < never {
		return at, nil
	}
	leap := leap(at, c.last)
	if !r.Store && !c.Accept && (leap <= 0 || leap > LeapMax) {
		return at, &ClockError{Last: time.UnixMicro(c.last), Leap: leap}
	}
	c.settled, c.leap = true, leap
	return at, nil
}

// leap is the duration between two times, limited to what a Duration can represent.
func leap(to, from int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(to-from, -most), most)) * time.Microsecond
}

// Leapt reports whether the clock was so far ahead of the log's last time, when this run became
// leader, that it may be wrong.
func (c *Clock) Leapt() bool { return c.leap > leapDistrust }

// Set trusts the machine's current clock, as an operator has confirmed. A *ClockError means that
// the store's clock contradicts it.
func (c *Clock) Set(r Reading) (int64, error) {
	if r.Store && r.Skew.Abs() > SkewMax {
		return 0, &ClockError{Skew: r.Skew}
	}
	if c.begun, c.started = true, r; !c.settled && c.last >= never {
		c.leap = leap(r.Wall, c.last)
	}
	c.settled = true
	return r.Wall, nil
}

const (
	// heldPoll is how often a leader checks the clock again while writes wait for it.
	heldPoll = time.Second
	// askEvery is how often it then asks the store for its time.
	askEvery = 5 * time.Second
	// leapWait is how long nothing is deleted for its age after a start with a leap of the time.
	leapWait = 10 * time.Minute
)

// clock is the log's clock, shared by all goroutines.
type clock struct {
	mu    sync.Mutex // guards the fields below
	time  Clock
	since time.Time // when it was started
}

// restartClock reads the clocks again, as at a start: another broker may have led with its own clock.
func (l *Log) restartClock() {
	l.clock.mu.Lock()
	l.clock.time, l.clock.since = Clock{Accept: l.opt.AcceptClock}, time.Now()
	l.clock.mu.Unlock()
	_, _ = l.time() // reads them
}

// reading returns the current readings of the clocks.
func (l *Log) reading() Reading {
	if l.opt.Clocks != nil {
		return l.opt.Clocks()
	}
	r := Reading{Mono: mono(), Wall: time.Now().UnixMicro()}
	if c, ok := objstore.As[objstore.Clocked](l.opt.Store); ok {
		r.Skew, r.Store = c.ClockSkew()
	}
	return r
}

func (l *Log) time() (int64, error) {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.time.Time(l.reading())
}

// Now is the log time of a commit that is made now. It may be wrong while ClockError is not nil.
func (l *Log) Now() time.Time {
	at, _ := l.time()
	return time.UnixMicro(at)
}

// ClockError is why no commit is made at the time of the clock, or nil (rule R15). It makes no
// request.
func (l *Log) ClockError() error {
	_, err := l.time()
	return err
}

// TimeDoubted reports whether nothing may be deleted for its age. That is the case while the clock
// is wrong, and for a while after a leap at the start, so that an operator can notice it.
func (l *Log) TimeDoubted() bool {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	_, err := l.clock.time.Time(l.reading())
	return err != nil || l.clock.time.Leapt() && time.Since(l.clock.since) < leapWait
}

// startClock gives the clock the log's time when this run becomes leader.
func (o *owner) startClock() {
	o.clock.mu.Lock()
	o.clock.time.Lead(o.core.State().AppendTime)
	o.clock.mu.Unlock()
	if err := o.ClockError(); err != nil {
		o.opt.Logger.Warn("commits wait for the clock", "shard", o.opt.Core.Shard, "err", err)
	}
}

// clockHolds returns the log time of a commit that is made now, and whether writes wait for the
// clock. If the store's clock is the reason it asks the store for its time, so that a corrected
// clock is noticed.
func (o *owner) clockHolds(ctx context.Context) (at int64, holds bool) {
	at, err := o.time()
	if o.core.Role() != core.RoleLeader {
		o.held = false
		return at, false
	}
	if was := o.held; was != (err != nil) {
		o.held = !was
		if err != nil {
			o.opt.Logger.Warn("writes wait for the clock", "shard", o.opt.Core.Shard, "err", err)
		} else {
			o.opt.Logger.Info("writes continue: the clock is right", "shard", o.opt.Core.Shard)
		}
	}
	if err == nil {
		return at, false
	}
	if e, ok := errors.AsType[*ClockError](err); ok && e.Skew != 0 && o.now() >= o.askAt {
		o.askAt = o.now() + int64(askEvery)
		o.gets.run(func() { o.askTime(ctx) })
	}
	return at, true
}

// askTime makes a request to get the date of its answer.
func (o *owner) askTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	if object, err := o.opt.Store.Get(ctx, core.MetaKey, objstore.Whole); err == nil {
		_ = object.Body.Close()
	}
}

// ResetTime assumes that the machine's clock is right, and returns the change by which the log time
// goes back to it (rule R15). A proposal of it is refused with state.ErrNotLater if the log time is
// not later. Error: the store's clock contradicts the machine's.
func (l *Log) ResetTime() (r state.Record, err error) {
	l.clock.mu.Lock()
	at, err := l.clock.time.Set(l.reading())
	l.clock.mu.Unlock()
	if err != nil {
		return r, err
	}
	return state.Record{Kind: state.TimeReset, Time: at}, nil
}
